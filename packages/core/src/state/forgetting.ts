import {
  type EvictionReason,
  FORGOTTEN,
  FORGOTTEN_SHORT,
  FORGOTTEN_SHORTER,
  type SeqRange,
} from "../contract/compaction.ts";
import type { Entry, EntryBody, EntryBodyOf } from "../contract/entry.ts";
import type { AgentEventOf } from "../contract/event.ts";
import { GOAL_PHASES } from "../contract/wire/goal.ts";
import { OCCURRENCE_PHASES, SCHEDULE_PHASES } from "../contract/wire/schedule.ts";
import { cutSentences } from "../grounding/cut-sentences.ts";
import { stemsOf } from "../text/words.ts";

/** What to erase from a log. */
export interface Forgetting {
  /** Everything. */
  readonly isAll: boolean;
  /** Wherever it occurs, also in messages that were not named. */
  readonly isEverywhere: boolean;
  /** Messages to erase whatever they say. */
  isGone(seq: number, message: unknown): boolean;
  /** Whether a text contains the searched content in any form. */
  finds(text: string): boolean;
  /** Whether a sentence of a summary paraphrases the searched content. */
  says(sentence: string): boolean;
  /** A hash of the old content under a key that is not stored. */
  mac(text: string): string;
}

/** The plan for a log: changed entries and erased ranges. */
export interface ForgetPlan<B> {
  readonly changed: readonly Entry<B>[];
  readonly holes: readonly Hole[];
  /** Messages, memories or notes that were erased, and derived texts that lost a part. */
  readonly emptied: number;
  readonly cut: number;
}

export interface Hole extends SeqRange {
  readonly mac: string;
}

/** The replacement for texts shorter than the usual one. */
const NAMELESS = "forgotten";

/** Never longer than the original, and never empty if it was not: an empty text has no event. */
function fit(text: string, key = ""): string {
  if (text === "") return text;
  // Providers accept only letters in a tool name, and receive the call again.
  if (key === NAME) return NAMELESS.slice(0, text.length);
  // An MCP server's address is read again, and is an address.
  if (key === "url" && /^https?:\/\/./u.test(text)) return "http://x";
  // UTF-8 length is at least the number of UTF-16 units.
  if (text.length >= FORGOTTEN.length) return FORGOTTEN;
  return text.length >= 3 ? FORGOTTEN_SHORT : FORGOTTEN_SHORTER;
}

/** Plans what a log contains after an erasure, from its first entry on. */
export async function planForgetting<B extends { readonly kind: string }>(
  entries: readonly Entry<B>[],
  how: Forgetting,
  yieldToEventLoop: () => Promise<void> | undefined,
): Promise<ForgetPlan<B>> {
  const gone = new Set<number>();
  let known: ReadonlySet<string> | undefined;
  /** Computed on first use: most logs never need it. */
  const isTool: IsTool = (name) => {
    known ??= toolsIn(entries);
    return known.has(name);
  };
  const twins = twinsIn(entries);
  const isGone: Forgetting["isGone"] = (seq, message) => {
    return how.isGone(seq, message) || (twins.get(seq) ?? []).some((twin) => how.isGone(twin, message));
  };
  const changed: { readonly before: Entry<B>; readonly after: Entry<B> }[] = [];
  let [emptied, cut] = [0, 0];
  for (const entry of entries) {
    await yieldToEventLoop();
    const { body } = entry;
    const before = gone.size;
    const said = JSON.stringify(body);
    const after = how.isAll
      ? hashed(empty(body, isTool), { how, isTool })
      : withoutIt(entry, { how: { ...how, isGone }, gone, said, isTool });
    if (JSON.stringify(after) === said) continue;
    if (how.isAll ? isMessage(body.kind) : gone.size > before) emptied += how.isAll ? 1 : gone.size - before;
    else if (TEXTS.has(body.kind)) cut += 1;
    // `as`: an emptied body has the same fields.
    changed.push({ before: entry, after: { ...entry, body: after as B } });
  }
  const holes = holesIn(
    changed.map(({ before }) => before),
    how,
  );
  return { changed: changed.map(({ after }) => after), holes, emptied, cut };
}

/** A message that waited in the inbox is in the log twice: by the seq of each entry, those of its id. */
function twinsIn(entries: readonly Entry<unknown>[]): ReadonlyMap<number, readonly number[]> {
  const ids = new Map<string, number[]>();
  for (const { seq, body } of entries) {
    const { kind, id, setup }: Record<string, unknown> = { ...Object(body) };
    const queued = kind === "message_queued" || kind === "message_delivered" ? id : Object(setup ?? {}).inbox_id;
    if (typeof queued === "string") ids.set(queued, [...(ids.get(queued) ?? []), seq]);
  }
  return new Map([...ids.values()].flatMap((seqs) => seqs.map((seq) => [seq, seqs] as const)));
}

/** Whether a name is that of a real tool, not one that a model made up or of a file. */
type IsTool = (name: string) => boolean;

/** Tools of a log: those that gave a result, and those that its settings define. */
function toolsIn(entries: readonly Entry<unknown>[]): ReadonlySet<string> {
  const called = new Map<unknown, string>();
  const known = new Set<string>();
  const visit = (value: unknown): void => {
    if (typeof value !== "object" || value === null) return;
    const { id, name, input_schema, tool_use_id, is_error }: Record<string, unknown> = { ...value };
    if (typeof name === "string" && input_schema !== undefined) known.add(name);
    if (typeof name === "string" && typeof id === "string") called.set(id, name);
    const answered = is_error === true ? undefined : called.get(tool_use_id);
    if (answered !== undefined) known.add(answered);
    for (const [key, field] of Object.entries(value)) if (!OPEN.has(key)) visit(field);
  };
  for (const { body } of entries) visit(body);
  return known;
}

/** A body with erased messages, without data derived from them. */
function withoutIt(
  entry: Entry<{ readonly kind: string }>,
  {
    how,
    gone,
    said,
    isTool,
  }: Pick<Cleaning, "how" | "isTool"> & {
    readonly gone: Set<number>;
    readonly said: string;
  },
): unknown {
  // Most bodies do not contain it, which is seen without visiting their fields.
  const isSaid = how.finds(said);
  const without = withoutMessages(entry, (seq, message) => {
    const isGone = how.isGone(seq, message) || (how.isEverywhere && isSaid && holds(message, { ...how, isTool }));
    if (!isGone) return message;
    gone.add(seq);
    return empty(message, isTool);
  });
  const { setup } = Object(without);
  const isGoalGone = gone.has(entry.seq) && Object(setup).goal !== undefined;
  const left = isGoalGone ? { ...Object(without), setup: { ...setup, goal: empty(setup.goal, isTool) } } : without;
  const isDerived = !isMessage(entry.body.kind);
  const finds = isSaid && (isDerived || how.isEverywhere) ? how.finds : () => false;
  const cleaned = clean(left, { how: { ...how, finds }, gone, isHoled: gone.size > 0, isTool });
  return isSaid && how.isEverywhere && holds(cleaned, { ...how, isTool }) ? empty(cleaned, isTool) : cleaned;
}

/** Whether user content contains it. Field names and the program's own words do not count. */
function holds(value: unknown, by: Pick<Forgetting, "finds"> & Pick<Cleaning, "isTool">, key = ""): boolean {
  const { finds, isTool } = by;
  if (typeof value === "string") return !isKept(value, key, isTool) && finds(value);
  if (Array.isArray(value)) return value.some((one) => holds(one, by, key));
  if (typeof value !== "object" || value === null) return false;
  const { block_type, data } = Object.fromEntries(Object.entries(value));
  if (block_type === "server_tool_content") return finds(JSON.stringify(Object(data).content ?? ""));
  const isAnybodys = isOpen(value, key);
  return Object.entries(value).some(
    ([name, field]) => (isAnybodys && finds(name)) || holds(field, by, isAnybodys ? key : keyOf(name, key)),
  );
}

const MESSAGES: ReadonlySet<string> = new Set([
  "imported",
  "notice",
  "turn_opened",
  "message_queued",
  "message_delivered",
  "assistant",
  "tool_results",
  "results_held",
  "memory_added",
  "note_added",
  "schedule_set",
] satisfies (EntryBody["kind"] | "memory_added" | "note_added" | "schedule_set")[]);
/** Entries derived from messages. */
const TEXTS: ReadonlySet<string> = new Set(["compacted", "compaction_prepared", "tiers_compacted"]);

function isMessage(kind: string): boolean {
  return MESSAGES.has(kind);
}

/** Changed entries as contiguous ranges. */
function holesIn(entries: readonly Entry<unknown>[], { mac }: Forgetting): readonly Hole[] {
  const ranges: { from_seq: number; to_seq: number; said: string[] }[] = [];
  for (const { seq, span, body } of entries) {
    const last = ranges.at(-1);
    const to_seq = seq + span - 1;
    if (last?.to_seq === seq - 1) {
      last.to_seq = to_seq;
      last.said.push(JSON.stringify(body));
    } else ranges.push({ from_seq: seq, to_seq, said: [JSON.stringify(body)] });
  }
  return ranges.map(({ from_seq, to_seq, said }) => ({ from_seq, to_seq, mac: mac(said.join("\n")) }));
}

/** A body with each of its messages replaced; also a memory, a note or held results. */
function withoutMessages(
  { seq, body }: Entry<{ readonly kind: string }>,
  change: <M extends object>(seq: number, message: M) => unknown,
): unknown {
  const said: Record<string, unknown> = { ...body };
  if (isMessage(body.kind)) {
    const own = said.message;
    if (typeof own === "object" && own !== null) return replaced(body, "message", own, change(seq, own));
    const changed = change(seq, body);
    return changed;
  }
  const { to } = said;
  if (body.kind !== "rewritten" || typeof to !== "object" || to === null || !("messages" in to)) return body;
  const { messages } = to;
  if (!Array.isArray(messages)) return body;
  const changed = messages.map((message: object, at) => change(seq + at, message));
  return changed.every((message, at) => message === messages[at])
    ? body
    : { ...body, to: { ...to, messages: changed } };
}

function replaced(body: object, key: string, before: unknown, after: unknown): unknown {
  return before === after ? body : { ...body, [key]: after };
}

/** Fields that stay: they hold the program's own words, or ids. */
const KEPT: ReadonlySet<string> = new Set(
  `kind role block_type type status model provider id tool_use_id created_at compaction_id approval_id forgetting_id mac
  media_type stop_reason reason_type strategy trigger summary_by error_class cause session_id by builtins memory_scope
  policy tool_filter at day superseded native_of remember decision budget_type reshape agent outcome strict class
  terminal_cause_kind error_type selection_type skill_name currency reason_kind selection pending calls call_id child_id parent parent_call until scopes cache operation terminal_status point
  tool_choice job_id goal_id origin when_busy inbox_id target_kind overlap_policy missing_target_policy expression timezone
  due_at_utc start_at_utc end_at_utc occurrence_id failure_class transport`.split(/\s+/u),
);
/** Whether a text is the program's own: a known word, an id, or a tool name. */
function isKept(text: string, key: string, isTool: IsTool): boolean {
  return KEPT.has(key) || (key === NAME && isTool(text)) || (WORDS.get(key)?.has(text) ?? false);
}

const NAME = "name";

/** Fields with items whose names are free text: MCP servers of a session, files. */
const NAMED: ReadonlySet<string> = new Set(["added", "content", "pending_prompt"]);

/** The reason of a rewrite is free text, as some names are; other `kind` fields are the program's. */
function keyOf(name: string, parent: string): string {
  return (parent === "reason" && name === "kind") || (NAMED.has(parent) && name === NAME) ? "" : name;
}

/** Fields whose names and values are free text. */
const OPEN: ReadonlySet<string> = new Set(
  "args options labels view app_context shell_env provider_params output_schema turn_output_schema metadata create env headers reloaded item input_schema parameters schema structured_output value".split(
    " ",
  ),
);
/** Fields of another exchange, or that hide their content. */
const LEFT_OUT: ReadonlySet<string> = new Set(["meta", "native", "file", "permissions"]);
/** The program's own words in fields that are free text elsewhere: reasons of evictions and adoptions, phases of schedules. */
const WORDS: ReadonlyMap<string, ReadonlySet<string>> = new Map([
  [
    "reason",
    new Set(["superseded", "failed", "large", "process_ended", "released", "depth", "rate", "permission"] satisfies (
      | EvictionReason
      | AgentEventOf<"message_refused">["reason"]
      | EntryBodyOf<"turn_adopted">["reason"]
    )[]),
  ],
  ["phase", new Set<string>([...SCHEDULE_PHASES, ...OCCURRENCE_PHASES, ...GOAL_PHASES])],
]);
/** Fields whose items are each a rule. */
const PATTERNS: ReadonlySet<string> = new Set(["always", "rules", "allow", "ask", "deny"]);
/** Hashes of content, from which a short text could be guessed. */
const DIGESTS: ReadonlySet<string> = new Set(
  "context_sha256 sha256 revision parent_revision original_span_digest replacement_digest openai.beginning".split(" "),
);
const PIXEL = {
  media_type: "image/png",
  data: "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII=",
};

/** Erases the content and keeps the structure, such as a call and its result. */
function empty(value: unknown, isTool: IsTool, key = ""): unknown {
  if (typeof value === "string") return isKept(value, key, isTool) ? value : fit(value, key);
  if (Array.isArray(value)) {
    if (PATTERNS.has(key) && value.every(isPlain)) return [];
    return KEPT.has(key) && value.every(isPlain) ? value : value.map((one) => empty(one, isTool, key));
  }
  if (typeof value !== "object" || value === null) return value;
  if (isOpen(value, key)) return {};
  const fields = Object.entries(value);
  const { type, block_type, data } = Object.fromEntries(fields);
  if (block_type === "server_tool_content") return { block_type, data: { ...withoutContent(data) } };
  if (type === "image" || type === "file" || type === "video") return { type: "text", text: FORGOTTEN };
  // Providers receive it again and reject an empty image.
  if (block_type === "image" && JSON.stringify(data).length >= JSON.stringify(PIXEL).length)
    return { block_type, data: PIXEL };
  return Object.fromEntries(
    fields
      .filter(([name]) => !LEFT_OUT.has(name))
      .map(([name, field]) => [name, DIGESTS.has(name) ? field : empty(field, isTool, keyOf(name, key))]),
  );
}

/** Whether its field names are free text. */
function isOpen(value: object, key: string): boolean {
  // The content of a provider's tool has any shape; other contents are texts and blocks.
  const isShapeless = key === "content" && !("type" in value || "block_type" in value);
  return OPEN.has(key) || isShapeless || (key === "payload" && !("operation" in value));
}

/** The content of a provider's tool can have any shape; the replacement is a text. */
function withoutContent(data: unknown): object {
  const { id, name } = Object(data);
  return { ...(id === undefined ? {} : { id }), name, content: "" };
}

function isPlain(value: unknown): boolean {
  return typeof value === "string" || typeof value === "number";
}

interface Cleaning {
  readonly how: Forgetting;
  /** Seqs of erased messages. */
  readonly gone: ReadonlySet<number>;
  /** Whether an erased message comes before or here: all later hashes depend on it. */
  readonly isHoled: boolean;
  readonly isTool: IsTool;
}

/** Removes what is derived from erased content: sentences, quotations, hashes. */
function clean(value: unknown, cleaning: Cleaning, key = ""): unknown {
  const { how, gone, isHoled, isTool } = cleaning;
  if (typeof value === "string") {
    if (DIGESTS.has(key)) return isHoled ? masked(value, how.mac(value)) : value;
    if (key === "summary") return cutText(value, how);
    return !isKept(value, key, isTool) && how.finds(value) ? fit(value, key) : value;
  }
  if (Array.isArray(value)) {
    const left = PATTERNS.has(key) ? value.filter((one) => typeof one !== "string" || !how.finds(one)) : value;
    return left.map((one) => clean(one, cleaning, key));
  }
  if (typeof value !== "object" || value === null) return value;
  if ("role" in value) return holds(value, { ...how, isTool }) ? empty(value, isTool) : value;
  const isAnybodys = isOpen(value, key);
  const { seq } = Object.fromEntries(Object.entries(value));
  const isOfGone = typeof seq === "number" && gone.has(seq);
  const fields = Object.entries(value).filter(
    ([name]) => !(isAnybodys && how.finds(name)) && !(name === "native" && isHoled),
  );
  return Object.fromEntries(
    fields.map(([name, field]) => {
      const isQuoted = isOfGone && typeof field === "string" && (name === "text" || name === "content");
      return [
        name,
        isQuoted ? fit(field) : clean(field, cleaning, isAnybodys && !DIGESTS.has(name) ? key : keyOf(name, key)),
      ];
    }),
  );
}

function hashed(value: unknown, { how, isTool }: Pick<Cleaning, "how" | "isTool">): unknown {
  const reported = { ...how, finds: () => false, says: () => false };
  return clean(value, { how: reported, gone: new Set(), isHoled: true, isTool });
}

function cutText(text: string, { finds, says }: Forgetting): string {
  const left = cutSentences(text, (sentence) => finds(sentence) || says(sentence));
  return left === "" || finds(left) ? fit(text) : left;
}

/** A different hash of the same length. */
function masked(digest: string, mac: string): string {
  const head = /^[a-z0-9]+:/u.exec(digest)?.[0] ?? "";
  return head + mac.repeat(Math.ceil(digest.length / mac.length)).slice(0, digest.length - head.length);
}

/** A summary sentence paraphrases a text if it shares this part of its words, and at least so many. */
const SHARE_MIN = 0.7;
const STEMS_MIN = 3;

/** Returns a check whether a sentence restates one of the texts. */
export function restates(texts: readonly string[]): (sentence: string) => boolean {
  const known = new Set(texts.flatMap(stemsOf));
  return (sentence) => {
    const stems = stemsOf(sentence);
    const shared = stems.filter((stem) => known.has(stem)).length;
    return stems.length >= STEMS_MIN && shared >= SHARE_MIN * stems.length;
  };
}
