import { RuntimeError } from "../../contract/error.ts";
import { CompactRequest } from "../../contract/openai-responses.ts";
import { parseParams } from "../../contract/requests.ts";
import { fieldsOf } from "../wire/body.ts";
import { type Answer, jsonAnswer } from "../wire/http-answer.ts";
import type { RestRequest } from "../wire/router.ts";
import { SESSION_HEADER } from "./failure.ts";
import { compactedId, notThere, parseResponseId } from "./ids.ts";
import { withReferenced } from "./references.ts";
import { usageOf } from "./response-encoder.ts";
import { historyOf } from "./response-input.ts";
import { messagesUpTo, readOpen } from "./response-log.ts";
import type { Place } from "./turn-route.ts";

/** Compacts the context of a response, or the items of an input; an input may begin with the item it answers with. */
export async function compactContext(place: Place, request: RestRequest): Promise<Answer> {
  const { runtime } = request;
  const asked = parseParams(CompactRequest, fieldsOf(request.body));
  const named = await namedContext(place, request, asked);
  const { session_id } = named;
  const { compacted, reason, compaction } = await runtime.dispatch("compactSession", { session_id });
  const body = {
    id: named.id,
    object: "response.compaction",
    created_at: Math.floor(place.clock.now() / 1_000),
    output: [{ id: named.id.replace(/^resp_/, "cmp_"), type: "compaction", encrypted_content: named.id }],
    usage: usageOf(compaction?.usage ?? { input_tokens: 0, output_tokens: 0 }),
    compacted,
    ...(reason === undefined ? {} : { reason }),
    ...(compaction === undefined ? {} : { compaction }),
  };
  return { ...jsonAnswer(body), headers: { [SESSION_HEADER]: session_id } };
}

/** The session to compact, and what an input that goes on from it is to name: a response's, or one made of the input. */
async function namedContext({ settings }: Place, { runtime }: RestRequest, asked: CompactRequest) {
  const { model, instructions, previous_response_id: previous } = asked;
  const items = await withReferenced(runtime, { input: asked.input ?? undefined });
  if (typeof previous === "string") {
    const { session_id } = parseResponseId(previous);
    if (items !== undefined) throw invalid("input: give it or previous_response_id, not both");
    await readOpen(runtime, session_id, notThere("response", previous));
    return { session_id, id: previous };
  }
  const history = historyOf(items ?? []);
  if (history.length === 0) throw invalid("input: write the items to compact, or name a previous_response_id");
  const { session_id } = await runtime.dispatch("createSession", {
    initial_turn: "deferred",
    tool_preset: "none",
    memory_scope: settings.memory,
    labels: { surface: "openai" },
    history,
    ...(model === undefined ? {} : { model }),
    ...(typeof instructions === "string" ? { system_prompt: instructions } : {}),
  });
  const said = await messagesUpTo(runtime, session_id, Number.MAX_SAFE_INTEGER);
  return { session_id, id: compactedId({ session_id, seq: said.at(-1)?.seq ?? 0 }) };
}

function invalid(message: string): RuntimeError {
  return new RuntimeError("INVALID_PARAMS", message);
}
