import { PassThrough } from "node:stream";
import type { AgentContext, RequestPermissionRequest } from "@agentclientprotocol/sdk";
import { questionIn } from "@rkat/core/contract/describe-event";
import type { AgentEvent } from "@rkat/core/contract/event";
import { createInMemoryStore, createRuntime } from "@rkat/core/create-runtime";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { openRuntime } from "@rkat/node/open-runtime";
import { askPerson } from "@rkat/server/acp/prompt";
import { updatesOf } from "@rkat/server/acp/updates";
import { askingClient } from "@rkat/server/mcp/questions";
import { createUiEncoder } from "@rkat/server/ui-stream/ui-encoder";
import type { Parts } from "rkat/parts";
import { describe, expect, it } from "vitest";
import { NO_INPUT, useCommandLine } from "../support/command-line.ts";
import { handingOut } from "../support/handing-runtime.ts";

const TASK = { calls: [{ id: "c1", name: "task_create", args: { subject: "Feed the heron", description: "Twice." } }] };

/** A sub-agent asks to make a task; everybody else just answers. */
const model = () =>
  createScriptedModel(({ messages, tools }) => {
    const isDone = messages.some(({ role }) => role === "tool_results");
    return tools.some(({ name }) => name === "task_create") && !isDone ? TASK : { text: "Done." };
  });

const handing = (depth?: number) => {
  const runtime = createRuntime({ model: model(), env: {}, store: createInMemoryStore() });
  return { runtime, handed: handingOut(runtime, depth) };
};

/** What became of the sub-agent's call. */
const resultIn = async (runtime: ReturnType<typeof handing>["runtime"], id = ""): Promise<string> => {
  const { messages } = await runtime.session(id).history();
  return JSON.stringify(messages.find(({ role }) => role === "tool_results"));
};

describe("a sub-agent's call that waits for a word", () => {
  it.each([1, 2])("[O4] is put to the function that a program listens with, at depth %i", async (depth) => {
    const { runtime, handed } = handing(depth);
    const asked: string[] = [];
    const { text } = await handed.createSession("Go.", {
      onApproval: ({ session_id, calls }) => {
        asked.push(session_id, ...calls.map(({ name }) => name));
        return { decision: "deny", reason: "not on a Monday" };
      },
    });
    expect(text).toBe("Done.");
    expect(asked).toEqual([handed.children[0], "task_create"]);
    expect(await resultIn(runtime, handed.children[0])).toContain("not on a Monday");
    await runtime.close();
  });

  it("[I2] [O4] ends the whole turn where the function answers what is no answer", async () => {
    const { runtime, handed } = handing();
    const refused = { code: "INVALID_PARAMS", message: expect.stringMatching(/^onApproval returned alow: decision/) };
    await expect(handed.createSession("Go.", { onApproval: async () => "alow" })).rejects.toMatchObject(refused);
    expect(await runtime.readSession(handed.children[0] ?? "")).toMatchObject({ state: "idle" });
    expect((await runtime.listApprovals()).approvals).toEqual([]);
    await runtime.close();
  });

  it("[O4] is put to the person in front of an MCP client", async () => {
    const { runtime, handed } = handing();
    const forms: string[] = [];
    const listener = askingClient(
      runtime.dispatch,
      async ({ message }) => {
        forms.push(message);
        return { action: "accept", content: { decision: "once" } };
      },
      { next: undefined, call: {} },
    );
    await handed.dispatch("createSession", { prompt: "Go." }, { listener });
    expect(forms).toEqual([expect.stringContaining("Feed the heron")]);
    expect(await resultIn(runtime, handed.children[0])).not.toContain("not run");
    await runtime.close();
  });

  it("[O4] is put by an editor in the session it knows, and answered for the sub-agent's", async () => {
    const { runtime, handed } = handing();
    const requests: RequestPermissionRequest[] = [];
    const client = {
      request: async (_: string, request: RequestPermissionRequest) => {
        requests.push(request);
        return { outcome: { outcome: "selected", optionId: "once" } };
      },
    } as unknown as AgentContext; // All that is asked of an editor here.
    const place = {
      client,
      dispatch: runtime.dispatch,
      root: "/",
      askedIn: "known",
      signal: new AbortController().signal,
    };
    await handed.dispatch(
      "createSession",
      { prompt: "Go." },
      {
        listener: ({ event }) => {
          const question = questionIn(event);
          if (question !== undefined) void askPerson(question, place);
        },
      },
    );
    expect(requests.map(({ sessionId, toolCall }) => [sessionId, toolCall.toolCallId])).toEqual([["known", "c1"]]);
    expect(await resultIn(runtime, handed.children[0])).not.toContain("not run");
    await runtime.close();
  });

  it("[O4] is told to a page as data, without a part for a call that the page does not know", async () => {
    const { runtime, handed } = handing();
    const encoder = createUiEncoder({ isClientTool: () => false, sendsDeltas: true });
    const parts: unknown[] = [];
    await handed.dispatch(
      "createSession",
      { prompt: "Go." },
      {
        listener: (delivery) => {
          parts.push(...encoder.encode(delivery).filter(({ type }) => type.includes("approval")));
          const { session_id, approval_id } = questionIn(delivery.event) ?? {};
          if (approval_id !== undefined)
            void runtime.dispatch("answerApproval", { session_id, approval_id, decision: "allow" });
        },
      },
    );
    const data = expect.objectContaining({ session_id: handed.children[0] });
    expect(parts).toEqual([{ type: "data-approval", id: expect.any(String), data }]);
    await runtime.close();
  });
});

describe("at a terminal", () => {
  const line = useCommandLine();
  const own: Partial<Parts> = {
    openRuntime: async (options) => handingOut(await openRuntime({ ...options, model: model() })),
  };

  it("[O4] a sub-agent's question is asked by the command that runs the turn, and its lines are told", async () => {
    const input = new PassThrough();
    input.end("y\n");
    const terminal = () => ({ input, output: new PassThrough() }) as never; // As much of a terminal as lines need.
    const stdin = { ...NO_INPUT, kind: "terminal" as const, terminal };
    const env = { NO_COLOR: "1" };
    const { code, stderr } = await line.run(["run", "Go.", "-t", "none", "-v"], { own, isTerminal: true, stdin, env });
    expect(code).toBe(0);
    expect(stderr).toMatch(/· ▸ reviewer: Make a task\.\n/);
    expect(stderr).toMatch(/· {3}reviewer → task_create \{"subject":"Feed the heron"/);
    expect(stderr).toMatch(/sub-agent reviewer asks:\ntask_create \(.*\)\n {2}.*Feed the heron/);
    expect(stderr).toMatch(/· {3}reviewer ← task_create answered/);
    expect(stderr).toMatch(/· ◂ reviewer completed: [\d,]+ tokens, 1 tool call in \d+\.\d s\n/);
  });

  it("[O4] where nobody can be asked, nobody is, and what is piped is the answer alone", async () => {
    const { code, stdout, stderr } = await line.run(["run", "Go.", "-t", "none"], { own });
    expect({ code, stdout }).toEqual({ code: 0, stdout: "Done.\n" });
    expect(stderr).not.toContain("reviewer");
  });
});

describe("what an editor is told of a sub-agent", () => {
  it("[O4] is the title of the call that handed it its task", () => {
    const who = { call_id: "call-1", agent: "reviewer", child_id: "child" };
    const usage = { input_tokens: 40, output_tokens: 2 };
    const call: AgentEvent = { type: "tool_call_requested", id: "1", name: "shell", args: { command: "git log" } };
    const events: readonly AgentEvent[] = [
      { type: "sub_agent_started", ...who, task: "Read\nit." },
      { type: "sub_agent_event", ...who, depth: 1, event: call },
      { type: "sub_agent_event", ...who, depth: 2, event: call },
      { type: "sub_agent_event", ...who, depth: 1, event: { type: "turn_started", turn_number: 0 } },
      { type: "sub_agent_completed", ...who, status: "failed", usage, tool_calls: 1 },
    ];
    const updateContext = { root: "/", wishes: {}, tasks: new Map(), window: undefined } as never; // Nothing else is looked at.
    const titles = ["reviewer: Read it.", "reviewer: git log", "reviewer: failed, 42 tokens"];
    expect(events.flatMap((event) => updatesOf(event, updateContext))).toEqual(
      titles.map((title) => ({ sessionUpdate: "tool_call_update", toolCallId: "call-1", title })),
    );
  });
});
