import type { EntryBody } from "../contract/entry.ts";
import type { TerminalCause, Usage } from "../contract/event.ts";
import type { Message } from "../contract/message.ts";
import type { JsonObject, RunResult } from "../contract/session.ts";
import { assembleContext } from "../state/context.ts";
import type { SessionState } from "../state/session-state.ts";
import { totalTokens } from "./cost.ts";
import { type CheckInWorker, compileSchema, type SchemaCheck } from "./json-schema.ts";
import { type Asking, ask, type ModelAnswer } from "./model-call.ts";
import { causeOfFailure } from "./retry.ts";
import { assistantText } from "./tokens.ts";

/** `cause` names what failed; it is absent after an interrupt. */
export type Extraction = Pick<RunResult, "structured_output" | "extraction_error"> & { readonly cause?: TerminalCause };
type Stopped = { readonly ok: false; readonly problem: string; readonly cause: TerminalCause | undefined };
type Parsed = { readonly ok: true; readonly value: unknown } | Stopped;

/**
 * Extracts JSON of the schema from a finished turn. Uses the turn's text if it validates; otherwise asks the model, and
 * again with the validation errors. A failure never undoes the turn.
 */
export async function extractOutput(
  asking: Asking,
  wanted: { schema: JsonObject; text: string; state: SessionState; checkInWorker: CheckInWorker },
): Promise<Extraction> {
  const { schema, text, state, checkInWorker } = wanted;
  const check = await compileSchema(schema, "output_schema", checkInWorker);
  const session_id = state.sessionId;
  let parsed = await parse(text, check);
  let output = text;
  let attempts = 0;
  const talk = [...assembleContext(state), request(asking, schema)];
  while (!parsed.ok && attempts <= state.settings.structured_output_retries) {
    attempts += 1;
    const reply = await askOnce(asking, { schema, talk, state });
    if (!reply.ok) {
      parsed = reply;
      break;
    }
    output = reply.text;
    parsed = await parse(output, check);
    const problem = parsed.ok ? {} : { problem: parsed.problem };
    await asking.append([{ kind: "extraction_attempt", output, ...problem, usage: reply.usage }]);
    if (!parsed.ok) talk.push(...correction(asking, output, parsed.problem));
  }
  const end: EntryBody = parsed.ok
    ? { kind: "event", event: { type: "extraction_succeeded", session_id, structured_output: parsed.value } }
    : {
        kind: "event",
        event: { type: "extraction_failed", session_id, last_output: output, attempts, reason: parsed.problem },
      };
  await asking.append([end]);
  if (parsed.ok) return { structured_output: parsed.value };
  const { problem: reason, cause } = parsed;
  return {
    extraction_error: { last_output: output, attempts, reason },
    ...(cause === undefined ? {} : { cause }),
  };
}

const MISMATCH = "structured_output_validation_failed";

async function parse(text: string, check: SchemaCheck): Promise<Parsed> {
  // Whitespace between the fences and the value is valid JSON.
  const fenced = /^```(?:json)?(?=\s)([\s\S]*)```$/.exec(text.trim());
  let value: unknown;
  try {
    value = JSON.parse(fenced?.[1] ?? text);
  } catch {
    return { ok: false, problem: "the output is not JSON", cause: MISMATCH };
  }
  const problems = await check(value);
  return problems.length === 0 ? { ok: true, value } : { ok: false, problem: problems.join("; "), cause: MISMATCH };
}

async function askOnce(
  asking: Asking,
  { schema, talk, state }: { schema: JsonObject; talk: readonly Message[]; state: SessionState },
): Promise<{ ok: true; text: string; usage: Usage } | Stopped> {
  const { max_tokens = Number.POSITIVE_INFINITY, max_cost = Number.POSITIVE_INFINITY } = state.settings.budget_limits;
  const { usage } = state;
  const isOut = totalTokens(usage) >= max_tokens ? "token" : (usage.cost?.amount ?? 0) >= max_cost ? "cost" : undefined;
  if (isOut !== undefined) return { ok: false, problem: `the ${isOut} budget is exhausted`, cause: "budget_exhausted" };
  // The JSON is for the caller: its deltas would look like more of the answer.
  const quiet: Asking = { ...asking, acceptsEmpty: false, emit: () => {} };
  const { settings } = state;
  const answer = await ask(quiet, {
    messages: talk,
    tools: [],
    maxOutputTokens: settings.max_tokens,
    providerParams: settings.provider_params,
    outputSchema: schema,
  });
  return answer.ok ? { ok: true, text: assistantText(answer), usage: answer.usage } : stopped(answer);
}

function stopped({ because, failure }: Extract<ModelAnswer, { ok: false }>): Stopped {
  switch (because) {
    case "interrupted":
      return { ok: false, problem: "interrupted", cause: undefined };
    case "out_of_time":
      return { ok: false, problem: "the time budget ran out", cause: "time_budget_exceeded" };
    case "failure":
      return { ok: false, problem: failure.message, cause: causeOfFailure(failure.kind) };
  }
}

function request(asking: Asking, schema: JsonObject): Message {
  return userMessage(
    asking,
    "Give the final result of this conversation now as one JSON value that matches this JSON schema. " +
      `Answer with the JSON alone, no prose and no code fence.\n\n${JSON.stringify(schema)}`,
  );
}

function correction(asking: Asking, output: string, problem: string): Message[] {
  const created_at = new Date(asking.clock.now()).toISOString();
  return [
    {
      role: "block_assistant",
      blocks: [{ block_type: "text", data: { text: output } }],
      stop_reason: "end_turn",
      created_at,
    },
    userMessage(asking, `That does not match the schema: ${problem}. Answer again with the corrected JSON alone.`),
  ];
}

function userMessage(asking: Asking, content: string): Message {
  return { role: "user", content, created_at: new Date(asking.clock.now()).toISOString() };
}
