import { DefaultCompactor } from "@rkat/core/compaction/policy";
import { type CompactionOutcome, runCompaction } from "@rkat/core/compaction/run-compaction";
import { isSummary, summaryMessage } from "@rkat/core/compaction/shown-messages";
import { compactingFor } from "@rkat/core/compactions/compaction-part";
import type { CompactionTrigger } from "@rkat/core/contract/compaction";
import type { EntryBody } from "@rkat/core/contract/entry";
import type { Message } from "@rkat/core/contract/message";
import type { Clock } from "@rkat/core/ports/clock";
import type { Compactor } from "@rkat/core/ports/compactor";
import { extractiveSummary } from "@rkat/core/providers/offline/summary";
import { createScriptedModel, type ScriptedStep } from "@rkat/core/providers/scripted";
import { type CompactionOptions, composeCompaction } from "@rkat/core/sessions/session-settings";
import type { Asking } from "@rkat/core/turn/model-call";
import type { Random } from "../support/random-history.ts";
import { below, chance, pick } from "./chances.ts";
import type { FoldedSession } from "./folded-session.ts";

interface Compacted {
  readonly session: FoldedSession;
  readonly random: Random;
  readonly clock: Clock;
  /** Without a summary by a model, which would be compared with every word of its source. */
  readonly isWordless: boolean;
  readonly strategy?: "cascade" | undefined;
}

const TRIGGERS: readonly CompactionTrigger[] = ["threshold", "manual", "overflow"];
/** Small ones make a context fit by fewer turns, fewer exchanges and references. */
const WINDOWS: readonly (number | undefined)[] = [undefined, 60, 200, 600, 2_000, 8_000, 200_000];

/** Compacts with settings, a model and a summary of the moment; something may be injected while it is written. */
export async function compactRandomly(compacted: Compacted): Promise<CompactionOutcome> {
  const { session, random, clock, isWordless, strategy } = compacted;
  const { state, append } = session;
  const contextWindow = pick(random, WINDOWS);
  const write = (): ScriptedStep => {
    if (chance(random, 0.1)) void append([injected()]);
    return isWordless ? { ends: { failure: TOO_LONG } } : randomSummary(random);
  };
  const asking: Asking = {
    model: createScriptedModel(write, contextWindow === undefined ? {} : { contextWindow }),
    clock,
    retry: { maxRetries: 0, initialDelayMs: 1, maxDelayMs: 1, retryAfterMaxMs: 1, multiplier: 1 },
    calls: { callTimeoutMs: Number.POSITIVE_INFINITY, stallTimeoutMs: Number.POSITIVE_INFINITY },
    deadlineMs: Number.POSITIVE_INFINITY,
    signal: new AbortController().signal,
    redact: (text) => text,
    acceptsEmpty: false,
    emit: () => {},
    append,
  };
  const extract = async (...source: Parameters<typeof extractiveSummary>): Promise<string> =>
    isWordless ? ".".repeat(1 + below(random, 400)) : extractiveSummary(...source);
  const options: CompactionOptions = {
    recentTurnBudget: 1 + below(random, 5),
    maxSummaryTokens: 10 + below(random, 200),
    pruneToolResults: chance(random, 0.9),
    cutInvented: chance(random, 0.8),
    ...(strategy === undefined && chance(random, 0.15) ? { compactor: roughCompactor(random) } : {}),
    ...(!isWordless && chance(random, 0.3) ? { curator: () => String(write().text ?? "") } : {}),
  };
  const compacting = compactingFor(
    composeCompaction(options, { strategy }, extract),
    {},
    { contextWindow, prices: undefined },
  );
  const trigger = pick(random, TRIGGERS) ?? "manual";
  return runCompaction({ state, compacting, asking, trigger, append });
}

/** A compactor of somebody who knows no grammar: it cuts anywhere, or leaves out what it likes. */
function roughCompactor(random: Random): Compactor {
  const share = random();
  const every = 1 + below(random, 4);
  const isTail = chance(random, 0.5);
  const isKept = (at: number, length: number): boolean => (isTail ? at >= share * length : (at + every) % 3 < 1);
  const base = new DefaultCompactor({ maxSummaryTokens: 10 + below(random, 200) });
  return {
    shouldCompact: (context) => base.shouldCompact(context),
    compactionPrompt: () => base.compactionPrompt(),
    maxSummaryTokens: () => base.maxSummaryTokens(),
    prepareForSummarization: (messages) => base.prepareForSummarization(messages),
    rebuildHistory: (messages, summary) => {
      const systems = messages.filter(({ role }) => role === "system");
      const said = messages.filter((message) => message.role !== "system" && !isSummary(message));
      const stands: Message = summaryMessage({ summary, created_at, compaction_id: "" });
      return {
        messages: [...systems, stands, ...said.filter((_, at) => isKept(at, said.length))],
        discarded: said.filter((_, at) => !isKept(at, said.length)),
      };
    },
  };
}

const created_at = "2026-01-01T00:00:00.000Z";

function injected(): EntryBody {
  const body = "the build is green again";
  return { kind: "notice", message: { role: "system_notice", kind: "context", body, created_at } };
}

const TOO_LONG = { kind: "context_exceeded", message: "too long" } as const;
const SENTENCES: readonly string[] = [
  "They want a parser.",
  "The parser is in src/parse.ts, line 40.",
  "- It was looked at, and `export function parse() {}` is there.",
  "The billing-service 7.3.1 was deployed at 14:32 by https://ci.example.test/9.",
];

/** What a model makes of a request for a summary: grounded or not, endless, empty, or nothing at all. */
function randomSummary(random: Random): ScriptedStep {
  const share = random();
  if (share < 0.05) return { ends: { failure: TOO_LONG } };
  if (share < 0.1) return { ends: { failure: { kind: "auth", message: "no key" } } };
  if (share < 0.13) return { text: " " };
  if (share < 0.2) return { text: "They want a parser. ".repeat(200) };
  return { text: Array.from({ length: 1 + below(random, 4) }, () => pick(random, SENTENCES)).join("\n") };
}
