import { pinnedIn } from "../compaction/shown-messages.ts";
import { requireReachableFor } from "../compactions/compaction-part.ts";
import { invalid, RuntimeError } from "../contract/error.ts";
import type { OperationInput } from "../contract/operations.ts";
import type { RewriteCommit } from "../contract/rewrite.ts";
import type { Service } from "../runtime/dispatch.ts";
import type { Placed } from "../state/context.ts";
import { planRewrite, splice, type Wanted } from "../state/plan-rewrite.ts";
import { findRevision, revisionOf, transcriptAfter } from "../state/rewrites.ts";
import type { WholeState } from "../state/whole-state.ts";
import { estimateTokens } from "../turn/tokens.ts";
import { closeLeftovers, requireAnswered } from "../turn/turn-end.ts";
import { appendEntries, type LiveSession, type LiveSessions, type LockedWork } from "./live-sessions.ts";
import { pageOf } from "./session-reader.ts";
import type { TurnParts } from "./turn-runner.ts";
import { chooseTools } from "./turn-tools.ts";

interface RewriteParts extends TurnParts {
  readonly live: LiveSessions;
  readonly locked: LockedWork;
}

type Operations = "rewriteTranscript" | "restoreRevision" | "readRevision" | "listRewrites";

/** The operations on transcripts, each with the parts that are current when it begins. */
export function createRewrites(
  fixed: Pick<RewriteParts, "live" | "locked" | "hash">,
  current: () => RewriteParts,
): Pick<Service, Operations> {
  const { live, locked, hash } = fixed;
  return {
    rewriteTranscript: async (input) => {
      const session = await live.find(input.session_id);
      const { start, end } = input.selection;
      return locked.run(session, {}, () =>
        change(current(), session, input, (state, how) => {
          if (start <= end && end <= how.seen) return splice(state, input, how);
          throw invalid(`selection: ${start} to ${end} is no range of the ${how.seen} messages of the session`);
        }),
      );
    },
    restoreRevision: async (input) => {
      const session = await live.find(input.session_id);
      return locked.run(session, {}, () =>
        change(current(), session, input, (state, { seen }) => {
          const to = requireRevision(state, input.revision, hash);
          const selection = { type: "message_range" as const, start: 0, end: seen };
          return { to, selection, range: { start: 0, end: state.transcript.length } };
        }),
      );
    },
    readRevision: async ({ session_id, revision, offset, limit }) => {
      const state = await live.whole(await live.findFresh(session_id));
      const head_revision = revisionOf(state.transcript, hash);
      if (revision === "current" || revision === head_revision) {
        return structuredClone({ ...pageOf(state, offset, limit), revision: head_revision, head_revision });
      }
      const { restores, message_count } = requireRevision(state, revision, hash);
      const transcript = transcriptAfter(state, restores).slice(0, message_count);
      return structuredClone({ ...pageOf({ ...state, transcript }, offset, limit), revision, head_revision });
    },
    listRewrites: async ({ session_id }) => {
      const state = await live.whole(await live.findFresh(session_id));
      const commits = structuredClone(state.rewrites.map(({ commit }) => commit));
      return { session_id, head_revision: revisionOf(state.transcript, hash), commits };
    },
  };
}

/** Every rewrite keeps the previous transcript. */
const REWRITES_MAX = 1_000;

type Why = Pick<OperationInput<"restoreRevision">, "reason" | "actor" | "expected_parent_revision">;

/** Changes a transcript by one entry, or rejects with the reason. */
async function change(
  parts: RewriteParts,
  session: LiveSession,
  why: Why,
  want: (state: WholeState, how: { seen: number; now: string }) => Wanted,
) {
  const state = await parts.whole(session);
  const { store, clock, hash } = parts;
  const { sessionId: session_id } = state;
  if (state.rewrites.length >= REWRITES_MAX) {
    throw invalid(`session ${session_id} was rewritten ${REWRITES_MAX} times, which is the most; fork it to go on`);
  }
  const { grammarFaults } = await import("../compaction/grammar.ts");
  const seen = { messages: state.transcript.length, revision: revisionOf(state.transcript, hash) };
  requireExpected(why, seen.revision);
  requireAnswered(state);
  await appendEntries(store.log, session, () => closeLeftovers(state, clock));
  const closed = state.transcript.length;
  let commit: RewriteCommit | undefined;
  await appendEntries(store.log, session, () => {
    // A text injected meanwhile changes the transcript.
    const isSeen = state.transcript.length === closed;
    const parent = isSeen ? seen.revision : revisionOf(state.transcript, hash);
    requireExpected(why, parent);
    const now = clock.now();
    const shown = isSeen ? seen.messages : state.transcript.length;
    const wanted = want(state, { seen: shown, now: new Date(now).toISOString() });
    const { body, after } = planRewrite(state, wanted, { why, parent, seen: shown, now, hash, judge: grammarFaults });
    requireRoom(parts, session, after);
    ({ commit } = body);
    return [body];
  });
  parts.memory?.indexLater(state);
  if (commit === undefined) throw new Error("a rewrite was appended that nobody made");
  const { parent_revision, revision } = commit;
  const message_count = state.transcript.length;
  return { session_id, parent_revision, revision, message_count, commit: structuredClone(commit) };
}

function requireExpected({ expected_parent_revision: expected }: Why, actual: string): void {
  if (expected === undefined || expected === null || expected === actual) return;
  throw invalid(`expected_parent_revision: ${expected} is not the current revision, which is ${actual}`);
}

function requireRevision(state: WholeState, revision: string, hash: RewriteParts["hash"]) {
  const found = findRevision(state, revision, hash);
  if (found !== undefined) return found;
  throw new RuntimeError(
    "SESSION_NOT_FOUND",
    `revision: session ${state.sessionId} never had the revision ${revision}`,
  );
}

/** Rejects a system message too large for any compaction. */
function requireRoom(parts: RewriteParts, session: LiveSession, after: readonly Placed[]): void {
  const { state } = session;
  const system = after[0]?.message.role === "system" ? after[0].message.content : undefined;
  if (parts.compaction === undefined || system === undefined || system === state.settings.system_prompt) return;
  const pinned = [...pinnedIn(after, state.pins)].map(({ message }) => message);
  requireReachableFor(
    parts.compaction,
    { ...state.settings, system_prompt: system },
    {
      tools: chooseTools(parts, session, undefined).values(),
      pinTokens: estimateTokens(pinned),
      contextWindow: parts.windowOf(state.settings),
    },
  );
}
