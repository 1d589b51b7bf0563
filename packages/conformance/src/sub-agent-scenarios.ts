import type { ExpectedEvent, Scenario } from "./scenario.ts";
import { asked, endedWith, said } from "./turn-scenarios.ts";

const OF = { call_id: "call_agent", agent: "general" };

const inChild = (event: ExpectedEvent): ExpectedEvent => ({ type: "sub_agent_event", ...OF, depth: 1, event });

/** Tasks that are handed to others. */
export const SUB_AGENTS: readonly Scenario[] = [
  {
    name: "sub-agent",
    title: "a task runs in a session of its own, what happens there is told, and its report comes back",
    requires: ["session-store"],
    steps: [
      {
        call: "createSession",
        input: { prompt: "Delegate it, {run}.", model: "conformance-agent", tool_preset: "safe", enable_agents: true },
        result: {
          text: "It is done.",
          turns: 2,
          tool_calls: 1,
          usage: { input_tokens: 20, output_tokens: 10 },
          delegated: { usage: { input_tokens: 10, output_tokens: 5 }, tool_calls: 0 },
        },
        keep: { session: "session_id" },
        events: [
          asked("Delegate it, {run}."),
          { type: "turn_started", turn_number: 0 },
          { type: "tool_call_requested", id: "call_agent", name: "agent", args: { task: "Look for the heron." } },
          { type: "tool_execution_started", id: "call_agent", name: "agent" },
          { type: "sub_agent_started", ...OF, task: "Look for the heron." },
          inChild({ type: "run_started", prompt: "Look for the heron." }),
          inChild({ type: "turn_started", turn_number: 0 }),
          inChild({ type: "text_complete", content: "You said: Look for the heron." }),
          inChild({ type: "turn_completed", stop_reason: "end_turn" }),
          inChild({ type: "run_completed", result: "You said: Look for the heron." }),
          {
            type: "sub_agent_completed",
            ...OF,
            status: "completed",
            usage: { input_tokens: 10, output_tokens: 5 },
            tool_calls: 0,
          },
          {
            type: "tool_execution_completed",
            id: "call_agent",
            result:
              /^You said: Look for the heron\.\n\n\[sub-agent general, session .*, completed, 1 model call, 15 tokens\]$/,
            is_error: false,
          },
          { type: "tool_result_received", id: "call_agent", is_error: false },
          ...said(1, "It is done."),
          ...endedWith("It is done.", { input_tokens: 20, output_tokens: 10 }),
        ],
      },
      {
        call: "readSession",
        input: { session_id: "{session}" },
        result: { total_tokens: 30, delegated: { usage: { input_tokens: 10, output_tokens: 5 }, tool_calls: 0 } },
      },
      {
        call: "createSession",
        input: { prompt: "Delegate it, {run}.", model: "conformance-agent", tool_preset: "none", enable_agents: true },
        error: { code: "INVALID_PARAMS", message: /^enable_agents: a session without tools has no sub-agents/ },
      },
    ],
  },
];
