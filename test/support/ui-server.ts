import type { UiChatData, UiChatMetadata } from "@rkat/core/contract/wire/ui-chat";
import { createInMemoryStore, type RuntimeOptions } from "@rkat/core/create-runtime";
import { mountUi } from "@rkat/server/openai/mount";
import type { RestService } from "@rkat/server/rest/serve";
import { DefaultChatTransport, readUIMessageStream, type UIMessage, type UIMessageChunk } from "ai";
import { onTestFinished } from "vitest";
import { scriptedRuntime } from "./runtime.ts";
import { openServerHere } from "./server-here.ts";

export type Shown = UIMessage<UiChatMetadata, UiChatData>;

/** A server of chats of pages, on a port of this machine. */
export function openUiServer(
  runtime: RestService["runtime"],
  { settings = {}, ...rest }: Partial<RestService> & { settings?: Partial<Parameters<typeof mountUi>[0]> } = {},
) {
  const wanted = { memory: "session" as const, tools: "none" as const, grace_ms: 600_000, ...settings };
  return openServerHere(runtime, "ui", { mounts: [(parts) => mountUi(wanted, parts)], ...rest });
}

/** The same of a scripted model, for one test. */
export async function serveUi(
  script: Parameters<typeof scriptedRuntime>[0],
  options: RuntimeOptions = {},
  served: Parameters<typeof openUiServer>[1] = {},
) {
  const { runtime, model } = scriptedRuntime(script, { store: createInMemoryStore(), ...options });
  const server = await openUiServer(runtime, served);
  const close = async (): Promise<void> => {
    await server.close();
    await runtime.close();
  };
  onTestFinished(close);
  return { url: server.url, runtime, model, close };
}

export const user = (text: string, id = text): Shown => ({ id, role: "user", parts: [{ type: "text", text }] });

/** A page without a page: the transport and the reader of the AI SDK. */
export function openChat(url: string, id: string, body: object = {}, headers: Record<string, string> = {}) {
  const transport = new DefaultChatTransport<Shown>({ api: `${url}/ui/chat`, body, headers });
  const send = (messages: Shown[], more: Partial<Parameters<typeof transport.sendMessages>[0]> = {}) =>
    transport.sendMessages({
      trigger: "submit-message",
      chatId: id,
      messageId: undefined,
      messages,
      abortSignal: undefined,
      ...more,
    });
  return {
    send,
    /** The answer to messages, read to its end. */
    answer: async (messages: Shown[], more: Parameters<typeof send>[1] = {}): Promise<Shown> => {
      const last = messages.at(-1);
      return lastOf(await send(messages, more), last?.role === "assistant" ? last : undefined);
    },
    resume: () => transport.reconnectToStream({ chatId: id }),
  };
}

/** The message a stream makes; throws what it tells as an error. */
export async function lastOf(stream: ReadableStream<UIMessageChunk>, message?: Shown): Promise<Shown> {
  let last: Shown | undefined;
  const before = message === undefined ? {} : { message };
  for await (const shown of readUIMessageStream<Shown>({ stream, terminateOnError: true, ...before })) last = shown;
  if (last === undefined) throw new Error("the stream told nothing");
  return last;
}

export const textIn = ({ parts }: Shown): string =>
  parts.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("|");

export const sessionOf = ({ metadata }: Shown): string => metadata?.session_id ?? "";
