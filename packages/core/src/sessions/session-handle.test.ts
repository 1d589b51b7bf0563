import { describe, expect, expectTypeOf, it } from "vitest";
import { z } from "zod";
import { scriptedRuntime } from "../../../../test/support/runtime.ts";
import { RuntimeError } from "../contract/error.ts";
import { createRuntime, type RuntimeOptions } from "../create-runtime.ts";
import type { Dispatch } from "../runtime/dispatch.ts";
import { createAsk, createMethodsAbout, createOtherMethods, type MethodsAbout } from "../runtime/operation-calls.ts";
import { createHandle, type Session, type SessionOptions, type TurnOptions } from "./session-handle.ts";

// Options of JavaScript callers, which no compiler has seen.
const asSession = (options: unknown) => options as SessionOptions;
const asTurn = (options: unknown) => options as TurnOptions;
const asRuntime = (options: unknown) => options as RuntimeOptions;

describe("the events of a turn", () => {
  it("[G6] that broke off without telling its end throw what it failed with", async () => {
    const dispatch = async (...[, , call]: Parameters<Dispatch>) => {
      call?.listener?.({ seq: 0, timestamp_ms: 0, event: { type: "text_delta", delta: "half" } });
      throw new RuntimeError("AGENT_ERROR", "the server is gone");
    };
    const received: unknown[] = [];
    const link = { ask: createAsk(dispatch), subscribe: scriptedRuntime([]).runtime.subscribe };
    const listen = async () => {
      for await (const event of createHandle(link, "s").stream("hi")) received.push(event);
    };
    await expect(listen()).rejects.toMatchObject({ code: "AGENT_ERROR", message: "the server is gone" });
    expect(received).toEqual([{ type: "text_delta", delta: "half" }]);
  });

  it("[A4] that told their end do not throw it again", async () => {
    const failure = { kind: "invalid_request", message: "no" } as const;
    const { runtime } = scriptedRuntime([{ text: "hi" }, { ends: { failure } }]);
    const session = await runtime.createSession("hi");
    const types: string[] = [];
    for await (const { type } of session.stream("more")) types.push(type);
    expect(types.at(-1)).toBe("run_failed");
  });
});

describe("options of the SDK", () => {
  it("[H1] of a session are refused by name, before anything is created", async () => {
    const { runtime, model } = scriptedRuntime([]);
    const tool = { name: "look", description: "", inputSchema: {}, execute: () => "" };
    const wrong: [unknown, string][] = [
      [null, "give the options as an object"],
      ["offline", "give the options as an object"],
      [{ signal: {} }, "signal: give an AbortSignal"],
      [{ tools: {} }, "tools: give a list of tools"],
      [{ tools: [null] }, "tools.0: give a tool, {name, description, inputSchema, execute}"],
      [{ tools: [tool, {}] }, "tools.1: give the tool a name"],
      [{ tools: [{ ...tool, description: 5 }] }, "tools.0: give tool look a description"],
      [{ tools: [{ ...tool, inputSchema: "x" }] }, "tools.0: give tool look an inputSchema, a JSON schema"],
      [{ tools: [{ ...tool, execute: 5 }] }, "tools.0: give tool look a function execute"],
      [{ tools: [{ ...tool, timeoutMs: "1s" }] }, "tools.0: give tool look a timeoutMs above 0"],
      [{ max_tokens: 5 }, "max_tokens is no option; did you mean maxTokens?"],
      [{ sytemPrompt: "x" }, "sytemPrompt is no option; did you mean systemPrompt?"],
      [{ maxTokens: "5" }, "maxTokens: write a whole number above 0"],
      [{ model: "" }, "model: write the name of a model"],
      [{ model: 5 }, "model: write the name of a model"],
    ];
    for (const [options, message] of wrong) {
      const refused = { code: "INVALID_PARAMS", message };
      await expect(runtime.createSession("Go.", asSession(options))).rejects.toMatchObject(refused);
      await expect(runtime.createSessionStreaming("Go.", asSession(options)).result).rejects.toMatchObject(refused);
      await expect(runtime.createDeferredSession("Go.", asSession(options))).rejects.toMatchObject(refused);
    }
    expect(model.requests).toEqual([]);
  });

  it("[H1] of a turn are refused by name, and nothing is said to the model", async () => {
    const { runtime, model } = scriptedRuntime([]);
    const session = await runtime.createDeferredSession("Begin.");
    const wrong: [unknown, string][] = [
      [null, "give the options as an object"],
      [{ signal: "now" }, "signal: give an AbortSignal"],
      [{ tools: [] }, expect.stringMatching(/^tools is no option; /)],
      [{ toolOverlay: {} }, "toolOverlay is no option; did you mean flowToolOverlay?"],
      [{ budgetLimits: {} }, expect.stringMatching(/^budgetLimits is no option; there are .*model, provider, /)],
    ];
    for (const [options, message] of wrong) {
      const refused = { code: "INVALID_PARAMS", message };
      await expect(session.turn("Go.", asTurn(options))).rejects.toMatchObject(refused);
      await expect(session.stream("Go.", asTurn(options)).result).rejects.toMatchObject(refused);
    }
    expect(model.requests).toEqual([]);
  });

  it("[H1] of a runtime are refused by name", () => {
    const wrong: [unknown, string][] = [
      [null, "give the options as an object"],
      [{ model: null }, "model: give a model's name, an AI SDK model or a model client"],
      [{ model: {} }, "model: give a model's name, an AI SDK model or a model client"],
      [{ systemPrompt: 5 }, "systemPrompt: give a text"],
      [{ toolPreset: "everything" }, "toolPreset: give one of none, safe, workspace, full"],
      [{ tools: {} }, "tools: give a list of tools"],
      [{ tools: [null] }, "tools.0: give a tool, {name, description, inputSchema, execute}"],
      [{ secrets: "hunter2" }, "secrets: give a list of texts"],
      [{ store: "memory" }, "store: give a store"],
      [{ modle: "offline" }, "modle is no option; did you mean model?"],
    ];
    for (const [options, message] of wrong) {
      expect(() => createRuntime(asRuntime(options))).toThrow(
        expect.objectContaining({ code: "INVALID_PARAMS", message }),
      );
    }
  });
});

describe("methods of the SDK", () => {
  it("[G6] are the operations about a session, and about an agent, by the names their types have", () => {
    const { runtime } = scriptedRuntime([]);
    const ask = createAsk(runtime.dispatch);
    const ofSession = [
      "read",
      "history",
      "rewrites",
      "archive",
      "interrupt",
      "pin",
      "inject",
      "forkReplacing",
    ] as const;
    expectTypeOf<(typeof ofSession)[number]>().toExtend<keyof MethodsAbout<"session_id">>();
    const session = Object.keys(createMethodsAbout(ask, "session_id", "s"));
    expect(session).toEqual(expect.arrayContaining([...ofSession]));
    expect(session).not.toContain("start");
    expectTypeOf<keyof MethodsAbout<"agent">>().toEqualTypeOf<
      "remember" | "note" | "context" | "compact" | "status" | "history" | "receipt" | "export"
    >();
    const ofAgent = ["compact", "context", "export", "history", "note", "receipt", "remember", "status"];
    expect(Object.keys(createMethodsAbout(ask, "agent", "a")).sort()).toEqual(ofAgent);
    expect(Object.keys(createOtherMethods(ask)).filter((name) => !(name in runtime))).toEqual([]);
  });

  it("[F3] [G6] tell whoever composed the runtime what it lacks, and wires what they always said", async () => {
    const { runtime } = scriptedRuntime([{ text: "Hello." }]);
    const message = "Session persistence is disabled: use openRuntime, or give createRuntime a store";
    const advised = { code: "SESSION_PERSISTENCE_DISABLED", message };
    await expect(runtime.listSessions()).rejects.toMatchObject(advised);
    await expect((await runtime.createSession("Hi.")).history()).rejects.toMatchObject(advised);
    const wire = { message: "Session persistence is disabled (build without 'session-store')." };
    await expect(runtime.dispatch("listSessions", {})).rejects.toMatchObject(wire);
  });
});

describe("the schema of a result", () => {
  const City = z.object({ city: z.string(), people: z.int().optional() });
  const oslo = { city: "Oslo", people: 700_000 };

  it("[G6] may be zod's or another library's, and gives the result its type", async () => {
    const { runtime, model } = scriptedRuntime(() => ({ text: JSON.stringify(oslo) }));
    const session = await runtime.createSession("Where?", { outputSchema: City });
    expectTypeOf(session.structuredOutput).toEqualTypeOf<{ city: string; people?: number | undefined } | undefined>();
    expect([session.structuredOutput, session.lastResult?.structuredOutput]).toEqual([oslo, oslo]);
    const again = await session.turn("And now?");
    expectTypeOf(again.structuredOutput?.city).toEqualTypeOf<string | undefined>();
    const later = await runtime.createSession();
    expectTypeOf(later.structuredOutput).toBeUnknown();
    const first = await later.turn("Where?", { outputSchema: City });
    expect(first.structuredOutput?.city).toBe("Oslo");
    const streamed = runtime.createSessionStreaming("Where?", { outputSchema: City });
    expectTypeOf((await streamed.result).structuredOutput).toEqualTypeOf<z.infer<typeof City> | undefined>();
    const jsonSchema = { type: "object", required: ["city"] };
    const other = { "~standard": { version: 1 as const, vendor: "other", jsonSchema: { input: () => jsonSchema } } };
    await runtime.createSession("Where?", { outputSchema: other });
    await runtime.createSession("Where?", { outputSchema: jsonSchema });
    expect(model.requests.length).toBe(6);
  });

  it("[H1] is refused in a sentence when it cannot be written as a JSON schema", async () => {
    const { runtime, model } = scriptedRuntime([]);
    const mute = { "~standard": { version: 1 as const, vendor: "valibot", validate: () => ({ value: 1 }) } };
    const sentence = /^outputSchema: this valibot schema cannot be written as a JSON schema: it does not implement/;
    await expect(runtime.createSession("Go.", { outputSchema: mute })).rejects.toThrow(sentence);
    const session = await runtime.createSession();
    await expect(session.turn("Go.", { outputSchema: 3 as never })).rejects.toThrow(/^outputSchema: /);
    await expect(runtime.createSession("Go.", { outputSchema: z.object({ at: z.date() }) })).rejects.toThrow(
      /^outputSchema: this zod schema cannot be written as a JSON schema: Date cannot be represented in JSON Schema/,
    );
    for (const made of [Promise.resolve({ type: "object" }), true, ["a"], "text"]) {
      // What a library in plain JavaScript may give.
      const jsonSchema = { input: () => made as object };
      const outputSchema = { "~standard": { version: 1 as const, vendor: "odd", jsonSchema } } as never;
      await expect(runtime.createSession("Go.", { outputSchema })).rejects.toThrow(
        /this odd schema .* gives no object; give the JSON schema$/,
      );
    }
    expect(model.requests).toEqual([]);
  });
});

describe("the types of options", () => {
  it("[G6] are the wire's in camel case at every depth, and know no others", () => {
    const { runtime } = scriptedRuntime([]);
    expectTypeOf<SessionOptions["maxTokens"]>().toEqualTypeOf<number | undefined>();
    expectTypeOf<SessionOptions["labels"]>().toExtend<Readonly<Record<string, string>> | undefined>();
    expectTypeOf<TurnOptions>().toHaveProperty("clearProviderParams");
    expectTypeOf<TurnOptions>().toHaveProperty("structuredOutputRetries");
    expectTypeOf<keyof SessionOptions & ("enableMob" | "initialTurn" | "prompt" | "externalTools")>().toBeNever();
    const fine: SessionOptions = {
      budgetLimits: { maxTokens: 1, maxDuration: "30s" },
      compaction: { autoCompactThreshold: 5 },
      skillRefs: [{ sourceUuid: "u", skillName: "s" }],
      labels: { any_key: "", anyKey: "" },
    };
    expect(fine).toBeDefined();
    const never = async (session: Session) => {
      // @ts-expect-error: an option that is misspelt
      await runtime.createSession("Go.", { sytemPrompt: "x" });
      // @ts-expect-error: the wire's name of an option
      await runtime.createSession("Go.", { max_tokens: 5 });
      // @ts-expect-error: a misspelt field inside an option
      await runtime.createSession("Go.", { budgetLimits: { maxTokns: 5 } });
      // @ts-expect-error: a value of the wrong type inside an option
      await runtime.createSession("Go.", { budgetLimits: { maxTokens: "5" } });
      // @ts-expect-error: what a session is made with is no option of a turn
      await session.turn("Go.", { budgetLimits: {} });
      // @ts-expect-error: a pin is of a number
      await session.pin("2");
      // @ts-expect-error: an event has a type
      await session.sendExternalEvent();
      // @ts-expect-error: an operation that is not there
      await session.delete();
    };
    expect(never).toBeDefined();
  });
});
