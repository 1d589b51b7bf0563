import { RULES_INTRO, rulesText, summaryMessage, workStateText } from "../compaction/shown-messages.ts";
import type { KeptNative } from "../contract/compaction.ts";
import type { EntryBody, EntryBodyOf } from "../contract/entry.ts";
import type { Message } from "../contract/message.ts";
import type { ModelClient, NativeSummary } from "../ports/model.ts";
import type { CompactionRecord } from "../state/context.ts";
import type { ModelAnswer } from "./model-call.ts";
import type { Run } from "./run.ts";

/** What decides whether a call sends a native compaction. */
interface Sending {
  readonly model: ModelClient;
  readonly compactions: readonly CompactionRecord[];
  readonly isOn: boolean;
}

/**
 * The provider's native compaction that replaces the summary in these messages; undefined if there is none, it is
 * another model's, or it was refused. The summary must come first: providers treat compacted content as the beginning.
 */
export function nativeSummaryIn(messages: readonly Message[], sending: Sending): NativeSummary | undefined {
  const { model, compactions, isOn } = sending;
  if (!isOn || model.compaction === undefined) return undefined;
  const first = messages.find(({ role }) => role !== "system");
  const id = first?.role === "user" ? first.compaction_id : undefined;
  if (id === undefined) return undefined;
  const record = compactions.find(({ body, undone }) => body.compaction_id === id && !undone);
  const native = record?.body.native;
  if (record === undefined || native === undefined || record.nativeRefused === true) return undefined;
  if (!isFor(native, model) || !isSummaryOf(first, record.body)) return undefined;
  return { compactionId: id, item: native.item, following: followingOf(record.body) };
}

function isFor(native: KeptNative, model: ModelClient): boolean {
  return native.provider === model.provider && native.model === model.modelId && native.host === hostOf(model);
}

/** Only the host is stored: the rest of an address may contain credentials. */
export function hostOf({ url }: Pick<ModelClient, "url">): string | undefined {
  return url !== undefined && URL.canParse(url) ? new URL(url).host : undefined;
}

type Summarised = Pick<EntryBodyOf<"compacted">, "summary" | "rules" | "work_state" | "created_at" | "compaction_id">;

/** Whether a message is the summary as written here, not changed by a custom compactor. */
export function isSummaryOf(message: Message | undefined, body: Summarised): boolean {
  return message?.role === "user" && message.content === summaryMessage(body).content;
}

/** All rules, including those in the summary: the native compaction's content is unknown. Then the state of the work. */
function followingOf({ rules = [], work_state }: Summarised): string {
  const carried = rules.length === 0 ? [] : [`${RULES_INTRO}\n${rulesText(rules)}`];
  return [...carried, ...(work_state === undefined ? [] : [workStateText(work_state)])].join("\n\n");
}

type Failed = Extract<ModelAnswer, { ok: false }>;

/**
 * Whether to repeat a refused call without the native compaction. Refusals differ between providers, so the repeated
 * call decides: if it succeeds, the compaction was the cause.
 */
export function leavesOut(run: Run, { because, failure }: Failed, native: NativeSummary | undefined): boolean {
  if (native === undefined || because !== "failure" || failure.kind !== "invalid_request") return false;
  run.leftOut = { compactionId: native.compactionId, error: failure.message };
  run.recoveries += 1;
  return true;
}

/** The entries after a call without it succeeded. */
export function refusedNative(run: Run): readonly EntryBody[] {
  const { leftOut, turn } = run;
  if (leftOut === undefined) return [];
  run.leftOut = undefined;
  const { compactionId: compaction_id, error } = leftOut;
  const { provider } = turn.model;
  return [{ kind: "event", event: { type: "native_compaction_refused", compaction_id, provider, error } }];
}
