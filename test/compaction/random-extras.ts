import type { EntryBody } from "@rkat/core/contract/entry";
import type { ToolUseBlock } from "@rkat/core/contract/message";
import type { WholeState } from "@rkat/core/state/whole-state";
import type { Random } from "../support/random-history.ts";
import { chance, pick } from "./chances.ts";

const created_at = "2026-01-01T00:00:00.000Z";
const usage = { input_tokens: 3, output_tokens: 2 };

/** What a log has besides what is said and shown, as the service appends it; `number` tells one time from another. */
export function randomExtras(random: Random, number: number, state: WholeState): readonly EntryBody[] {
  const kinds = [called, changed, keyed, approved, handedOut, prepared, reported, closed] as const;
  const make = pick(random, kinds) ?? called;
  return make(random, number, state);
}

function called(_random: Random, number: number): readonly EntryBody[] {
  return [
    { kind: "model_called", turn_number: 0, model: "scripted", context_sha256: `of call ${number}` },
    { kind: "call_failed", usage },
  ];
}

/** Of another model, with another system prompt, or without one. */
function changed(random: Random, number: number, { settings }: WholeState): readonly EntryBody[] {
  const { system_prompt: _before, ...rest } = settings;
  const choices = [{ ...settings, model: `model ${number}` }, rest, { ...rest, system_prompt: `be brief ${number}` }];
  return [{ kind: "settings_changed", settings: pick(random, choices) ?? settings }];
}

function keyed(random: Random, number: number): readonly EntryBody[] {
  const message = { role: "system_notice" as const, kind: "context", body: `notice ${number}`, created_at };
  return [{ kind: "notice", message, idempotency_key: chance(random, 0.3) ? "again" : `key ${number}` }];
}

/** A turn that waits for a word, is told something meanwhile, gets its word and its results. */
function approved(random: Random, number: number): readonly EntryBody[] {
  const calls = ["one", "two"].map((name): ToolUseBlock => {
    return { block_type: "tool_use", data: { id: `x${number}_${name}`, name: "shell", args: { command: name } } };
  });
  const ids = calls.map(({ data }) => data.id);
  const approval_id = `a${number}`;
  const asked: EntryBody = {
    kind: "approval_asked",
    approval_id,
    calls: calls.map(({ data }) => ({ id: data.id, name: data.name, args: data.args, reason: "a rule asks" })),
    expires_at_ms: 1,
    progress: { turns: 1, elapsed_ms: 1, seq_before: 1, tool_calls_before: 0 },
  } as unknown as EntryBody; // As much of it as a fold reads.
  const word = (id: string, more: object): EntryBody =>
    ({
      kind: "approval_answered",
      approval_id,
      calls: [id],
      decision: "allow",
      by: "them",
      ...more,
    }) as unknown as EntryBody; // As above.
  const results = ids.map((tool_use_id) => ({ tool_use_id, content: "done", is_error: false }));
  return [
    { kind: "turn_opened", message: { role: "user", content: `run it ${number}`, created_at } },
    {
      kind: "assistant",
      message: { role: "block_assistant", blocks: calls, stop_reason: "tool_use", created_at },
      usage,
    },
    asked,
    ...keyed(random, number),
    word(ids[0] ?? "", { remember: "session", rules: [`shell(one ${number})`] }),
    word(ids[1] ?? "", {}),
    {
      kind: "tool_results",
      message: { role: "tool_results", results, created_at },
      calls: ids.map(() => ({ name: "shell", duration_ms: 1, counted: true })),
    },
  ];
}

/** A turn that ends with calls that its caller runs, one of which ran here, and the turn that brings their results. */
function handedOut(random: Random, number: number): readonly EntryBody[] {
  const calls = ["here", "there"].map((name): ToolUseBlock => {
    return { block_type: "tool_use", data: { id: `y${number}_${name}`, name, args: {} } };
  });
  const [here = "", there = ""] = calls.map(({ data }) => data.id);
  const result = (tool_use_id: string) => ({ tool_use_id, content: `done ${tool_use_id}`, is_error: false });
  const ran = (name: string) => ({ name, duration_ms: 1, counted: true });
  return [
    { kind: "turn_opened", message: { role: "user", content: `share it ${number}`, created_at } },
    {
      kind: "assistant",
      message: { role: "block_assistant", blocks: calls, stop_reason: "tool_use", created_at },
      usage,
    },
    { kind: "results_held", results: [result(here)], calls: [ran("here")] },
    { kind: "turn_closed", end: { status: "completed", extraction_required: false, pending: [there], usage } },
    ...(chance(random, 0.5) ? keyed(random, number) : []),
    { kind: "turn_continued" },
    {
      kind: "tool_results",
      message: { role: "tool_results", results: [result(here), result(there)], created_at },
      calls: [{ ...ran("here"), counted: false }, ran("there")],
    },
  ];
}

/** A compaction that is ready, and for most of them that it will not be made. */
function prepared(random: Random, number: number, { compactions }: WholeState): readonly EntryBody[] {
  const last = pick(random, compactions);
  if (last === undefined) return [];
  const { kind: _, ...facts } = last.body;
  const compaction_id = `prepared ${number}`;
  const ready: EntryBody = {
    kind: "compaction_prepared",
    compaction: { ...facts, compaction_id },
    basis: { transcript: 1, shown: 1, sha256: "" },
  };
  const dropped: EntryBody = { kind: "compaction_dropped", compaction_id, reason: "for a test" };
  return chance(random, 0.6) ? [ready, dropped] : [ready];
}

function reported(random: Random, _number: number, { compactions }: WholeState): readonly EntryBody[] {
  const compaction_id = pick(random, compactions)?.body.compaction_id ?? "none";
  const warned = { type: "budget_warning", budget_type: "tokens", used: 8, limit: 10, percent: 80 } as const;
  const started = {
    type: "compaction_started",
    input_tokens: 1,
    estimated_history_tokens: 1,
    message_count: 1,
  } as const;
  return [
    { kind: "event", event: warned },
    { kind: "event", event: { type: "native_compaction_refused", compaction_id, provider: "p", error: "no" } },
    { kind: "event", event: started },
    ...(chance(random, 0.5) ? [{ kind: "compaction_failed" as const, error: "for a test" }] : []),
  ];
}

function closed(): readonly EntryBody[] {
  return [{ kind: "turn_closed", end: { status: "failed", error_class: "cancelled", error: "for a test" } }];
}
