import { UiChatRequest } from "../../src/contract/ui-chat.ts";
import { createSystemClock } from "../../src/service/system-clock.ts";
import { mountUi } from "../../src/surfaces/openai/mount.ts";
import { openRestServer } from "../../src/surfaces/rest/serve.ts";
import type { Attack, AttackOptions, Score } from "./attack.ts";
import { attackHttp, odditiesFor, requestOf } from "./http.ts";
import type { HttpAnswer } from "./http-lane.ts";
import { fieldsOf } from "./openai.ts";
import { createRequests, JSON_POST, judge, type Place } from "./rest.ts";
import { attackTarget, REALM } from "./target.ts";

const ID = { id: { type: "string" } };
const CHAT = fieldsOf(UiChatRequest);

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
    const server = await openRestServer({
      host: "127.0.0.1",
      port: 0,
      allowedHosts: [],
      allowedOrigins: [],
      token: undefined,
      runtime: target.runtime,
      about: { realm: REALM },
      version: "1.2.3",
      clock: createSystemClock(),
      log: () => {},
      mounts: [(parts) => mountUi({ memory: "session", tools: "none", grace: 1 }, parts)],
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
