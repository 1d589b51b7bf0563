import { ERRORS, type ErrorCode, NO_MODEL } from "@rkat/core/contract/error";
import { z } from "@rkat/core/contract/schema";
import {
  ChatRequest,
  CompactRequest,
  CreateConversation,
  CreateItems,
  CreateResponse,
} from "@rkat/core/contract/wire/openai";
import type { JsonSchema } from "@rkat/core/contract/wire/requests";
import { mountOpenAi } from "@rkat/server/openai/mount";
import { openServerHere } from "../support/server-here.ts";
import type { Attack, AttackOptions, Score } from "./attack.ts";
import { attackHttp, odditiesFor, requestOf } from "./http.ts";
import type { HttpAnswer } from "./http-lane.ts";
import { BARE, createRequests, JSON_POST, OWN_STATUS, type Place } from "./rest.ts";
import { attackTarget, REALM } from "./target.ts";

const ID: Readonly<Record<string, JsonSchema>> = { response_id: { type: "string" } };
const CONVERSATION: Readonly<Record<string, JsonSchema>> = { conversation_id: { type: "string" } };
const ITEM: Readonly<Record<string, JsonSchema>> = { item_id: { type: "string" } };
const PAGE = { limit: { type: "integer" }, order: { type: "string" }, after: { type: "string" } };

const PLACES: readonly Place[] = [
  // With one field alone most get through, and something comes of them that the others meet.
  ["POST", "/v1/responses", { input: { type: "string" } }, ["input"]],
  ["POST", "/v1/responses", { input: { type: "string" } }, ["input"]],
  ["POST", "/v1/conversations", {}],
  ["POST", "/v1/responses", fieldsOf(CreateResponse), ["input"]],
  ["POST", "/v1/responses", fieldsOf(CreateResponse), ["input"]],
  ["POST", "/v1/responses/compact", fieldsOf(CompactRequest)],
  ["GET", "/v1/responses/{response_id}", ID],
  ["DELETE", "/v1/responses/{response_id}", ID],
  ["POST", "/v1/responses/{response_id}/cancel", ID],
  ["GET", "/v1/responses/{response_id}/input_items", { ...ID, ...PAGE }],
  ["POST", "/v1/conversations", fieldsOf(CreateConversation)],
  ["GET", "/v1/conversations/{conversation_id}", CONVERSATION],
  ["DELETE", "/v1/conversations/{conversation_id}", CONVERSATION],
  ["POST", "/v1/conversations/{conversation_id}", { ...CONVERSATION, metadata: { type: "object" } }],
  ["GET", "/v1/conversations/{conversation_id}/items", { ...CONVERSATION, ...PAGE }],
  ["POST", "/v1/conversations/{conversation_id}/items", { ...CONVERSATION, ...fieldsOf(CreateItems) }, ["items"]],
  ["GET", "/v1/conversations/{conversation_id}/items/{item_id}", { ...CONVERSATION, ...ITEM }],
  ["DELETE", "/v1/conversations/{conversation_id}/items/{item_id}", { ...CONVERSATION, ...ITEM }],
  ["POST", "/v1/chat/completions", fieldsOf(ChatRequest), ["messages"]],
  ["POST", "/v1/chat/completions", fieldsOf(ChatRequest), ["messages"]],
  ["GET", "/v1/models", {}],
  ["GET", "/v1/models/{model}", { model: { type: "string" } }],
  ["GET", "/v1/nothing", {}],
];

export function fieldsOf(schema: z.ZodType): Readonly<Record<string, JsonSchema>> {
  // zod's type of a JSON schema is this one with every keyword of the standard.
  const { properties = {} } = z.toJSONSchema(schema, { io: "input" }) as JsonSchema;
  return properties;
}

/** Requests with something wrong in them, to OpenAI's endpoints. */
export function attackOpenAi(options: AttackOptions): Promise<Attack> {
  return attackTarget(options, async (target) => {
    const server = await openServerHere(target.runtime, REALM, {
      mounts: [(parts) => mountOpenAi({ memory: "session", tools: "none" }, parts)],
    });
    try {
      const surface = {
        port: Number(new URL(server.url).port),
        request: createRequests(target.draw, PLACES),
        oddities: odditiesFor("/v1/responses"),
        probe: () => requestOf({ ...JSON_POST, path: "/v1/responses", body: '{"input":"Are you there?"}' }),
        judge: (answer: HttpAnswer, bytes: Uint8Array, score: Score) => judge(answer, bytes, score),
      };
      return await attackHttp(target, surface, options.inputs);
    } finally {
      await server.close();
    }
  });
}

function judge({ status, headers, text }: HttpAnswer, bytes: Uint8Array, score: Score): string {
  if (status >= 500 && status !== 501) score.fault(`answered ${status}: ${text.slice(0, 300)}`, bytes);
  score.check({ text }, bytes);
  if (status === 200) return headers.get("content-type")?.startsWith("text/event-stream") ? "a stream" : "answered";
  if (headers.get("content-type") !== "application/json") {
    if (!BARE.includes(status) || text !== "") score.fault(`${status} without an error: ${text}`, bytes);
    return `bare ${status}`;
  }
  // To a HEAD there is no body.
  if (text === "") return `head ${status}`;
  const reported = JSON.parse(text);
  // What never became a request is nobody's, and worded as everywhere.
  const error = typeof reported.error === "string" ? { ...reported, type: "", param: null } : reported.error;
  const { code, message, type } = error;
  const row = Object.hasOwn(ERRORS, code) ? ERRORS[code as ErrorCode] : undefined; // It is a key then.
  // A code of this wire alone, which its clients look for.
  const isNoModel = code === NO_MODEL.reason.failure_kind && status === 404;
  const isWorded = typeof message === "string" && message !== "" && typeof type === "string";
  if (!isWorded || !(row !== undefined || isNoModel)) {
    score.fault(`an error out of form: ${text.slice(0, 300)}`, bytes);
  }
  const isItsStatus = isNoModel || row?.http === status || OWN_STATUS[code]?.includes(status) === true;
  if (!isItsStatus) score.fault(`${code} answered with ${status}`, bytes);
  score.check({ text: "", code }, bytes);
  return String(code);
}
