// A store of one's own: sessions in one file of JSON lines, blobs and locks as long as the process lives.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { mkdtemp, open, readFile, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInMemoryStore, createRuntime, type NewEntry, type Store } from "rkat";

interface Line {
  readonly at_ms: number;
  readonly session_id: string;
  readonly after: number;
  readonly entries: readonly NewEntry[];
}

async function openJsonStore(path: string): Promise<Store> {
  let now = Date.now();
  // The file is the truth, the store in memory a fold of it that is made again at every start.
  const folded = createInMemoryStore({ now: () => now });
  const apply = ({ at_ms, session_id, after, entries }: Line) => {
    now = at_ms;
    return folded.log.append(session_id, after, entries);
  };
  const lines = async (): Promise<readonly Line[]> =>
    existsSync(path)
      ? (await readFile(path, "utf8"))
          .split("\n")
          .filter(Boolean)
          .map((line) => JSON.parse(line))
      : [];
  for (const line of await lines()) await apply(line);
  let file = await open(path, "a", 0o600);
  return {
    ...folded,
    // Who forgets something wants proof that it is gone; this store has none, so forgetting is refused.
    forgettings: undefined,
    log: {
      read: folded.log.read,
      append: async (session_id, after, entries) => {
        const line: Line = { at_ms: Date.now(), session_id, after, entries };
        const end = (await folded.sessions.get(session_id))?.last_seq ?? 0;
        if (end !== after) return apply(line); // It rejects, and nothing is written.
        await file.appendFile(`${JSON.stringify(line)}\n`);
        await file.datasync(); // What is acknowledged is on the disk.
        return apply(line);
      },
      rewrite: async (session_id, entries) => {
        await folded.log.rewrite(session_id, entries);
        const bodies = new Map(entries.map(({ seq, body }) => [seq, body]));
        const rewritten = (await lines()).map((line) => {
          let seq = line.after + 1;
          const now = line.entries.map(({ span, body }) => {
            const entry = { span, body: bodies.get(seq) ?? body };
            seq += span;
            return entry;
          });
          return JSON.stringify(line.session_id === session_id ? { ...line, entries: now } : line);
        });
        await writeFile(`${path}.new`, `${rewritten.join("\n")}\n`, { mode: 0o600, flush: true });
        await rename(`${path}.new`, path);
        await file.close();
        file = await open(path, "a", 0o600);
      },
    },
    close: () => file.close(),
  };
}

const folder = await mkdtemp(join(tmpdir(), "rkat-own-store-"));
const path = join(folder, "sessions.jsonl");

const first = createRuntime({ model: "offline", store: await openJsonStore(path) });
const { id } = await first.createSession("My name is Ada.");
await first.close();

// Another process would do the same: the file is read, and the session goes on.
const second = createRuntime({ model: "offline", store: await openJsonStore(path) });
const { text } = await second.session(id).turn("What is my name?");
console.log(text);
assert.match(text, /Ada/);
assert.equal((await second.readSession(id)).messageCount, 4);
assert.deepEqual(
  (await second.listSessions()).map(({ sessionId: session_id }) => session_id),
  [id],
);
await second.close();
await rm(folder, { recursive: true });
