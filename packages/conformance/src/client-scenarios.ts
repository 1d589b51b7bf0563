import { type Scenario, SESSION, step } from "./scenario.ts";
import { answered, asked, BOTH_REQUESTED, endedWith, said } from "./turn-scenarios.ts";

const NOTES = {
  type: "file",
  name: "notes.md",
  media_type: "text/markdown",
  source: "inline",
  data: "VGhlIGhlcm9uIGlzIGdyZXku",
};

/** What clients bring: files, and tools that they run themselves. */
export const CLIENTS: readonly Scenario[] = [
  {
    name: "files",
    title: "a file of text is text to the model, and what it cannot be shown is refused",
    needs: ["free input"],
    steps: [
      {
        call: "createSession",
        input: { model: "conformance-plain", prompt: [NOTES, { type: "text", text: "Read, {run}." }] },
        result: { turns: 1, text: /The heron is grey\./ },
        keep: { session: "session_id" },
      },
      step("readHistory", SESSION, {
        result: {
          messages: [
            {
              role: "user",
              content: [
                { type: "text", text: '<file name="notes.md">\nThe heron is grey.\n</file>' },
                { type: "text", text: "Read, {run}." },
              ],
            },
            { role: "block_assistant" },
          ],
        },
      }),
      {
        call: "createSession",
        input: { model: "conformance-plain", prompt: [{ ...NOTES, media_type: "application/pdf" }] },
        error: { code: "CAPABILITY_UNAVAILABLE", message: /\[file: application\/pdf notes\.md\]/ },
      },
      {
        call: "createSession",
        input: { model: "conformance-plain", prompt: [{ ...NOTES, data: "no Base64" }] },
        error: { code: "INVALID_PARAMS", message: /^prompt\[0\]\.data: / },
      },
    ],
  },
  {
    name: "client-tools",
    title: "a turn ends with calls of tools that the caller runs, and one with their results goes on",
    needs: ["turns of unkept sessions", "client tools"],
    steps: [
      {
        call: "createSession",
        input: {
          prompt: "Make a task, {run}.",
          model: "conformance-tools",
          tool_preset: "none",
          client_tools: [{ name: "task_create", description: "Makes a task." }, { name: "no_such_tool" }],
        },
        result: {
          turns: 1,
          tool_calls: 0,
          pending_calls: [
            { id: "call_task", name: "task_create", args: { subject: "Feed the heron" } },
            { id: "call_none", name: "no_such_tool", args: {} },
          ],
        },
        keep: { session: "session_id" },
        events: [
          ...BOTH_REQUESTED,
          { type: "turn_completed", stop_reason: "tool_use" },
          { type: "run_completed", session_id: "{session}", pending_calls: ["call_task", "call_none"] },
        ],
      },
      {
        call: "startTurn",
        input: {
          session_id: "{session}",
          prompt: "",
          tool_results: [{ tool_use_id: "call_none", content: "What is this?", is_error: true }],
        },
        error: { code: "INVALID_PARAMS", message: /call_task is missing/ },
      },
      {
        call: "startTurn",
        input: {
          session_id: "{session}",
          prompt: "",
          tool_results: [
            { tool_use_id: "call_none", content: "What is this?", is_error: true },
            { tool_use_id: "call_task", content: "Made." },
          ],
        },
        result: { text: "Both tools have answered.", turns: 1, tool_calls: 2, pending_calls: undefined },
        events: [
          asked(""),
          ...answered("call_task", "task_create", { result: /^Made\.$/, is_error: false }),
          ...answered("call_none", "no_such_tool", { result: /^What is this\?$/, is_error: true }),
          ...said(0, "Both tools have answered."),
          ...endedWith("Both tools have answered.", { input_tokens: 20, output_tokens: 10 }),
        ],
      },
      {
        call: "startTurn",
        input: {
          session_id: "{session}",
          prompt: "",
          tool_results: [{ tool_use_id: "call_task", content: "Made again." }],
        },
        error: { code: "INVALID_PARAMS", message: /no call of this session waits/ },
      },
    ],
  },
];
