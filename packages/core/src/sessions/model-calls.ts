import type { Entry } from "../contract/entry.ts";
import { defined } from "../contract/json.ts";
import type { SessionSettings } from "../contract/session.ts";
import type { ModelCalls } from "../contract/session-info.ts";
import type { Clock } from "../ports/clock.ts";
import type { Store } from "../ports/store.ts";
import type { Service } from "../runtime/dispatch.ts";
import { type SizedCall, sizeCalls } from "../state/describe-context.ts";
import type { SessionState } from "../state/session-state.ts";
import { entryPages } from "../transfer/portable-log.ts";
import type { LiveSession, LiveSessions } from "./live-sessions.ts";
import type { ContextSizes } from "./session-reader.ts";

interface ModelCallParts {
  readonly store: Store;
  readonly live: LiveSessions;
  readonly clock: Clock;
  sizesOf(session: LiveSession, state: SessionState, settings: SessionSettings): ContextSizes;
}

/** The contents of the context of each model call of a session, from its log. */
export function createModelCalls({ store, live, clock, sizesOf }: ModelCallParts): Pick<Service, "listModelCalls"> {
  return {
    listModelCalls: async ({ session_id, limit, before_seq = Number.POSITIVE_INFINITY }) => {
      const session = await live.findFresh(session_id);
      const entries = await readLog(store, session_id, clock);
      const all = entries.flatMap(({ body, seq }, at) =>
        body.kind === "model_called" && seq < before_seq ? [at] : [],
      );
      const calls = all.slice(-limit);
      const sized = await sizeCalls(session_id, { entries, calls }, clock.yieldToEventLoop);
      const sizes = new Map<SessionSettings, ContextSizes>();
      const describe = (call: SizedCall): ModelCalls["calls"][number] => {
        const known = sizes.get(call.settings) ?? sizesOf(session, session.state, call.settings);
        sizes.set(call.settings, known);
        return describeCall(call, known);
      };
      const previous = all[all.length - calls.length - 1];
      const after = previous === undefined ? 0 : (entries[previous]?.seq ?? 0);
      const isNewest = before_seq === Number.POSITIVE_INFINITY;
      const last = isNewest ? before_seq : (sized.at(-1)?.entry.seq ?? 0);
      const [first] = sized;
      return {
        calls: sized.map(describe),
        compactions: (await live.whole(session)).compactions
          .filter(({ seq }) => after < seq && seq <= last)
          .map(({ seq, undone, body: { compaction_id, trigger, tokens_before, tokens_after } }) => {
            return { seq, compaction_id, trigger, tokens_before, tokens_after, undone };
          }),
        ...(previous === undefined || first === undefined ? {} : { next_before_seq: first.entry.seq }),
      };
    },
  };
}

/** Reads a log in pages and yields between them. */
async function readLog({ log }: Store, sessionId: string, { yieldToEventLoop }: Clock): Promise<readonly Entry[]> {
  const pages: (readonly Entry[])[] = [];
  for await (const page of entryPages(log, sessionId)) {
    pages.push(page);
    await yieldToEventLoop();
  }
  return pages.flat();
}

function describeCall(call: SizedCall, sizes: ContextSizes): ModelCalls["calls"][number] {
  const { entry, model, turn, tokens, parts, usage, toolTokens } = call;
  const { tool_tokens, context_window, auto_compact_threshold: threshold } = sizes;
  return {
    seq: entry.seq,
    turn,
    at: new Date(entry.timestamp_ms).toISOString(),
    model,
    tokens,
    tool_tokens: toolTokens ?? tool_tokens,
    parts: [...parts].map(([kind, size]) => ({ kind, tokens: size })),
    ...defined({ context_window, threshold }),
    ...(usage === undefined ? {} : { usage: structuredClone(usage) }),
    ...(usage?.cost === undefined ? {} : { cost: { ...usage.cost } }),
  };
}
