import { appendFileSync } from "node:fs";
import { setImmediate } from "node:timers/promises";
import { crc32 } from "node:zlib";
import { COMPACTION_PROMPT } from "@rkat/core/compaction/shown-messages";
import type { Runtime } from "@rkat/core/create-runtime";
import type { Clock } from "@rkat/core/ports/clock";
import type { Embedder } from "@rkat/core/ports/memory";
import type { ModelClient } from "@rkat/core/ports/model";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { createSystemClock } from "@rkat/core/runtime/system-clock";
import { openRuntime } from "@rkat/node/open-runtime";
import { createRandom } from "../crash/random.ts";

/** A word that is said once in all sessions: in a fact, or in the answer to it. */
export const WORD = /[fr]q[bcdfghjkmp]+q/;
const RAIN = "The rain went on and the kettle boiled for a second time. ".repeat(6);

/** A word of letters that is no word of a language: neither its parts nor its stem are those of another. */
export function wordFor(...numbers: readonly number[]): string {
  const signs = numbers.map((number) =>
    String(number)
      .padStart(3, "0")
      .replace(/\d/g, (digit) => "bcdfghjkmp".charAt(Number(digit))),
  );
  return `fq${signs.join("")}q`;
}

export function factWith(word: string): string {
  return `The code word of this hour is ${word}. ${RAIN}`;
}

/** Small enough for a compaction every few turns. */
const OFTEN = { autoCompactThreshold: 1_200, recentTurnBudget: 2, maxSummaryTokens: 60, minTurnsBetweenCompactions: 2 };

/** The work that waits for an idle process is done while turns run: a kill finds all of it under way. */
const HASTE = 100;

interface ProcessRun {
  readonly folder: string;
  /** Which start of the process it is. */
  readonly life: string;
  /** Told of each compaction once it is in the log. */
  readonly compacted?: (compactionId: string) => void;
  /** Told of each batch whose embedding has begun. */
  readonly embedding?: () => void;
  /** The weights of the embedder: vectors of others say nothing to it. */
  readonly weights?: string;
}

/** A runtime that remembers on disk; every passage it embeds is a line of `embeddings.txt`. */
export function openRuntimeOf({
  folder,
  life,
  compacted = () => {},
  embedding = () => {},
  weights = "counting",
}: ProcessRun): Promise<Runtime> {
  return openRuntime({
    stateFolder: `${folder}/state`,
    model: createRainyModel(),
    memory: { embedder: createCountingEmbedder(weights, `${folder}/embeddings.txt`, { life, embedding }) },
    compaction: { ...OFTEN, afterCompaction: async ({ compaction_id }) => compacted(compaction_id) },
    toolPreset: "none",
    clock: createHastyClock(),
    env: {},
  });
}

/** Every answer is said once, too. */
function createRainyModel(): ModelClient {
  return createScriptedModel(({ messages }) => {
    const last = messages.at(-1);
    const said = last?.role === "user" ? String(last.content) : "";
    if (said === COMPACTION_PROMPT) return { text: "They talked about rain." };
    return { text: `Noted as ${WORD.exec(said)?.[0].replace("f", "r")}. ${RAIN}` };
  });
}

function createHastyClock(): Clock {
  const clock = createSystemClock();
  return { ...clock, sleep: (ms, signal) => clock.sleep(ms / HASTE, signal) };
}

const DIMENSIONS = 8;

function createCountingEmbedder(
  id: string,
  file: string,
  { life, embedding }: Required<Pick<ProcessRun, "life" | "embedding">>,
): Embedder {
  return {
    id,
    dimensions: DIMENSIONS,
    embed: async (texts, kind) => {
      const passages = texts.flatMap((text) => WORD.exec(text)?.[0] ?? []);
      if (kind === "passage" && passages.length > 0) {
        appendFileSync(file, passages.map((passage) => `${passage} in life ${life}\n`).join(""));
        embedding();
        await setImmediate();
      }
      return texts.map((text) => directionOf(text, id));
    },
    close: async () => {},
  };
}

/** A text points where its word does, with other weights elsewhere. */
function directionOf(text: string, weights: string): Float32Array {
  const random = createRandom(crc32(`${weights} ${WORD.exec(text)?.[0] ?? text}`));
  const vector = Float32Array.from({ length: DIMENSIONS }, () => random() - 0.5);
  const length = Math.hypot(...vector) || 1;
  return vector.map((value) => value / length);
}
