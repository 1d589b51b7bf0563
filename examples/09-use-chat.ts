// A page with the AI SDK's `useChat` on a server of rkat: the page is in use-chat/, and here its transport does what it does.
// `node examples/09-use-chat.ts --stay` keeps it open, to be looked at with a browser.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DefaultChatTransport, readUIMessageStream, type UIMessage } from "ai";
import type { UiChatData, UiChatMetadata } from "rkat/client";
import { serveChatPage } from "./use-chat/serve.ts";

const folder = await mkdtemp(join(tmpdir(), "rkat-use-chat-"));
const rkat = join(import.meta.dirname, "../packages/rkat/dist/cli.js");
const args = ["serve", "--port", "0", "--json", "--isolated", "--state-root", folder];
const env = { ...process.env, RKAT_MODEL: process.env.RKAT_MODEL ?? "offline" };
const server = spawn(process.execPath, [rkat, ...args], { env, stdio: ["ignore", "pipe", "ignore"] });
const [line] = await once(server.stdout, "data");
const { url } = JSON.parse(String(line));
const page = await serveChatPage(url);
console.log(`the page is at ${page.url}`);

type ChatMessage = UIMessage<UiChatMetadata, UiChatData>;
const transport = new DefaultChatTransport<ChatMessage>({ api: `${page.url}ui/chat` });

/** What the page does for each message: it sends all of them, and reads the answer as it comes. */
async function ask(messages: ChatMessage[]): Promise<ChatMessage> {
  const options = {
    trigger: "submit-message" as const,
    chatId: "launch",
    messageId: undefined,
    abortSignal: undefined,
  };
  const stream = await transport.sendMessages({ ...options, messages });
  let answer: ChatMessage | undefined;
  for await (const message of readUIMessageStream<ChatMessage>({ stream })) answer = message;
  assert(answer !== undefined);
  return answer;
}

const user = (id: string, text: string): ChatMessage => ({ id, role: "user", parts: [{ type: "text", text }] });
const first = user("1", "Remember: the launch is on 12 May at pier 7.");
const noted = await ask([first]);
const answer = await ask([first, noted, user("2", "Where is the launch?")]);
const text = answer.parts.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("");
console.log(text);
assert.match(text, /pier 7/);
assert.equal(answer.metadata?.session_id, noted.metadata?.session_id);
assert.equal(await transport.reconnectToStream({ chatId: "launch" }), null);

if (process.argv.includes("--stay")) await once(process, "SIGINT");
page.close();
server.kill();
await once(server, "close");
await rm(folder, { recursive: true, maxRetries: 10 });
