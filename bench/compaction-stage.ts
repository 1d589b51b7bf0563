import type { Compacting } from "@rkat/core/compaction/prepare";
import { compactingFor } from "@rkat/core/compactions/compaction-part";
import type { Message } from "@rkat/core/contract/message";
import type { ModelClient } from "@rkat/core/ports/model";
import { extractiveSummary } from "@rkat/core/providers/offline/summary";
import { type CompactionOptions, composeCompaction } from "@rkat/core/sessions/session-settings";
import type { Asking } from "@rkat/core/turn/model-call";
import { createFoldedSession, type FoldedSession } from "../test/compaction/folded-session.ts";
import { createVirtualClock } from "../test/support/virtual-clock.ts";
import { bodyOf, SYSTEM_PROMPT } from "./compaction-history.ts";

/** A session without a store that holds a history: what is measured is what compacting costs, not a disk. */
export async function foldHistory(messages: readonly Message[]): Promise<FoldedSession> {
  const session = createFoldedSession(SYSTEM_PROMPT);
  await session.append(messages.map((message) => bodyOf(message, 0)));
  return session;
}

/** Compaction as the service composes it. */
export function composeFor(options: CompactionOptions, contextWindow: number | undefined): Compacting {
  const part = composeCompaction(options, {}, async (...source) => extractiveSummary(...source));
  return compactingFor(part, {}, { contextWindow, prices: undefined });
}

/** What asking a model needs besides the model; it is asked once and without a limit of time. */
export function askingFor(model: ModelClient, append: Asking["append"]): Asking {
  return {
    model,
    clock: createVirtualClock(),
    retry: { maxRetries: 0, initialDelayMs: 1, maxDelayMs: 1, retryAfterMaxMs: 1, multiplier: 1 },
    calls: { callTimeoutMs: Number.POSITIVE_INFINITY, stallTimeoutMs: Number.POSITIVE_INFINITY },
    deadlineMs: Number.POSITIVE_INFINITY,
    signal: new AbortController().signal,
    redact: (text) => text,
    acceptsEmpty: false,
    emit: () => {},
    append,
  };
}

/** CPU of this process since it began, all threads, in milliseconds. */
export function cpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}
