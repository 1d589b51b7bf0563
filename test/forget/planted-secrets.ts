import { COMPACTION_PROMPT } from "@rkat/core/compaction/shown-messages";
import type { Runtime } from "@rkat/core/create-runtime";
import type { Embedder } from "@rkat/core/ports/memory";
import type { ModelClient } from "@rkat/core/ports/model";
import type { Tool } from "@rkat/core/ports/tool";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { createRandom } from "../crash/random.ts";

/** A secret of random letters, digits and blanks: no part of it is said otherwise. */
export function secretFor(seed: number): string {
  const random = createRandom(seed * 7_919 + 13);
  const word = (length: number): string =>
    Array.from({ length }, () => "bcdfghjkmnpqrstvwxz23456789".charAt(Math.floor(random() * 27))).join("");
  return `${word(6)} "${word(5)}" ${word(4)}`;
}

const RAIN = "The rain went on and the kettle boiled for a second time. ".repeat(5);
const CALL = /^Look up number (\d+)\./;

/** Answers in the words it was asked in; a question for a number makes it call the tool, a compaction quotes what it reads. */
export function createTalkingModel(): ModelClient {
  return createScriptedModel((request) => {
    const last = request.messages.at(-1);
    const said = last === undefined ? "" : JSON.stringify(last);
    if (JSON.stringify(request.messages).includes(JSON.stringify(COMPACTION_PROMPT).slice(1, 60))) {
      const quoted = [...JSON.stringify(request.messages).matchAll(/The code is (.{0,60}?)\./gu)].map(
        ([, code = ""]) => `The code is ${code.replaceAll("\\", "")}.`,
      );
      return { text: ["They spoke of codes.", ...new Set(quoted)].join("\n\n") };
    }
    const asked = last?.role === "user" && typeof last.content === "string" ? CALL.exec(last.content)?.[1] : undefined;
    if (asked !== undefined) return { calls: [{ name: "look_up", args: { number: Number(asked) } }] };
    return { text: last?.role === "tool_results" ? `It says: ${said.slice(0, 200)}` : `Noted. ${RAIN}` };
  });
}

/** Gives the secret of a number. */
export const lookUp: Tool = {
  name: "look_up",
  description: "Looks a number up.",
  inputSchema: { type: "object", properties: { number: { type: "number" } } },
  execute: ({ number }) => JSON.stringify({ code: `The code is ${secretFor(Number(number))}.` }),
};

/** Small enough for a compaction every few turns. */
export const OFTEN = {
  autoCompactThreshold: 1_200,
  recentTurnBudget: 2,
  maxSummaryTokens: 200,
  minTurnsBetweenCompactions: 2,
};

/** A meaning of eight numbers, made of the letters: enough for vectors to be there. */
export const embedder: Embedder = {
  id: "letters",
  dimensions: 8,
  embed: async (texts) =>
    texts.map((text) => Float32Array.from({ length: 8 }, (_, at) => 1 + (text.charCodeAt(at) || 0) / 100)),
  close: async () => {},
};

/** Where a secret was put, by turns. */
export type Place = (typeof PLACES)[number];
const PLACES = ["prompt", "tool", "caption", "memory", "note", "label", "context"] as const;

/** Puts secrets into a realm, some a session, with compactions and forks among them; tells where each went. */
export async function plantSecrets(
  runtime: Runtime,
  { secrets, sessions }: { readonly secrets: number; readonly sessions: number },
): Promise<ReadonlyMap<number, Place>> {
  const placed = new Map<number, Place>();
  for (let at = 0; at < sessions; at += 1) {
    const own = Array.from({ length: secrets }, (_, number) => number).filter((number) => number % sessions === at);
    const placeOf = (number: number): Place => PLACES[number % PLACES.length] ?? "prompt";
    for (const number of own) placed.set(number, placeOf(number));
    const labels = Object.fromEntries(
      own.filter((number) => placeOf(number) === "label").map((number) => [`of-${number}`, secretFor(number)]),
    );
    const session = await runtime.createSession(`Good morning, this is session ${at}.`, { labels });
    for (const number of own) {
      const code = `The code is ${secretFor(number)}.`;
      switch (placeOf(number)) {
        case "prompt":
          await session.turn(`${code} ${RAIN}`);
          break;
        case "tool":
          await session.turn(`Look up number ${number}.`);
          break;
        case "caption":
          await session.turn([
            { type: "text", text: `An image. ${code}` },
            {
              type: "image",
              media_type: "image/png",
              source: "inline",
              data: Buffer.from(`image ${number} ${code}`).toString("base64"),
            },
          ]);
          break;
        case "context":
          await runtime.dispatch("injectContext", { session_id: session.id, text: `${code} ${RAIN}` });
          break;
        case "memory":
          await runtime.dispatch("remember", { agent: `agent-${at % 3}`, content: `${code} ${RAIN}` });
          break;
        case "note":
          await runtime.dispatch("takeNote", {
            agent: `agent-${at % 3}`,
            content: code,
            title: `on ${secretFor(number)}`,
          });
          break;
        case "label":
          break;
      }
      await session.turn(`And then? ${RAIN}`);
    }
    if (at % 3 === 0) await runtime.dispatch("forkSession", { session_id: session.id, message_index: 5 });
  }
  return placed;
}
