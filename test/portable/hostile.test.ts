import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { below, chance } from "../compaction/chances.ts";
import { createRandom } from "../crash/random.ts";
import { byEffort } from "../support/effort.ts";
import { testSeed } from "../support/seed.ts";
import { emptyRealm, entriesOf, exported, imported } from "./carried.ts";

const CHANGES = byEffort({ usual: 150, full: 5_000 });
const TIMEOUT_MS = 600_000;

type Line = Record<string, unknown>;

/** The lines of a small session's file. */
async function someFile(): Promise<{ readonly id: string; readonly lines: Line[] }> {
  const { runtime } = emptyRealm();
  const { id } = await runtime.createSession("The server is called heron.");
  await runtime.session(id).turn("And the port is 8443.");
  const lines = (await exported(runtime, id)).trimEnd().split("\n");
  return { id, lines: lines.map((line) => JSON.parse(line) as Line) };
}

/** A file of these lines that says of itself that it is whole. */
function sealed(lines: readonly Line[]): string {
  const text = lines.map((line) => `${JSON.stringify(line)}\n`).join("");
  const blobs = lines.filter((line) => "blob_id" in line).length;
  const entries = lines.length - 1 - blobs;
  const sha256 = createHash("sha256").update(text).digest("hex");
  return `${text}${JSON.stringify({ end: true, entries, blobs, sha256 })}\n`;
}

describe("a file that is not what was exported", () => {
  it(
    `[K2] with one byte changed, lost or added at ${CHANGES} places, is refused or the same session`,
    async () => {
      const seed = testSeed();
      const random = createRandom(seed);
      const { id, lines } = await someFile();
      const whole = Buffer.from(sealed(lines.slice(0, -1)));
      const first = emptyRealm();
      await imported(first.runtime, whole);
      const wanted = await entriesOf(first.store, id);
      const { store, runtime } = emptyRealm();
      for (let change = 0; change < CHANGES; change += 1) {
        const at = below(random, whole.length);
        const added = chance(random, 0.2) ? [below(random, 256)] : [];
        const kept = chance(random, 0.6) ? [(whole[at] ?? 0) ^ (1 + below(random, 255))] : [];
        const changed = Buffer.concat([
          whole.subarray(0, at),
          Buffer.from([...added, ...kept]),
          whole.subarray(at + 1),
        ]);
        const outcome = await imported(runtime, changed).catch((thrown: unknown) => thrown);
        if (outcome instanceof Error) {
          expect({ seed, at, outcome }).toMatchObject({ outcome: { code: "INVALID_PARAMS" } });
          expect(outcome.message).not.toMatch(/\n/);
          expect(await store.sessions.page({ max: 1 })).toEqual([]);
        } else {
          expect({ seed, at, entries: await entriesOf(store, id) }).toEqual({ seed, at, entries: wanted });
          return;
        }
      }
    },
    TIMEOUT_MS,
  );

  it("[K2] cut off anywhere is refused with one sentence, and nothing of it is kept", async () => {
    const { lines } = await someFile();
    const whole = sealed(lines.slice(0, -1));
    const { store, runtime } = emptyRealm();
    for (let length = 0; length < whole.length - 1; length += 97) {
      const refusal = await imported(runtime, whole.slice(0, length)).catch((thrown: Error) => thrown);
      expect(refusal).toMatchObject({ code: "INVALID_PARAMS", message: /cut off|no JSON|not UTF-8/ });
    }
    expect(await store.sessions.page({ max: 1 })).toEqual([]);
    // The last sign ends nothing but a line.
    await imported(runtime, whole.trimEnd());
  });

  const body = (line: Line | undefined): Line => line?.body as Line; // Every entry has one.
  const wrong: readonly (readonly [name: string, change: (lines: Line[]) => Line[] | undefined, refusal: RegExp])[] = [
    ["a gap in its seqs", (lines) => lines.toSpliced(3, 1), /line 4: seq: it is \d+, and 3 follows/],
    [
      "entries in another order",
      ([h, a, b, c, ...more]) => [h, a, c, b, ...more] as Line[],
      /line 3: seq: it is 3, and 2/,
    ],
    [
      "a wrong span",
      (lines) => void Object.assign(lines[3] ?? {}, { span: 2 }),
      /line 4: span: it is 2, and .* takes 1/,
    ],
    ["an unknown kind", (lines) => void Object.assign(body(lines[2]), { kind: "gossip" }), /line 3: body.kind: /],
    ["no kind", (lines) => void Object.assign(lines[2] ?? {}, { body: [] }), /line 3: body: /],
    [
      "an unknown field",
      (lines) => void Object.assign(body(lines[2]), { extra: 1 }),
      /line 3: body.extra: there is no/,
    ],
    [
      "an unknown field far in",
      (lines) => void Object.assign((body(lines[2]).message as Line) ?? {}, { extra: 1 }),
      /line 3: body.message.extra: there is no such field/,
    ],
    ["an id that is a path", ([h, ...more]) => [{ ...h, session_id: "../../etc" }, ...more], /line 1: session_id: /],
    ["another version", ([h, ...more]) => [{ ...h, version: 2 }, ...more], /line 1: version: it is of another version/],
    [
      "another length",
      ([h, ...more]) => [{ ...h, last_seq: 99 }, ...more],
      /the log ends at \d+, and its first line says 99/,
    ],
    ["no beginning", ([h, , ...more]) => [h as Line, ...more], /line 2: seq: it is 2, and 1 follows/],
    [
      "a time beyond all clocks",
      (lines) => void Object.assign(lines[2] ?? {}, { timestamp_ms: 2 ** 50 }),
      /line 3: timestamp/,
    ],
    ["a seq that is a text", (lines) => void Object.assign(lines[2] ?? {}, { seq: "2" }), /line 3: seq: /],
    [
      "two beginnings",
      ([h, a, b, ...more]) => [h, a, { ...b, body: a?.body }, ...more] as Line[],
      /line 3: body.kind: a log begins once/,
    ],
    [
      "a blob of other bytes",
      ([h, ...more]) =>
        [h, { blob_id: `sha256:${"0".repeat(64)}`, media_type: "text/plain", data: "QUJD" }, ...more] as Line[],
      /blobs: the bytes of sha256:0+ are not those/,
    ],
    [
      "a blob of a path",
      ([h, ...more]) => [h, { blob_id: "../x", media_type: "", data: "" }, ...more] as Line[],
      /line 2: blob_id/,
    ],
    [
      "a compaction that shows what is not there",
      ([h, a, b, ...more]) =>
        [
          h,
          a,
          b,
          { seq: 3, span: 1, timestamp_ms: 1, body: { kind: "pinned", seq: 4, pinned: "yes" } },
          ...more,
        ] as Line[],
      /line 4: body.pinned: /,
    ],
  ];

  it.each(wrong)("[K2] with %s, is refused by its line, and nothing of it is kept", async (_, change, refusal) => {
    const { lines } = await someFile();
    const given = lines.slice(0, -1);
    const { store, runtime } = emptyRealm();
    const outcome = await imported(runtime, sealed(change(given) ?? given)).catch((thrown: Error) => thrown);
    expect(outcome).toMatchObject({ code: "INVALID_PARAMS", message: refusal });
    expect((outcome as Error).message.length).toBeLessThan(500);
    expect(await store.sessions.page({ max: 1 })).toEqual([]);
  });

  it("[K2] with JSON that is nested a hundred thousand deep, or a name that nothing is kept under, is refused", async () => {
    const { lines } = await someFile();
    const [header, first] = lines.map((line) => JSON.stringify(line));
    const { runtime } = emptyRealm();
    const deep = `${header}\n${first}\n{"seq":2,"body":${"[".repeat(100_000)}${"]".repeat(100_000)}}\n`;
    await expect(imported(runtime, deep)).rejects.toMatchObject({ message: /line 3: it is nested deeper than 500/ });
    const named = `${header}\n${first?.replace('"body":{', '"body":{"__proto__":{"a":1},')}\n`;
    await expect(imported(runtime, named)).rejects.toMatchObject({ message: /line 2: body.__proto__: choose another/ });
  });
});
