import type { Message } from "@rkat/core/contract/message";
import { createInMemoryStore, createRuntime, type Runtime } from "@rkat/core/create-runtime";
import type { ModelRequest } from "@rkat/core/ports/model";
import type { Tool } from "@rkat/core/ports/tool";
import { createScriptedModel, type ScriptedStep } from "@rkat/core/providers/scripted";

/** The runtime every client of the suite talks to, wherever it runs; `unkept` has no capability. */
export function openServedRuntime(kind: string, onDie: () => void = () => {}): Runtime {
  const tools = [LONG_TOOL, dyingTool(onDie)];
  const model = createScriptedModel(answer);
  if (kind === "unkept") return createRuntime({ model, env: {}, tools });
  return createRuntime({ model, env: {}, tools, store: createInMemoryStore(), memory: {}, compaction: true });
}

/** A tool's output that is too long for a context. */
export const LONG_OUTPUT = Array.from({ length: 20_000 }, (_, line) => `line ${line} of the log`).join("\n");

const LONG_TOOL: Tool = {
  name: "read_log",
  description: "A long text.",
  inputSchema: { type: "object" },
  execute: () => LONG_OUTPUT,
};

function dyingTool(onDie: () => void): Tool {
  const execute = (): string => {
    onDie();
    return "still here";
  };
  return { name: "die", description: "Ends the server.", inputSchema: { type: "object" }, execute };
}

/**
 * What is said decides what is answered: `wait` begins and never ends, `fail` is a provider that refuses, `call NAME JSON`
 * calls a tool and repeats what it gave, everything else is repeated.
 */
function answer({ messages }: ModelRequest): ScriptedStep {
  const last = messages.at(-1);
  if (last?.role === "tool_results") return { text: `It gave ${JSON.stringify(last.results.map(shown))}` };
  const said = last?.role === "user" ? textOf(last.content) : "";
  if (said.includes("CONTEXT COMPACTION")) return { text: "They spoke of birds." };
  if (said === "wait") return { text: "half", ends: "silent" };
  if (said === "fail") return { ends: { failure: { kind: "invalid_request", message: "the provider says no" } } };
  const [, name, args = "{}"] = /^call (\w+) ?(.*)$/s.exec(said) ?? [];
  if (name !== undefined) return { calls: [{ name, args: JSON.parse(args || "{}") }] };
  return { text: ["You said: ", said] };
}

function shown({ content, is_error }: { content: unknown; is_error: boolean }): unknown {
  return [typeof content === "string" ? content.slice(0, 200) : content, is_error];
}

function textOf(content: Extract<Message, { role: "user" }>["content"]): string {
  if (typeof content === "string") return content;
  return content.map((block) => (block.type === "text" ? block.text : "")).join("");
}
