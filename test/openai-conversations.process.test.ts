import { RuntimeError } from "@rkat/core/contract/error";
import type { Message } from "@rkat/core/contract/message";
import type { ChatMessage } from "@rkat/core/contract/wire/openai";
import { createInMemoryStore } from "@rkat/core/create-runtime";
import type { Tool } from "@rkat/core/ports/tool";
import { forCaller } from "@rkat/server/http/caller-runtime";
import { readTalk } from "@rkat/server/openai/chat-messages";
import { runChat } from "@rkat/server/openai/chat-turn";
import { createConversations } from "@rkat/server/openai/conversations";
import { expect, it } from "vitest";
import { below, chance, pick } from "./compaction/chances.ts";
import { createRandom } from "./crash/random.ts";
import { byEffort } from "./support/effort.ts";
import { scriptedRuntime } from "./support/runtime.ts";
import { createVirtualClock } from "./support/virtual-clock.ts";

/** What a client knows of a conversation, and what was done on the server for it. */
interface Known {
  readonly caller: string;
  readonly user: string | undefined;
  readonly messages: readonly ChatMessage[];
  readonly secrets: ReadonlySet<string>;
}

const WORDS = ["yes", "no"];
const STEPS = 60;

it.each(Array.from({ length: byEffort({ usual: 12, full: 400 }) }, (_, seed) => seed + 1))(
  "[K1] a conversation is never answered in a session that holds what is not its own; seed %i",
  async (seed) => {
    const random = createRandom(seed);
    const store = createInMemoryStore();
    // Its ids are never given twice, whoever asks for them.
    const clock = createVirtualClock();
    let secrets = 0;
    const secret: Tool = {
      name: "secret",
      description: "Tells one.",
      inputSchema: { type: "object" },
      execute: () => `secret ${++secrets};`,
    };
    const open = () => {
      const { runtime } = scriptedRuntime(
        ({ messages }) => {
          if (chance(random, 0.1)) return { text: "uh", ends: { failure: { kind: "invalid_request", message: "no" } } };
          const isAsked = messages.at(-1)?.role === "user";
          if (isAsked && chance(random, 0.3))
            return { text: "hm", calls: [{ id: `c${secrets}-${messages.length}`, name: "secret" }] };
          return { text: pick(random, WORDS) ?? "" };
        },
        { store, clock, tools: [secret] },
      );
      return { runtime, conversations: createConversations() };
    };
    let process = open();
    const owners = new Map<string, string>();

    const ask = async (from: Known): Promise<Known> => {
      const { runtime, conversations } = process;
      const caller = {
        name: from.caller,
        scopes: new Set(["read" as const, "run" as const, "tools" as const]),
        labels: {},
      };
      const before = secrets;
      const turn = {
        talk: readTalk(from.messages),
        party: { caller: from.caller, system: undefined, marks: [from.user] },
        named: undefined,
        creation: { labels: {} },
        continuation: {},
      };
      const texts: string[] = [];
      const listener = ({ event }: { event: { type: string; content?: unknown } }) => {
        if (event.type === "text_complete") texts.push(String(event.content));
      };
      const { session_id } = await runChat(forCaller(runtime, caller), conversations, turn, {
        listener,
        found: () => {},
      });
      const answer = texts.join("\n\n");
      const known = {
        ...from,
        messages: [...from.messages, { role: "assistant" as const, content: answer }],
        secrets: new Set([
          ...from.secrets,
          ...Array.from({ length: secrets - before }, (_, at) => `secret ${before + at + 1};`),
        ]),
      };
      expect(owners.get(session_id) ?? from.caller).toBe(from.caller);
      owners.set(session_id, from.caller);
      const { messages } = await runtime.session(session_id).history();
      expect(visible(messages)).toEqual(known.messages.map(({ role, content }) => `${role}: ${content}`));
      for (const [reported] of JSON.stringify(messages).matchAll(/secret \d+;/g))
        expect(known.secrets).toContain(reported);
      return known;
    };

    let known: Known[] = [];
    for (let step = 0; step < STEPS; step += 1) {
      if (chance(random, 0.05)) {
        await process.runtime.close();
        process = open();
      }
      const said = { role: "user" as const, content: pick(random, WORDS) ?? "" };
      const old = chance(random, 0.85) ? pick(random, known) : undefined;
      const fresh = {
        caller: pick(random, ["ann", "bob"]) ?? "",
        user: pick(random, ["u", undefined]),
        messages: [],
        secrets: new Set<string>(),
      };
      const base: Known = old ?? fresh;
      // At some place of it, as an edit or a branch; after an answer.
      const kept = chance(random, 0.4) ? 2 * below(random, base.messages.length / 2 + 1) : base.messages.length;
      const request: Known = { ...base, messages: [...base.messages.slice(0, kept), said] };
      const asked = chance(random, 0.15) ? [request, request] : [request];
      // A request that comes again, since its answer was lost.
      for (const one of asked) {
        const answered = await ask(one).catch((thrown: unknown) => {
          if (thrown instanceof RuntimeError && thrown.code === "PROVIDER_ERROR") return undefined;
          throw thrown;
        });
        if (answered !== undefined) known.push(answered);
      }
      known = known.slice(-12);
    }
    await process.runtime.close();
  },
);

/** A transcript as a client was told it. */
function visible(messages: readonly Message[]): readonly string[] {
  const reported: string[] = [];
  for (const message of messages) {
    if (message.role === "user") reported.push(`user: ${message.content}`);
    if (message.role !== "block_assistant") continue;
    const text = message.blocks.flatMap((block) => (block.block_type === "text" ? [block.data.text] : [])).join("");
    const last = reported.at(-1);
    if (last?.startsWith("assistant: ")) reported[reported.length - 1] = `${last}\n\n${text}`;
    else reported.push(`assistant: ${text}`);
  }
  return reported;
}
