import type { AgentEvent } from "@rkat/core/contract/event";
import type { Dispatch } from "@rkat/core/runtime/dispatch";
import { describe, expect, it } from "vitest";
import type { Io } from "../io.ts";
import { createAsker, lineOf } from "./ask-person.ts";

const asked = (session_id: string, command: string): AgentEvent => ({
  type: "tool_approval_requested",
  session_id,
  approval_id: `of-${session_id}`,
  calls: [{ id: "c1", name: "shell", args: { command }, why: "a rule asks" }],
  expires_at: "2026-11-17T12:00:00.000Z",
});
const from = (agent: string, event: AgentEvent, depth = 1): AgentEvent => ({
  type: "sub_agent_event",
  call_id: "call",
  agent,
  child_id: `${agent}-session`,
  depth,
  event,
});
const turn = () => new Promise((resolve) => setImmediate(resolve));

/** Somebody at a terminal who answers when told to. */
function person() {
  let seen = "";
  const answers: unknown[] = [];
  const waiting: ((line: string) => void)[] = [];
  const stderr = {
    isTerminal: true,
    columns: 80,
    write: (text: string) => {
      seen += text;
    },
  };
  const io = { env: { NO_COLOR: "1" }, stderr, interrupt: new AbortController().signal } as unknown as Io; // All it needs.
  const dispatch = (async (name: string, input: unknown) => void answers.push([name, input])) as unknown as Dispatch;
  const asker = createAsker(
    io,
    dispatch,
    (question, over) =>
      new Promise((resolve, reject) => {
        seen += lineOf(question);
        waiting.push(resolve);
        over.addEventListener("abort", () => reject(over.reason));
      }),
  );
  return {
    onEvent: asker.onEvent,
    answers,
    seen: () => seen,
    questions: () => waiting.length,
    say: async (line: string) => {
      waiting.at(-1)?.(line);
      await turn();
    },
  };
}

it("[T1] a question of an MCP server is asked field by field, as data with the server's name", async () => {
  const { onEvent, say, seen, answers } = person();
  const properties = {
    colour: { type: "string", enum: ["1", "2"] },
    layers: { type: "integer" },
    note: { type: "string" },
  };
  const question = { server: "walls", message: "Which?\u001b[31m\nRun it? y", schema: { type: "object", properties } };
  const call = { id: "c1", name: "mcp__walls__paint", args: {}, why: "MCP server walls asks", question };
  onEvent({ ...asked("own", ""), calls: [call, { ...call, id: "c2" }] } as AgentEvent);
  for (const line of ["y", "1", "2", "", "n"]) {
    await turn();
    await say(line);
  }
  expect(seen()).toContain("mcp__walls__paint (MCP server walls asks)\n  > Which?");
  expect(seen()).toContain("  > Run it? y\n");
  expect(seen()).not.toContain("\u001b");
  expect(seen()).toContain("colour (1,2):");
  const named = { session_id: "own", approval_id: "of-own" };
  expect(answers).toEqual([
    ["answerApproval", { ...named, calls: ["c1"], decision: "allow", content: { colour: "1", layers: 2 } }],
    ["answerApproval", { ...named, calls: ["c2"], decision: "deny" }],
  ]);
});

describe("a question of a sub-agent", () => {
  it("[O4] is put as one's own is, says whose it is, and is answered for the sub-agent's session", async () => {
    const { onEvent, say, seen, answers } = person();
    onEvent(from("reviewer", asked("reviewer-session", "git log")));
    await turn();
    expect(seen()).toMatch(/^sub-agent reviewer asks:\nshell \(a rule asks\)\n {2}git log\nRun it\?/);
    await say("not today");
    const word = { decision: "deny", reason: "not today" };
    const named = { session_id: "reviewer-session", approval_id: "of-reviewer-session", calls: ["c1"] };
    expect(answers).toEqual([["answerApproval", { ...named, ...word }]]);
  });

  it("[O4] waits until the one before it is answered, whoever asked first", async () => {
    const { onEvent, say, questions, answers } = person();
    onEvent(from("a", asked("a-session", "ls")));
    onEvent(from("a", from("b", asked("b-session", "pwd"))));
    onEvent(from("c", asked("c-session", "id"), 2));
    onEvent(asked("own", "true"));
    for (const count of [1, 2, 3, 4]) {
      await turn();
      expect(questions()).toBe(count);
      await say("y");
    }
    expect(answers.map((one) => (one as [string, { session_id: string }])[1].session_id)).toEqual([
      "a-session",
      "b-session",
      "c-session",
      "own",
    ]);
  });

  it("[O4] is put no more when somebody else has answered it, or its sub-agent has ended", async () => {
    const { onEvent, say, seen, questions, answers } = person();
    onEvent(from("a", asked("a-session", "ls")));
    onEvent(from("b", asked("b-session", "pwd")));
    onEvent(from("c", asked("c-session", "id")));
    await turn();
    const word = { decision: "allow" as const, calls: ["c1"], remember: "once" as const, by: "ana" };
    onEvent(
      from("a", { type: "tool_approval_answered", session_id: "a-session", approval_id: "of-a-session", ...word }),
    );
    const usage = { input_tokens: 1, output_tokens: 1 };
    const ended = { call_id: "call", agent: "b", child_id: "b-session", status: "interrupted", usage, tool_calls: 0 };
    onEvent({ type: "sub_agent_completed", ...ended } as AgentEvent); // Its fields, above.
    await turn();
    expect(seen()).toContain("(allowed by ana)");
    expect(seen()).not.toContain("pwd");
    expect(questions()).toBe(2);
    await say("y");
    expect(answers).toEqual([
      ["answerApproval", { session_id: "c-session", approval_id: "of-c-session", calls: ["c1"], decision: "allow" }],
    ]);
  });
});

describe("several calls of one answer", () => {
  it("[I1] are answered one by one, and what is allowed for longer is not asked again", async () => {
    const { onEvent, say, questions, answers } = person();
    const call = (id: string, command: string, always: string[]) => {
      return { id, name: "shell", args: { command }, why: "a rule asks", always };
    };
    const calls = [
      call("c1", "ls a", ["shell(ls *)"]),
      call("c2", "rm a", ["shell(rm *)"]),
      call("c3", "ls b", ["shell(ls *)"]),
    ];
    onEvent({ ...(asked("own", "") as Extract<AgentEvent, { type: "tool_approval_requested" }>), calls });
    await turn();
    await say("s");
    await say("r yes, but later");
    await turn();
    expect(questions()).toBe(2);
    const named = { session_id: "own", approval_id: "of-own" };
    expect(answers).toEqual([
      ["answerApproval", { ...named, calls: ["c1"], decision: "allow", remember: "session" }],
      ["answerApproval", { ...named, calls: ["c2"], decision: "deny", reason: "yes, but later" }],
      ["answerApproval", { ...named, calls: ["c3"], decision: "allow" }],
    ]);
  });
});
