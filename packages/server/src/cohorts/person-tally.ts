/** A number for each of many persons, how often each did something, say, by UUID: some 50 bytes for each. */
export interface PersonTally {
  /** Persons in it. */
  readonly size: number;
  add(uuid: string, times: number): void;
  /** Puts a number above 0 in the place of what there was. */
  put(uuid: string, number: number): void;
  /** 0 for a person that was never added. */
  times(uuid: string): number;
  /** UUIDs in small letters, in runs. */
  uuids(runLength: number): Generator<readonly string[]>;
}

const WORDS = 4;
const FIRST_CAPACITY = 1024;

/** An empty tally: a table with open addressing, never more than half full. */
export function createPersonTally(): PersonTally {
  let capacity = FIRST_CAPACITY;
  let keys = new Uint32Array(capacity * WORDS);
  // 0 where a place is free: who is in the table did it at least once.
  let counts = new Float64Array(capacity);
  let size = 0;
  const words = new Uint32Array(WORDS);

  function read(uuid: string): void {
    words[0] = Number.parseInt(uuid.slice(0, 8), 16);
    words[1] = Number.parseInt(uuid.slice(9, 13) + uuid.slice(14, 18), 16);
    words[2] = Number.parseInt(uuid.slice(19, 23) + uuid.slice(24, 28), 16);
    words[3] = Number.parseInt(uuid.slice(28, 36), 16);
  }

  /** The place of the UUID in `words`, or the free one where it belongs. */
  function find(): number {
    const [a = 0, b = 0, c = 0, d = 0] = words;
    let place = (Math.imul(d ^ (a * 3), 0x9e3779b1) ^ c) & (capacity - 1);
    for (;;) {
      const at = place * WORDS;
      const isSame =
        keys[at] === a && keys[at + 1] === b && keys[at + 2] === c && keys[at + 3] === d;
      if (counts[place] === 0 || isSame) return place;
      place = (place + 1) & (capacity - 1);
    }
  }

  function grow(): void {
    const [oldKeys, oldCounts] = [keys, counts];
    capacity *= 2;
    keys = new Uint32Array(capacity * WORDS);
    counts = new Float64Array(capacity);
    for (let old = 0; old < oldCounts.length; old++) {
      const count = oldCounts[old] ?? 0;
      if (count === 0) continue;
      for (let word = 0; word < WORDS; word++) words[word] = oldKeys[old * WORDS + word] ?? 0;
      const place = find();
      keys.set(words, place * WORDS);
      counts[place] = count;
    }
  }

  /** The place of a UUID, which is taken if it was free. */
  function placeOf(uuid: string): number {
    if (size * 2 >= capacity) grow();
    read(uuid);
    const place = find();
    if (counts[place] === 0) {
      keys.set(words, place * WORDS);
      size++;
    }
    return place;
  }

  return {
    get size() {
      return size;
    },

    add(uuid, times) {
      if (times <= 0) return;
      const place = placeOf(uuid);
      counts[place] = (counts[place] ?? 0) + times;
    },

    put(uuid, number) {
      counts[placeOf(uuid)] = number;
    },

    times(uuid) {
      read(uuid);
      return counts[find()] ?? 0;
    },

    *uuids(runLength) {
      let run: string[] = [];
      for (let place = 0; place < capacity; place++) {
        if (counts[place] === 0) continue;
        const at = place * WORDS;
        const hex = [0, 1, 2, 3]
          .map((word) => (keys[at + word] ?? 0).toString(16).padStart(8, "0"))
          .join("");
        run.push(
          `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`,
        );
        if (run.length < runLength) continue;
        yield run;
        run = [];
      }
      if (run.length > 0) yield run;
    },
  };
}
