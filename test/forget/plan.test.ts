import { hash } from "node:crypto";
import { AgentEntryBody } from "@rkat/core/contract/agent";
import { FORGOTTEN } from "@rkat/core/contract/compaction";
import { type Entry, EntryBody } from "@rkat/core/contract/entry";
import { ScheduleEntryBody } from "@rkat/core/contract/wire/schedule";
import { eventsOf, spanOf } from "@rkat/core/state/entry-events";
import { type Forgetting, planForgetting, restates } from "@rkat/core/state/forgetting";
import { foldSession } from "@rkat/core/state/whole-state";
import { describe, expect, it } from "vitest";
import { createRandomSession } from "../compaction/random-session.ts";
import { byEffort } from "../support/effort.ts";
import { answered, closed, created, said } from "../support/entries.ts";
import { sampleOf } from "./sample.ts";

const SAID = "the heron of Ålesund";
const yieldToEventLoop = () => undefined;
const nothing: Forgetting = {
  isAll: false,
  isEverywhere: false,
  isGone: () => false,
  finds: () => false,
  says: () => false,
  mac: (text) => hash("sha256", `key ${text}`),
};
const all: Forgetting = { ...nothing, isAll: true };
const everywhere: Forgetting = { ...nothing, isEverywhere: true, finds: (text) => text.includes(SAID) };

const entryOf = <B>(body: B, seq = 1): Entry<B> => ({ seq, span: 1, timestamp_ms: 1_000, body });
const logOf = (...bodies: readonly EntryBody[]): readonly Entry[] => {
  let seq = 1;
  return bodies.map((body) => {
    const entry = { seq, span: spanOf(body), timestamp_ms: 1_000, body };
    seq += entry.span;
    return entry;
  });
};

/** Where a text still stands in a value, by the names of the fields. */
function placesOf(value: unknown, path = ""): readonly string[] {
  if (typeof value === "string") return value.includes(SAID) ? [path] : [];
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([name, field]) => [
    ...(name.includes(SAID) ? [`${path} (name)`] : []),
    ...placesOf(field, Array.isArray(value) ? path : `${path}.${name}`),
  ]);
}

/** What keeps an entry in its place: names and ids, which nobody writes a sentence into; a provider's own tools are `data.name`. */
const NAMES =
  /(?:(?<!\.reason)\.kind|\.client_tools\.name|\.data\.name)$|\.(?:id|by|model|provider|created_at|tool_use_id|call_id|at|day|until|native_of|superseded|session_id|agent|parent|parent_call|event\.type|media_type|decision|[a-z]+_id|calls|pending|currency|selection|class|failure_class|timezone|scopes|strict|strategy|reason_type|status|skill_name|[a-z_]*revision|[a-z_]*digest|[a-z_]*sha256)$/u;

/** What has hashes in it has other ones each time. */
const HASHED: ReadonlySet<string> = new Set(["model_called", "rewritten", "compaction_prepared", "event"]);
const SAMPLES = byEffort({ usual: 40, full: 1_000 });

describe("what a log says once it is forgotten", () => {
  const kinds = EntryBody.options.map((option) => option.shape.kind.value);
  it.each(kinds)("[D9] an entry of the kind %s stays one, is no longer, and says nothing", async (kind) => {
    const option = EntryBody.options.find(({ shape }) => shape.kind.value === kind);
    if (option === undefined || kind === "forgotten") return;
    for (let seed = 1; seed <= SAMPLES; seed += 1) {
      const parsed = EntryBody.safeParse(sampleOf(option, seed, SAID));
      // Some rules of a schema are beyond what is made here.
      if (!parsed.success) continue;
      const before = parsed.data;
      for (const how of [all, everywhere]) {
        const { changed } = await planForgetting([entryOf(before)], how, yieldToEventLoop);
        const after = changed[0]?.body ?? before;
        expect(EntryBody.safeParse(after), JSON.stringify(after)).toMatchObject({ success: true });
        expect(Buffer.byteLength(JSON.stringify(after))).toBeLessThanOrEqual(Buffer.byteLength(JSON.stringify(before)));
        expect(spanOf(after)).toBe(spanOf(before));
        expect(placesOf(after).filter((path) => !NAMES.test(path))).toEqual([]);
        expect(await planForgetting([entryOf(after)], { ...how, mac: () => "0" }, yieldToEventLoop)).toMatchObject(
          HASHED.has(kind) ? {} : { changed: [] },
        );
      }
    }
  });

  const others = [...AgentEntryBody.options, ...ScheduleEntryBody.options];
  it.each(others.map((option) => option.shape.kind.value))(
    "[D9] an agent's or a schedule's entry of the kind %s stays one, is no longer, and says nothing",
    async (kind) => {
      const option = others.find(({ shape }) => shape.kind.value === kind);
      if (option === undefined || kind === "forgotten") return;
      let read = 0;
      for (let seed = 1; seed <= SAMPLES; seed += 1) {
        const parsed = option.safeParse(sampleOf(option, seed, SAID));
        if (!parsed.success) continue;
        const before = parsed.data;
        read += 1;
        for (const how of [all, everywhere]) {
          const { changed } = await planForgetting([entryOf(before)], how, yieldToEventLoop);
          const after = changed[0]?.body ?? before;
          expect(option.safeParse(after), JSON.stringify(after)).toMatchObject({ success: true });
          expect(JSON.stringify(after).length).toBeLessThanOrEqual(JSON.stringify(before).length);
          expect(placesOf(after).filter((path) => !NAMES.test(path))).toEqual([]);
        }
      }
      expect(read).toBeGreaterThan(0);
    },
  );

  it("[D9] a session still folds, turn by turn, whatever was done to it before", async () => {
    for (let seed = 1; seed <= byEffort({ usual: 15, full: 500 }); seed += 1) {
      const session = await createRandomSession(seed, { turnsMax: 6, isWordless: false });
      await session.compact();
      await session.addTurns(3);
      await session.evict();
      await session.rewrite();
      await session.undo();
      const { entries } = session;
      const id = session.state.sessionId;
      const [first] = entries.filter(({ body }) => body.kind === "turn_opened" || body.kind === "imported");
      const one: Forgetting = { ...nothing, isGone: (seq) => seq === first?.seq };
      for (const how of [all, one]) {
        const { changed } = await planForgetting(entries, how, yieldToEventLoop);
        const after = entries.map((entry) => changed.find(({ seq }) => seq === entry.seq) ?? entry);
        const folded = foldSession(id, after);
        expect(folded.transcript.map(({ seq, message }) => [seq, message.role])).toEqual(
          session.state.transcript.map(({ seq, message }) => [seq, message.role]),
        );
        const source = { sessionId: id, textAt: () => "" };
        expect(after.map(({ body }) => eventsOf(body, source).length)).toEqual(
          entries.map(({ body }) => eventsOf(body, source).length),
        );
      }
    }
  });

  it("[D9] a message that is named goes, with the sentences of a summary that retell it; the same words elsewhere stay", async () => {
    const log = logOf(
      created,
      said("My sister Ada lives in Ålesund with a heron."),
      answered("Noted: your sister lives there."),
      closed,
      said("The build takes four minutes."),
    );
    const compacted = sampleOf(optionOf("compacted"), 3, "x") as Record<string, unknown>;
    const summary =
      "The build takes four minutes. Ada, the sister, lives in Ålesund with a heron. Nothing else was said.";
    const entries = [...log, { ...entryOf({ ...compacted, kind: "compacted", summary } as EntryBody, 99) }];
    const texts = ["My sister Ada lives in Ålesund with a heron."];
    const how: Forgetting = { ...nothing, isGone: (seq) => seq === 2, says: restates(texts) };
    const { changed, emptied, cut, holes } = await planForgetting(entries, how, yieldToEventLoop);
    expect(changed.map(({ seq }) => seq)).toEqual([2, 99]);
    expect(changed[0]?.body).toEqual(said(FORGOTTEN));
    expect(changed[1]?.body).toMatchObject({ summary: "The build takes four minutes. Nothing else was said." });
    expect({ emptied, cut }).toEqual({ emptied: 1, cut: 1 });
    expect(holes.map(({ from_seq, to_seq }) => [from_seq, to_seq])).toEqual([
      [2, 2],
      [99, 99],
    ]);
  });

  it("[D9] a tool's name that a model made up goes with the text it says, that of a tool that answered stays", async () => {
    const call = (id: string, name: string): EntryBody => ({
      kind: "assistant",
      message: {
        role: "block_assistant",
        blocks: [{ block_type: "tool_use", data: { id, name, args: {} } }],
        stop_reason: "tool_use",
        created_at: "2026-01-01T00:00:00Z",
      },
      usage: { input_tokens: 1, output_tokens: 1 },
    });
    const result = (id: string, name: string, is_error: boolean): EntryBody => ({
      kind: "tool_results",
      message: {
        role: "tool_results",
        results: [{ tool_use_id: id, content: "42", is_error }],
        created_at: "2026-01-01T00:00:00Z",
      },
      calls: [{ name, duration_ms: 1, counted: true }],
    });
    const log = logOf(
      created,
      said("Find her."),
      call("1", "find_marit_heron"),
      result("1", "find_marit_heron", true),
      call("2", "find_heron"),
      result("2", "find_heron", false),
    );
    const how: Forgetting = { ...everywhere, finds: (text) => text.includes("heron") };
    const { changed, emptied } = await planForgetting(log, how, yieldToEventLoop);
    expect(changed.map(({ seq }) => seq)).toEqual(log.slice(2, 4).map(({ seq }) => seq));
    expect(emptied).toBe(1);
    expect(changed.map(({ body }) => body)).toEqual([call("1", "forgotten"), result("1", "forgotten", true)]);
  });

  it("[D9] words that every entry has are nobody's: forgetting one of them leaves the log as it is", async () => {
    const log = logOf(created, said("hello there"), answered("hello"), closed);
    for (const word of ["content", "role", "user", "block_assistant", "turn_opened", "created_at"]) {
      const how: Forgetting = { ...everywhere, finds: (text) => text.includes(word) };
      expect(await planForgetting(log, how, yieldToEventLoop)).toMatchObject({ changed: [] });
    }
  });

  it("[D9] short words leave a sign that is no longer than they were", async () => {
    for (const text of ["k", "hi", "yes", "heron", "a longer text"]) {
      const [entry] = (
        await planForgetting(logOf(created, said(text)), { ...nothing, isGone: () => true }, yieldToEventLoop)
      ).changed;
      const content = entry?.body.kind === "turn_opened" ? String(entry.body.message.content) : "";
      expect(content).not.toBe("");
      expect(content).not.toBe(text);
      expect(Buffer.byteLength(content)).toBeLessThanOrEqual(Buffer.byteLength(text));
    }
  });
});

function optionOf(kind: EntryBody["kind"]) {
  const option = EntryBody.options.find(({ shape }) => shape.kind.value === kind);
  if (option === undefined) throw new Error(`there is no entry of the kind ${kind}`);
  return option;
}
