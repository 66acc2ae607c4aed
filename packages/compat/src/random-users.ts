/** A person with the groups and properties that the flags of a test look at. */
export interface RandomUser {
  readonly distinctId: string;
  readonly groups: Record<string, string>;
  readonly personProperties: Record<string, unknown>;
  readonly groupProperties: Record<string, Record<string, unknown>>;
}

/** So many users, the same on every run. Every property is always given: nothing is left open. */
export function randomUsers(count: number): readonly RandomUser[] {
  const random = numbersFrom(20_240_517);
  const oneOf = <Value>(values: readonly Value[]): Value => {
    const value = values[Math.floor(random() * values.length)];
    if (value === undefined) throw new Error("nothing to choose from");
    return value;
  };
  const whole = (below: number) => Math.floor(random() * below);

  return Array.from({ length: count }, (_, index) => {
    const company = `company-${whole(200)}`;
    const project = `project-${whole(200)}`;
    return {
      distinctId: oneOf([`user-${index}`, `${whole(1e9)}`, `ürsula-${index}@example.org`]),
      groups: { company, project },
      personProperties: {
        plan: oneOf(["free", "pro", "Enterprise", "PRO"]),
        email: `${oneOf(["ann", "bob", "cy"])}${whole(50)}@${oneOf(["acme.com", "Acme.org", "x.io"])}`,
        name: oneOf(["Straße", "STRASSE", "Ünal", "ünal", "100%", "a.b*c"]),
        age: whole(100),
        score: whole(1000) / 8 + 0.0625,
        has_budget: oneOf([true, false]),
        beta: oneOf(["true", "false", "TRUE", "yes"]),
        signed_up: new Date(Date.UTC(2023, whole(24), 1 + whole(28), whole(24))).toISOString(),
        last_seen: new Date(Date.now() - (whole(60) + 0.5) * 86_400_000).toISOString(),
        app_version: `${whole(3)}.${whole(12)}.${whole(5)}`,
        nothing: null,
        $device_id: `device-${whole(300)}`,
      },
      groupProperties: {
        company: {
          seats: whole(100),
          tier: oneOf(["gold", "silver"]),
          name: `Company ${whole(9)}`,
        },
        project: { archived: oneOf(["true", "false"]), size: whole(100) },
      },
    };
  });
}

/** Numbers from 0 up to 1 by a linear congruential generator of 32 bits. */
function numbersFrom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}
