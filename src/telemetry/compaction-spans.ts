import type { EntryBody, EntryBodyOf } from "../contract/entry.ts";
import { textContent } from "./content.ts";
import type { OpenSpan, Spans } from "./spans.ts";

/** The compaction that runs, told by what it appends. */
export interface CompactionSpans {
  /** Undefined while none runs. */
  current(): OpenSpan | undefined;
  appended(body: EntryBody): void;
  /** Ends one that its surroundings broke. */
  leave(): void;
}

interface Where {
  readonly sessionId: string | undefined;
  readonly traceparent: string | undefined;
  /** The turn it is part of. */
  readonly turn: OpenSpan | undefined;
}

export function createCompactionSpans(spans: Spans, { sessionId, turn, traceparent }: Where): CompactionSpans {
  let open: OpenSpan | undefined;
  const begin = (): OpenSpan =>
    spans.begin({
      name: "compact",
      kind: "internal",
      parent: turn,
      traceparent,
      attributes: { "gen_ai.operation.name": "compact", "gen_ai.conversation.id": sessionId },
    });
  return {
    current: () => open,
    appended: (body) => {
      if (body.kind === "event" && body.event.type === "compaction_started") open = begin();
      if (body.kind !== "compacted" && body.kind !== "compaction_failed") return;
      // A compactor that fails before it has begun is told by its failure alone.
      const span = open ?? begin();
      open = undefined;
      if (body.kind === "compaction_failed") return span.end({ type: "compaction_failed", message: body.error });
      span.set(numbersOf(body));
      span.set({ "rkat.compaction.summary": textContent(spans, body.summary) });
      span.end();
    },
    leave: () => {
      open?.end({ type: "unfinished" });
      open = undefined;
    },
  };
}

function numbersOf({ receipt, ...body }: EntryBodyOf<"compacted">) {
  return {
    "rkat.compaction.id": body.compaction_id,
    "rkat.compaction.trigger": body.trigger,
    "rkat.compaction.strategy": body.strategy,
    "rkat.compaction.summary_by": body.summary_by,
    "rkat.compaction.messages_before": body.messages_before,
    "rkat.compaction.messages_after": body.messages_after,
    "rkat.compaction.tokens_before": body.tokens_before,
    "rkat.compaction.tokens_after": body.tokens_after,
    "rkat.compaction.summary_tokens": body.summary_tokens,
    "rkat.compaction.receipt.total": receipt.total,
    "rkat.compaction.receipt.in_summary": receipt.in_summary,
    "rkat.compaction.receipt.in_tail": receipt.in_tail,
    "rkat.compaction.receipt.pinned": receipt.pinned,
    "rkat.compaction.receipt.recoverable": receipt.recoverable,
    "rkat.compaction.receipt.found_by_search": receipt.found_by_search,
    "rkat.compaction.receipt.lost": receipt.lost,
    "rkat.compaction.receipt.invented": receipt.invented.length,
    "rkat.compaction.receipt.unverified": receipt.unverified?.length ?? 0,
  };
}
