import { ERRORS, type ErrorCode } from "@rkat/core/contract/error";
import { OPERATION_NAMES } from "@rkat/core/contract/operations";
import type { JsonSchema } from "@rkat/core/contract/wire/requests";
import { inputPlaces } from "@rkat/server/rest/operation-shape";
import { chance, pick } from "../compaction/chances.ts";
import { openServerHere } from "../support/server-here.ts";
import type { Attack, AttackOptions, Score } from "./attack.ts";
import { attackHttp, type HostileRequest, odditiesFor, requestOf } from "./http.ts";
import type { HttpAnswer } from "./http-lane.ts";
import { createCases, type Draw, nasty, toJson } from "./inputs.ts";
import { attackTarget, REALM } from "./target.ts";

/** Requests with something wrong in them, to a server of REST. */
export function attackRest(options: AttackOptions): Promise<Attack> {
  return attackTarget(options, async (target) => {
    const server = await openServerHere(target.runtime, REALM);
    try {
      const surface = {
        port: Number(new URL(server.url).port),
        request: createRequests(target.draw, [...operationPlaces(), ...OTHERS]),
        oddities: odditiesFor("/sessions"),
        probe: () => requestOf({ ...JSON_POST, path: "/sessions", body: '{"prompt":"Are you there?"}' }),
        judge: (answer: HttpAnswer, bytes: Uint8Array, score: Score) => judge(answer, bytes, score),
      };
      return await attackHttp(target, surface, options.inputs);
    } finally {
      await server.close();
    }
  });
}

const HOST = ["host", "127.0.0.1"] as const;
export const JSON_POST = { method: "POST", headers: [HOST, ["content-type", "application/json"] as const] };

/** Routes that are no rows of the table. */
const OTHERS: readonly Place[] = [
  ["GET", "/sessions/{session_id}/events", { last_event_id: { type: "integer" } }],
  ["GET", "/sessions/{session_id}/status", {}],
  ["POST", "/requests/{request_id}/cancel", {}],
  ["GET", "/health", {}],
  ["GET", "/openapi.json", {}],
  ["GET", "/docs", {}],
  ["GET", "/config", {}],
  ["GET", "/runtime/host_info", {}],
];
export type Place = readonly [
  method: string,
  path: string,
  properties: Readonly<Record<string, JsonSchema>>,
  required?: readonly string[],
];

const METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "PROPFIND"];
const TYPES = ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=utf-16", "", "json"];
const HEADERS = [
  "idempotency-key",
  "x-meerkat-request-id",
  "last-event-id",
  "authorization",
  "origin",
  "host",
  "content-encoding",
  "accept",
  "cookie",
  "transfer-encoding",
];

function operationPlaces(): readonly Place[] {
  return OPERATION_NAMES.map((name): Place => {
    const { method, path, inPath, inQuery, inBody, required } = inputPlaces(name);
    return [method, path, { ...inPath, ...inQuery, ...inBody }, required];
  });
}

/** Requests to these places, with something wrong in most. */
export function createRequests(draw: Draw, places: readonly Place[]): () => HostileRequest {
  const { random } = draw;
  const nextCase = createCases(
    places.map((place) => {
      const [, , properties, required = []] = place;
      return [place, { type: "object", properties, required }] as const;
    }),
    draw,
  );
  const asText = (value: unknown): string =>
    (typeof value === "object" ? toJson(value) : String(value)).slice(0, 2_000);
  return () => {
    const {
      row: [method, template],
      value,
    } = nextCase();
    const fields: Record<string, unknown> = typeof value === "object" && value !== null ? { ...value } : { value };
    const path = template.replace(/\{(\w+)\}/g, (_, name: string) => {
      const { [name]: given = chance(random, 0.7) ? pick(random, draw.sessions) : nasty(draw) } = fields;
      delete fields[name];
      // Sometimes as it is: a path is where servers are lied to most.
      return chance(random, 0.9) ? encodeURIComponent(asText(given).toWellFormed()) : asText(given);
    });
    const hasBody = ["POST", "PUT", "PATCH"].includes(method) !== chance(random, 0.03);
    const query = hasBody && chance(random, 0.97) ? "" : `?${queryOf(fields, asText)}`;
    const used = chance(random, 0.95) ? method : (pick(random, METHODS) ?? method);
    const type = chance(random, 0.95) ? "application/json" : (pick(random, TYPES) ?? "");
    const wrong = chance(random, 0.1)
      ? [[pick(random, HEADERS) ?? "x", asText(nasty(draw)).slice(0, 500)] as const]
      : [];
    const headers = [...(wrong[0]?.[0] === "host" ? [] : [HOST]), ...wrong];
    if (!hasBody) return requestOf({ method: used, path: `${path}${query}`, headers });
    const body = toJson(chance(random, 0.97) ? fields : nasty(draw));
    return requestOf({ method: used, path: `${path}${query}`, headers: [...headers, ["content-type", type]], body });
  };
}

function queryOf(fields: Readonly<Record<string, unknown>>, asText: (value: unknown) => string): string {
  const pairs = Object.entries(fields).map(
    ([name, value]) => `${encodeURIComponent(name.toWellFormed())}=${encodeURIComponent(asText(value).toWellFormed())}`,
  );
  return pairs.join("&");
}

/** Where HTTP has a status of its own for a code of the table. */
export const OWN_STATUS: Readonly<Record<string, readonly number[]>> = {
  METHOD_NOT_FOUND: [405],
  PAYLOAD_TOO_LARGE: [431],
  INVALID_PARAMS: [408],
};
/** What the parser of HTTP answers by itself, without a body. */
export const BARE = [400, 417];

export function judge({ status, headers, text }: HttpAnswer, bytes: Uint8Array, score: Score): string {
  // What is asked for and not there is refused with 501, and judged below like any other refusal.
  if (status >= 500 && status !== 501) score.fault(`answered ${status}: ${text.slice(0, 300)}`, bytes);
  score.check({ text }, bytes);
  if (status === 200) return headers.get("content-type")?.startsWith("text/event-stream") ? "a stream" : "answered";
  if (headers.get("content-type") !== "application/json") {
    if (!BARE.includes(status) || text !== "") score.fault(`${status} without an error: ${text}`, bytes);
    return `bare ${status}`;
  }
  // To a HEAD there is no body.
  if (text === "") return `head ${status}`;
  const { code, category, message, error } = JSON.parse(text);
  const row = Object.hasOwn(ERRORS, code) ? ERRORS[code as ErrorCode] : undefined; // It is a key then.
  const isInForm = typeof message === "string" && message !== "" && error === message && category === row?.category;
  if (!isInForm) score.fault(`an error out of form: ${text.slice(0, 300)}`, bytes);
  const isItsStatus = row?.http === status || OWN_STATUS[code]?.includes(status) === true;
  if (!isItsStatus) score.fault(`${code} answered with ${status}`, bytes);
  score.check({ text: "", code }, bytes);
  return String(code);
}
