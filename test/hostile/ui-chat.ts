import type { JsonSchema } from "@rkat/core/contract/wire/requests";
import { UiChatRequest } from "@rkat/core/contract/wire/ui-chat";
import { mountUi } from "@rkat/server/openai/mount";
import { openServerHere } from "../support/server-here.ts";
import type { Attack, AttackOptions, Score } from "./attack.ts";
import { attackHttp, odditiesFor, requestOf } from "./http.ts";
import type { HttpAnswer } from "./http-lane.ts";
import { fieldsOf } from "./openai.ts";
import { createRequests, JSON_POST, judge, type Place } from "./rest.ts";
import { attackTarget, REALM } from "./target.ts";

const ID = { id: { type: "string" } };
/** Parts as pages send them, so that more than their form is looked at. */
const PARTS: readonly JsonSchema[] = [
  part("text", { text: { type: "string" } }),
  part("text", { text: { type: "string" } }),
  part("file", {
    url: { enum: ["data:text/plain;base64,SGVsbG8=", "data:,x", "https://127.0.0.1/a.png", ""] },
    mediaType: { enum: ["text/plain", "image/png", "application/pdf"] },
    filename: { enum: ["a.txt", "../../etc/passwd", "x".repeat(400)] },
  }),
  part("dynamic-tool", {
    toolCallId: { type: "string" },
    state: { enum: ["output-available", "output-error", "approval-responded", "input-available"] },
    output: { enum: ["x", { y: [1] }, null] },
    errorText: { type: "string" },
    approval: {
      type: "object",
      properties: { id: { enum: ["a:b", "", ":"] }, approved: { type: "boolean" } },
      required: ["id", "approved"],
    },
  }),
  {
    type: "object",
    properties: { type: { enum: ["step-start", "data-x", "source-url", "reasoning"] } },
    required: ["type"],
  },
];

function part(type: string, properties: Readonly<Record<string, JsonSchema>>): JsonSchema {
  const named = { type: { const: type }, ...properties };
  return { type: "object", properties: named, required: Object.keys(named) };
}

const CHAT = {
  ...fieldsOf(UiChatRequest),
  id: { enum: ["c", "d", "__proto__", "a/b"] },
  messages: {
    type: "array",
    items: {
      type: "object",
      properties: {
        id: { type: "string" },
        role: { enum: ["user", "user", "assistant"] },
        parts: { type: "array", items: { anyOf: PARTS } },
      },
      required: ["role", "parts"],
    },
  },
};

const PLACES: readonly Place[] = [
  ["POST", "/ui/chat", CHAT, ["id", "messages"]],
  ["POST", "/ui/chat", CHAT, ["id", "messages"]],
  ["POST", "/ui/chat", CHAT, ["id", "messages"]],
  ["GET", "/ui/chat/{id}", ID],
  ["GET", "/ui/chat/{id}/stream", ID],
  ["DELETE", "/ui/chat/{id}/stream", ID],
  ["GET", "/ui/nothing", {}],
];

const PROBE = '{"id":"probe","messages":[{"role":"user","parts":[{"type":"text","text":"Are you there?"}]}]}';

/** Requests with something wrong in them, to the endpoints of pages. */
export function attackUiChat(options: AttackOptions): Promise<Attack> {
  return attackTarget(options, async (target) => {
    const server = await openServerHere(target.runtime, REALM, {
      mounts: [(parts) => mountUi({ memory: "session", tools: "none", grace_ms: 1 }, parts)],
    });
    try {
      const surface = {
        port: Number(new URL(server.url).port),
        request: createRequests(target.draw, PLACES),
        oddities: odditiesFor("/ui/chat"),
        probe: () => requestOf({ ...JSON_POST, path: "/ui/chat", body: PROBE }),
        judge: (answer: HttpAnswer, bytes: Uint8Array, score: Score) =>
          // That nothing runs is an answer.
          answer.status === 204 && answer.text === "" ? "nothing runs" : judge(answer, bytes, score),
      };
      return await attackHttp(target, surface, options.inputs);
    } finally {
      await server.close();
    }
  });
}
