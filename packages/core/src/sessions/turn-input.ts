import type { Caller } from "../contract/caller.ts";
import { invalid, RuntimeError } from "../contract/error.ts";
import type { Content } from "../contract/message.ts";
import type { Progress } from "../contract/permission.ts";
import type { SessionSettings, StartTurn } from "../contract/session.ts";
import type { ModelClient, ModelResolver } from "../ports/model.ts";
import { withinLimits } from "../runtime/ceiling.ts";
import type { CallContext } from "../runtime/dispatch.ts";
import type { SessionState } from "../state/session-state.ts";
import { asBlocks } from "../turn/tokens.ts";
import { requireTools } from "../turn/tool-batch.ts";
import type { LiveSession } from "./live-sessions.ts";
import { takeContent } from "./media.ts";
import type { SessionDefaults } from "./session-settings.ts";
import { clientTools } from "./turn-tools.ts";

/** The tools of a session created by a labelled caller see only that caller's sessions, whoever resumes it. */
export function seenBy(caller: Caller | undefined, settings: SessionSettings): SessionSettings {
  const { labels = {} } = caller ?? {};
  return Object.keys(labels).length === 0 ? settings : { ...settings, view: labels };
}

/** A session created elsewhere may have a larger budget than this server allows. */
export function withinCeiling(settings: SessionSettings, { limits }: SessionDefaults): SessionSettings {
  const budget_limits = withinLimits(settings.budget_limits, limits);
  const isWithin = JSON.stringify(budget_limits) === JSON.stringify(settings.budget_limits);
  return isWithin ? settings : { ...settings, budget_limits };
}

/** The caller of a turn that waited, as far as the log names it. */
export function callerAgain({ scopes, max_cost_per_day, ...asked }: NonNullable<Progress["caller"]>): Caller {
  const limit = max_cost_per_day === undefined ? {} : { maxCostPerDay: max_cost_per_day };
  return { ...asked, scopes: new Set(scopes), ...limit };
}

/** A caller with a cost limit needs a model with a known price. */
export function withDayLimit(settings: SessionSettings, caller: Caller | undefined): SessionSettings {
  if (caller?.maxCostPerDay === undefined) return settings;
  return { ...settings, budget_limits: { max_cost: caller.maxCostPerDay, ...settings.budget_limits } };
}

export function modelFor(models: ModelResolver, { state }: LiveSession, input: StartTurn): Promise<ModelClient> {
  const { model, provider } = state.settings;
  const isOther = input.model !== undefined && input.model !== model;
  // Another model may belong to another provider, so the session's provider is not assumed.
  return models.resolve(input.model ?? model, input.provider ?? (isOther ? undefined : provider));
}

/** The turn's prompt; undefined if it brings only results. */
export async function promptOf(
  pending: Content | undefined,
  { prompt, tool_results }: StartTurn,
  taking: Omit<Parameters<typeof takeContent>[1], "field">,
): Promise<Content | undefined> {
  if (tool_results !== undefined && (typeof prompt === "string" ? prompt.trim() : prompt).length === 0)
    return undefined;
  const taken = await takeContent(prompt, { ...taking, field: "prompt" });
  return pending === undefined ? taken : join(pending, taken);
}

/**
 * Throws INVALID_PARAMS unless the caller's tools are usable and the results answer all waiting calls, which are shown
 * together. A retry sent them before.
 */
export function requireClients(
  state: SessionState,
  settings: SessionSettings,
  { tool_results: results, isRetry }: Pick<StartTurn, "tool_results"> & { readonly isRetry: boolean },
): void {
  if (settings !== state.settings) requireTools(clientTools(settings), "client_tools");
  if (isRetry) requireUnanswered(state);
  if (isRetry || results === undefined) return;
  const { pending } = state;
  const refuse = (why: string) => invalid(`tool_results: ${why}`);
  if (pending.length === 0) throw refuse("no call of this session waits for a result");
  const given = results.map(({ tool_use_id }) => tool_use_id);
  const stray = given.find((id, index) => !pending.includes(id) || given.indexOf(id) !== index);
  if (stray !== undefined) throw refuse(`no call ${stray} waits for a result, or it is there twice`);
  const missing = pending.filter((id) => !given.includes(id));
  if (missing.length > 0) throw refuse(`give those of all calls that wait at once; ${missing.join(", ")} is missing`);
}

/** Throws SESSION_NOT_RUNNING unless the session ends with an unanswered prompt, which a retry needs. */
function requireUnanswered({ sessionId, shown, isTurnOpen }: SessionState): void {
  if (!isTurnOpen && shown.at(-1)?.message.role !== "block_assistant") return;
  throw new RuntimeError("SESSION_NOT_RUNNING", `session ${sessionId} has no failed turn to retry`);
}

/** The model settings of a call; throws CAPABILITY_UNAVAILABLE if the model cannot be forced to call a tool. */
export function askedIn(call: CallContext, { noToolChoice }: ModelClient) {
  const { traceparent, unattended, caller, toolChoice, isRetry } = call;
  if (toolChoice === undefined || noToolChoice === undefined)
    return { traceparent, unattended, caller, toolChoice, isRetry };
  throw new RuntimeError("CAPABILITY_UNAVAILABLE", `tool_choice: ${noToolChoice}`);
}

function join(first: Content, second: Content): Content {
  if (typeof first === "string" && typeof second === "string") return `${first}\n\n${second}`;
  return [...asBlocks(first), ...asBlocks(second)];
}
