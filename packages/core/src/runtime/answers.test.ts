import { describe, expect, expectTypeOf, it } from "vitest";
import type { core } from "zod";
import { listen, scriptedRuntime } from "../../../../test/support/runtime.ts";
import { OPERATION_NAMES, operationOf } from "../contract/operations.ts";
import { z } from "../contract/schema.ts";
import { WIRE_TABLE } from "../contract/wire/wire-table.ts";
import { createInMemoryStore } from "../create-runtime.ts";
import type { ExtractionError, TurnResult } from "../sessions/session-handle.ts";
import { defineTool } from "../tools/define-tool.ts";
import type { MemoryHit, SessionInfo } from "./answers.ts";
import { fromWire } from "./options.ts";

const USERS = { a_key: { of_a_user: 1 } };

/** A value of a schema with every field; what is a user's, or has one of several shapes, is `USERS`. */
function sampleOf(schema: core.$ZodType): unknown {
  const { def } = (schema as core.$ZodTypes)._zod;
  if (def.type === "pipe") return sampleOf(def.in);
  if ("innerType" in def) return sampleOf(def.innerType);
  if (def.type === "array") return [sampleOf(def.element)];
  if (def.type === "record" || def.type === "union" || def.type === "unknown") return USERS;
  if (def.type !== "object") return 1;
  return Object.fromEntries(Object.entries(def.shape).map(([field, value]) => [field, sampleOf(value)]));
}

function keysIn(value: unknown): readonly string[] {
  if (value === USERS || typeof value !== "object" || value === null) return [];
  if (Array.isArray(value)) return value.flatMap(keysIn);
  return Object.entries(value).flatMap(([key, inner]) => [key, ...keysIn(inner)]);
}

const City = z.object({ city_name: z.string() });

describe("the results of the SDK", () => {
  it("[S3] are camel case in every field of every operation, and keys of a user's data are not touched", () => {
    for (const name of OPERATION_NAMES) {
      const { output } = operationOf(name);
      const { def } = (output as unknown as core.$ZodTypes)._zod;
      for (const schema of def.type === "union" ? def.options : [output]) {
        const sample = sampleOf(schema);
        const answer = fromWire(sample, WIRE_TABLE[name].answer);
        const camel = keysIn(sample).map((key) => key.replaceAll(/_([a-z])/g, (_, letter) => letter.toUpperCase()));
        expect({ name, keys: keysIn(answer) }).toEqual({ name, keys: camel });
        expect(JSON.stringify(answer).split(JSON.stringify(USERS)).length).toBe(
          JSON.stringify(sample).split(JSON.stringify(USERS)).length,
        );
      }
    }
  });

  it("[S3] have the types of their values", () => {
    expectTypeOf<TurnResult>().toHaveProperty("sessionId");
    expectTypeOf<TurnResult["usage"]["inputTokens"]>().toEqualTypeOf<number>();
    expectTypeOf<SessionInfo["labels"]>().toEqualTypeOf<Readonly<Record<string, string>> | undefined>();
    expectTypeOf<MemoryHit["createdAt"]>().toEqualTypeOf<string>();
    expectTypeOf<ExtractionError>().toEqualTypeOf<{
      readonly lastOutput: string;
      readonly attempts: number;
      readonly reason: string;
    }>();
  });

  it("[S3] are those of a session; its events and messages, and what `dispatch` answers, have the wire's names", async () => {
    const note = defineTool({ name: "note", description: "Notes.", run: () => ({ note_id: 7 }) });
    const steps = [{ calls: [{ id: "1", name: "note", args: {} }] }, { text: "Noted." }];
    const { runtime } = scriptedRuntime(steps, { store: createInMemoryStore(), tools: [note] });
    const session = await runtime.createSession({ labels: { my_team: "a" } });
    const { events, result } = await listen(session.stream("Note it."));
    expect(result).toMatchObject({ sessionId: session.id, toolCalls: 1, usage: { inputTokens: expect.any(Number) } });
    expect(events[0]).toMatchObject({ type: "run_started", session_id: session.id });
    expect(await session.read()).toMatchObject({ sessionId: session.id, messageCount: 4, labels: { my_team: "a" } });
    const wire = await runtime.dispatch("readHistory", { session_id: session.id });
    const history = await session.history();
    expect(history.messageCount).toBe(wire.message_count);
    expect(history.messages).toEqual(wire.messages);
    // What `history` gives is what `rewrite` takes.
    const kept = history.messages.filter((_, index) => index === 0 || index === 3);
    const { revision } = await session.rewrite({ start: 0, end: 4 }, kept);
    expect((await session.revision(revision)).messages).toMatchObject(kept.map(({ role }) => ({ role })));
    expect((await session.listEvents({ after: 0 })).hasMore).toBe(false);
  });
});

describe("the schema of a turn", () => {
  const answers = (...texts: readonly string[]) => scriptedRuntime(texts.map((text) => ({ text })));

  it("[S3] holds for that turn alone, also on a session that has run, and the wire keeps its rule", async () => {
    const { runtime } = answers("Hi.", '{"city_name":"Oslo"}', "Bye.");
    const session = await runtime.createSession("Hello.");
    const turn = await session.turn("Where?", { outputSchema: City });
    expectTypeOf(turn.structuredOutput).toEqualTypeOf<{ city_name: string } | undefined>();
    expect(turn.structuredOutput).toEqual({ city_name: "Oslo" });
    expect(session.structuredOutput).toEqual({ city_name: "Oslo" });
    expect(await session.turn("Go.")).toMatchObject({ text: "Bye.", turns: 1 });
    expect(session.structuredOutput).toBeUndefined();
    const refused = runtime.dispatch("startTurn", { session_id: session.id, prompt: "?", output_schema: {} });
    await expect(refused).rejects.toThrow("Cannot override output_schema on a session that has run");
  });

  it("[S3] is the session's again afterwards", async () => {
    const text = '{"city_name":"Oslo","count":2}';
    const { runtime } = scriptedRuntime(() => ({ text }));
    const session = await runtime.createSession("Where?", { outputSchema: City });
    const counted = await session.turn("How many?", { outputSchema: z.object({ count: z.int() }) });
    expect(counted.structuredOutput).toEqual({ count: 2 });
    expect((await session.turn("Where?")).structuredOutput).toEqual({ city_name: "Oslo" });
  });

  it("[S3] that is not matched says so in a field, and by type", async () => {
    const { runtime } = scriptedRuntime(() => ({ text: "In Oslo." }));
    const session = await runtime.createSession("Hello.");
    const turn = await session.turn("Where?", { outputSchema: City });
    if (turn.structuredOutput !== undefined) expectTypeOf(turn.extractionError).toEqualTypeOf<undefined>();
    else expectTypeOf(turn.extractionError).toEqualTypeOf<ExtractionError | undefined>();
    expect(turn).toMatchObject({ extractionError: { attempts: 3, lastOutput: "In Oslo." } });
    expect(turn).not.toHaveProperty("structuredOutput");
  });

  it("[S3] of any library reads the result: it changes its values, and refuses what JSON Schema cannot", async () => {
    const { runtime } = scriptedRuntime(() => ({ text: '{"city_name":"Oslo"}' }));
    const upper = City.transform(({ city_name }) => city_name.toUpperCase());
    const session = await runtime.createSession("Where?", { outputSchema: upper });
    expectTypeOf(session.structuredOutput).toEqualTypeOf<string | undefined>();
    expect(session.structuredOutput).toBe("OSLO");
    expect((await session.turn("Again?")).structuredOutput).toBe("OSLO");
    const jsonSchema = { input: () => ({ type: "object" }) };
    const issues = [{ message: "not in Norway", path: [{ key: "city_name" }] }, { message: "too cold" }];
    const strict = {
      "~standard": { version: 1 as const, vendor: "own", validate: async () => ({ issues }), jsonSchema },
    };
    const refused = await session.turn("Where?", { outputSchema: strict });
    expect(refused.extractionError).toEqual({
      lastOutput: '{"city_name":"Oslo"}',
      attempts: 1,
      reason: "city_name: not in Norway; too cold",
    });
    expect(refused.structuredOutput).toBeUndefined();
  });

  it("[S3] of any library describes the arguments of a tool, too", async () => {
    const jsonSchema = { input: () => ({ type: "object", properties: { at: { type: "string" } } }) };
    const validate = (value: unknown) => {
      const at = new Date((value as { at: string }).at);
      return Number.isNaN(at.getTime()) ? { issues: [{ message: "no date", path: ["at"] }] } : { value: { at } };
    };
    const standard = { version: 1 as const, vendor: "own", jsonSchema, validate };
    const input = { "~standard": standard as typeof standard & { types?: { input: unknown; output: { at: Date } } } };
    const years: number[] = [];
    const note = defineTool({
      name: "note",
      description: "Notes a day.",
      input,
      run: ({ at }) => years.push(at.getUTCFullYear()),
    });
    expect(note.inputSchema).toEqual({ type: "object", properties: { at: { type: "string" } } });
    const calls = ["2026-11-18", "never"].map((at, index) => ({ id: String(index), name: "note", args: { at } }));
    const { runtime } = scriptedRuntime([{ calls }, { text: "Noted." }], {
      store: createInMemoryStore(),
      tools: [note],
    });
    const session = await runtime.createSession("Note it.");
    expect(years).toEqual([2026]);
    expect(JSON.stringify(await session.history())).toContain("at: no date");
    const mute = { "~standard": { version: 1 as const, vendor: "valibot", validate } };
    expect(() => defineTool({ name: "note", description: "", input: mute, run: () => "" })).toThrow(
      "tool note: input: this valibot schema cannot be written as a JSON schema: it does not implement Standard JSON Schema",
    );
  });
});
