import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { grammarFaults } from "@rkat/core/compaction/grammar";
import { createInMemoryStore, type Runtime } from "@rkat/core/create-runtime";
import { FORMATS, type FormatName, formatOf } from "@rkat/core/transfer/formats/formats";
import { importConversation, readConversations } from "rkat/transfer/session-import";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { byEffort } from "../support/effort.ts";
import { fc } from "../support/property.ts";
import { scriptedRuntime } from "../support/runtime.ts";
import { drawConversation, marksIn, WRITERS } from "./foreign-files.ts";

const NAMES = Object.keys(WRITERS) as readonly (keyof typeof WRITERS)[];
const SEEDS = fc.integer({ min: 1, max: 2 ** 31 });
const signal = new AbortController().signal;
let folder: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "rkat-imports-"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function emptyRuntime(): Runtime {
  return scriptedRuntime(() => ({ text: "Go on." }), { store: createInMemoryStore(), memory: {}, compaction: {} })
    .runtime;
}

async function importText(runtime: Runtime, name: FormatName, given: { readonly file: string; readonly text: string }) {
  const path = join(folder, given.file);
  writeFileSync(path, given.text);
  const all = [];
  for (const one of await readConversations(path, given.file, name)) {
    if (one.history.length === 0) continue;
    all.push({ ...(await importConversation(runtime, one, { source: name, signal })), leftOut: one.leftOut });
  }
  return all;
}

async function transcriptOf(runtime: Runtime, session_id: string) {
  return (await runtime.dispatch("readHistory", { session_id })).messages;
}

async function summariesOf(runtime: Runtime, session_id: string): Promise<readonly string[]> {
  const { compactions } = await runtime.dispatch("listCompactions", { session_id });
  return compactions.map(({ summary }) => summary);
}

describe.each(NAMES)("a file of the format %s", (name) => {
  const { write, file } = WRITERS[name];

  it("[U1] is known by its beginning", () => {
    for (let seed = 1; seed <= 20; seed += 1) {
      const drawn = drawConversation(seed);
      expect(formatOf(write(drawn).slice(0, 64 * 1_024), file(drawn))).toBe(name);
    }
  });

  it("[U1] loses no message, call or result, and every provider accepts it", async () => {
    await fc.assert(
      fc.asyncProperty(SEEDS, async (seed) => {
        const drawn = drawConversation(seed);
        const text = write(drawn);
        const runtime = emptyRuntime();
        const [imported] = await importText(runtime, name, { file: file(drawn), text });
        const session_id = imported?.session_id ?? "";
        const messages = await transcriptOf(runtime, session_id);
        const there = [
          ...marksIn(JSON.stringify(messages)),
          ...marksIn((await summariesOf(runtime, session_id)).join()),
        ];
        expect(there.toSorted()).toEqual([...new Set(marksIn(text))].toSorted());
        expect(grammarFaults(closed(messages))).toEqual([]);
        const { messages: context } = await runtime.dispatch("readContext", { session_id });
        expect(grammarFaults(closed(context))).toEqual([]);
        const { text: answer } = await runtime.dispatch("startTurn", { session_id, prompt: "Go on?" });
        expect(answer).toBe("Go on.");
        await runtime.close();
      }),
      { numRuns: byEffort({ quick: 25, usual: 300, full: 3_000 }) },
    );
  });

  it("[U1] imported again, changes nothing; imported while it grows, it is what it is when imported once", async () => {
    await fc.assert(
      fc.asyncProperty(SEEDS, fc.double({ min: 0, max: 1, noNaN: true }), async (seed, share) => {
        const drawn = drawConversation(seed);
        const text = write(drawn);
        const once = emptyRuntime();
        const [first] = await importText(once, name, { file: file(drawn), text });
        const session_id = first?.session_id ?? "";
        const [again] = await importText(once, name, { file: file(drawn), text });
        expect(again).toMatchObject({ session_id, added: 0, replaced: 0, compactions: 0 });
        if ("readLines" in FORMATS[name]) {
          const growing = emptyRuntime();
          const lines = text.split("\n");
          const begun = lines.slice(0, Math.ceil(lines.length * share)).join("\n");
          await importText(growing, name, { file: file(drawn), text: begun });
          await importText(growing, name, { file: file(drawn), text });
          expect(await transcriptOf(growing, session_id)).toEqual(await transcriptOf(once, session_id));
          expect(await summariesOf(growing, session_id)).toEqual(await summariesOf(once, session_id));
          await growing.close();
        }
        await once.close();
      }),
      { numRuns: byEffort({ quick: 20, usual: 200, full: 2_000 }) },
    );
  });
});

type Messages = Awaited<ReturnType<typeof transcriptOf>>;

/** Calls at the end wait for their results. */
function closed(messages: readonly Messages[number][]): readonly Messages[number][] {
  const last = messages.at(-1);
  const isOpen = last?.role === "block_assistant" && last.blocks.some((block) => block.block_type === "tool_use");
  return isOpen ? messages.slice(0, -1) : messages;
}
