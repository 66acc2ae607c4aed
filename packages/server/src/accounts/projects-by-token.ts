import { Refusal } from "../http/errors.ts";
import type { AccountStore, Project } from "./account-store.ts";

/**
 * Projects by public key for the hot public routes. A known key is answered without a promise;
 * what other processes change is seen within `freshForMs`, what this process changes at once
 * ({@link ProjectsByToken.forget}). Unknown keys are remembered too, so that a flood of wrong keys
 * costs no database reads.
 */
export interface ProjectsByToken {
  find(token: string): Project | undefined | Promise<Project | undefined>;
  /** To be called when a project changed. */
  forget(): void;
}

interface Entry {
  readonly project: Project | undefined;
  readonly staleAt: number;
}

const MAX_ENTRIES = 10_000;

/** Remembers projects by key, at most 10,000 keys at a time. */
export function createProjectsByToken(options: {
  accounts: Pick<AccountStore, "projectByApiToken">;
  now: () => number;
  freshForMs?: number;
}): ProjectsByToken {
  const { accounts, now, freshForMs = 1000 } = options;
  const entries = new Map<string, Entry>();
  const loads = new Map<string, Promise<Project | undefined>>();
  let generation = 0;

  async function load(token: string): Promise<Project | undefined> {
    const startedIn = generation;
    try {
      const project = await accounts.projectByApiToken(token);
      if (startedIn === generation) {
        if (entries.size >= MAX_ENTRIES) entries.clear();
        entries.set(token, { project, staleAt: now() + freshForMs });
      }
      return project;
    } finally {
      loads.delete(token);
    }
  }

  return {
    find(token) {
      const entry = entries.get(token);
      if (entry && now() < entry.staleAt) return entry.project;
      const running = loads.get(token);
      if (running) return running;
      const started = load(token);
      loads.set(token, started);
      return started;
    },
    forget() {
      generation++;
      entries.clear();
      loads.clear();
    },
  };
}

/**
 * The project of a public key that a request names, without a promise where it is known. Throws a
 * 401 {@link Refusal} for a key that nobody has (posthog-api 8.4, 9.4).
 */
export function requireProject(
  projects: ProjectsByToken,
  token: string,
): Project | Promise<Project> {
  const found = projects.find(token);
  return found instanceof Promise ? found.then(known) : known(found);
}

function known(project: Project | undefined): Project {
  if (project) return project;
  throw new Refusal(
    "invalid_api_key",
    "Project API key invalid. You can find your project API key in PostHog project settings.",
  );
}
