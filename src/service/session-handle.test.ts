import { describe, expect, it } from "vitest";
import { scriptedRuntime } from "../../test/support/runtime.ts";
import { RuntimeError } from "../contract/error.ts";
import { createRuntime, type RuntimeOptions } from "../runtime.ts";
import type { Dispatch } from "./dispatch.ts";
import { createHandle, type SessionOptions, type TurnOptions } from "./session-handle.ts";

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
    const heard: unknown[] = [];
    const listen = async () => {
      for await (const event of createHandle(dispatch, "s").stream("hi")) heard.push(event);
    };
    await expect(listen()).rejects.toMatchObject({ code: "AGENT_ERROR", message: "the server is gone" });
    expect(heard).toEqual([{ type: "text_delta", delta: "half" }]);
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
      [{ maxTokens: "5" }, "max_tokens: write a whole number above 0"],
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
      [{ tool_overlay: {} }, "tool_overlay is no option; did you mean toolOverlay?"],
      [{ budgetLimits: {} }, expect.stringMatching(/^budgetLimits is no option; there are model, provider, /)],
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
