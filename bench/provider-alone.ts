import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import type { LanguageModelV4, LanguageModelV4Prompt, LanguageModelV4ToolCall } from "@ai-sdk/provider";
import { type Contender, OUTPUT_TOKENS_MAX, SYSTEM_PROMPT, TOOL } from "./conversation.ts";
import { MODEL } from "./model-server.ts";

/** The same loop by hand over the provider package for this wire: what rkat would pay before it did anything itself. */
export function createProviderAlone(baseURL: string): Contender {
  const options = { name: "openai", baseURL, apiKey: "none", includeUsage: true };
  const model = createOpenAICompatible(options)(MODEL);
  return {
    name: "provider package",
    open: () => {
      const prompt: LanguageModelV4Prompt = [{ role: "system", content: SYSTEM_PROMPT }];
      return async (text) => {
        prompt.push({ role: "user", content: [{ type: "text", text }] });
        for (let call = 0; call < CALLS_MAX; call += 1) {
          const answer = await ask(model, prompt);
          if (answer.tool === undefined) {
            prompt.push({ role: "assistant", content: [{ type: "text", text: answer.text }] });
            return answer.text;
          }
          const { toolCallId, toolName } = answer.tool;
          const input = JSON.parse(answer.tool.input);
          const output = { type: "text", value: TOOL.execute(input) } as const;
          prompt.push({ role: "assistant", content: [{ type: "tool-call", toolCallId, toolName, input }] });
          prompt.push({ role: "tool", content: [{ type: "tool-result", toolCallId, toolName, output }] });
        }
        throw new Error("the model kept calling tools");
      };
    },
  };
}

const CALLS_MAX = 10;

interface Answer {
  readonly text: string;
  readonly tool: LanguageModelV4ToolCall | undefined;
}

async function ask(model: LanguageModelV4, prompt: LanguageModelV4Prompt): Promise<Answer> {
  const { name, description, inputSchema } = TOOL;
  const { stream } = await model.doStream({
    prompt,
    maxOutputTokens: OUTPUT_TOKENS_MAX,
    // The literal is a JSON schema; its `type` is widened to any string.
    tools: [{ type: "function", name, description, inputSchema: inputSchema as object }],
  });
  let text = "";
  let tool: LanguageModelV4ToolCall | undefined;
  for await (const part of stream) {
    if (part.type === "text-delta") text += part.delta;
    if (part.type === "tool-call") tool = part;
    if (part.type === "error") throw part.error;
  }
  return { text, tool };
}
