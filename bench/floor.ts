import { type Contender, OUTPUT_TOKENS_MAX, SYSTEM_PROMPT, TOOL } from "./conversation.ts";
import { MODEL } from "./model-server.ts";

/** The least a streamed agent can do, written by hand: no retries, no limits, no events, nothing kept. */
export function createFloor(baseUrl: string, execute = TOOL.execute): Contender {
  return {
    name: "bare fetch",
    open: () => {
      const messages: object[] = [{ role: "system", content: SYSTEM_PROMPT }];
      return async (prompt) => {
        messages.push({ role: "user", content: prompt });
        for (let call = 0; call < CALLS_MAX; call += 1) {
          const { text, tool } = await ask(baseUrl, messages);
          if (tool === undefined) {
            messages.push({ role: "assistant", content: text });
            return text;
          }
          messages.push({ role: "assistant", content: null, tool_calls: [tool] });
          const content = execute(JSON.parse(tool.function.arguments));
          messages.push({ role: "tool", tool_call_id: tool.id, content });
        }
        throw new Error("the model kept calling tools");
      };
    },
  };
}

const CALLS_MAX = 10;

interface ToolCall {
  readonly id: string;
  readonly type: "function";
  readonly function: { readonly name: string; arguments: string };
}

interface Answer {
  text: string;
  tool: ToolCall | undefined;
}

async function ask(baseUrl: string, messages: readonly object[]): Promise<Answer> {
  const { name, description, inputSchema: parameters } = TOOL;
  const response = await fetch(`${baseUrl}/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: "Bearer none" },
    body: JSON.stringify({
      model: MODEL,
      max_tokens: OUTPUT_TOKENS_MAX,
      messages,
      tools: [{ type: "function", function: { name, description, parameters } }],
      stream: true,
      stream_options: { include_usage: true },
    }),
  });
  if (!response.ok || response.body === null) throw new Error(`the server answered ${response.status}`);
  const answer: Answer = { text: "", tool: undefined };
  const decoder = new TextDecoder();
  let pending = "";
  for await (const bytes of response.body) {
    pending += decoder.decode(bytes, { stream: true });
    const events = pending.split("\n\n");
    pending = events.pop() ?? "";
    for (const event of events) receive(answer, event.slice("data: ".length));
  }
  return answer;
}

function receive(answer: Answer, data: string): void {
  if (data === "[DONE]") return;
  const delta = JSON.parse(data).choices[0]?.delta;
  if (delta?.content) answer.text += delta.content;
  const call = delta?.tool_calls?.[0];
  if (call === undefined) return;
  if (answer.tool === undefined) answer.tool = { id: call.id, type: "function", function: { ...call.function } };
  else answer.tool.function.arguments += call.function.arguments;
}
