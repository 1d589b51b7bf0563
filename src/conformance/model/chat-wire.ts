/** One answer of a model, in no provider's words. */
export type Reply =
  | {
      readonly kind: "answer";
      /** As it is streamed. */
      readonly text?: readonly string[];
      readonly calls?: readonly { readonly id: string; readonly name: string; readonly args: object }[];
      readonly usage: { readonly input: number; readonly output: number };
    }
  /** Says so much and then nothing, until whoever asked hangs up. */
  | { readonly kind: "silence"; readonly text: readonly string[] }
  | {
      readonly kind: "refusal";
      readonly status: number;
      readonly code: string;
      readonly message: string;
      readonly retryAfterSeconds?: number;
    };

const ENVELOPE = { id: "chatcmpl-conformance", object: "chat.completion.chunk", created: 1_760_000_000 };

/** An answer as the events of OpenAI's chat completions, in the order they are sent. */
export function chatFrames(model: string, reply: Exclude<Reply, { kind: "refusal" }>): readonly string[] {
  const chunk = (delta: object, finish_reason: string | null = null): string =>
    frame({ ...ENVELOPE, model, choices: [{ index: 0, delta, finish_reason }] });
  const { text = [] } = reply;
  const said = [chunk({ role: "assistant", content: "" }), ...text.map((content) => chunk({ content }))];
  if (reply.kind === "silence") return said;
  const { calls = [], usage } = reply;
  const asked = calls.map(({ id, name, args }, index) =>
    chunk({ tool_calls: [{ index, id, type: "function", function: { name, arguments: JSON.stringify(args) } }] }),
  );
  const { input: prompt_tokens, output: completion_tokens } = usage;
  const counted = { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens };
  return [
    ...said,
    ...asked,
    chunk({}, calls.length > 0 ? "tool_calls" : "stop"),
    frame({ ...ENVELOPE, model, choices: [], usage: counted }),
    "data: [DONE]\n\n",
  ];
}

/** What a refusal says, as OpenAI's servers do. */
export function refusalBody({ code, message }: Extract<Reply, { kind: "refusal" }>): object {
  return { error: { message, type: code, param: null, code } };
}

function frame(data: object): string {
  return `data: ${JSON.stringify(data)}\n\n`;
}
