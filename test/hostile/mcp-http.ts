import { createSystemClock } from "@rkat/core/runtime/system-clock";
import { listenHttp } from "@rkat/server/mcp/serve-http";
import { createServers } from "@rkat/server/mcp/server";
import { chance, pick } from "../compaction/chances.ts";
import type { Attack, AttackOptions, Score } from "./attack.ts";
import { attackHttp, type HostileRequest, odditiesFor, type RequestParts, requestOf } from "./http.ts";
import { type HttpAnswer, openLane } from "./http-lane.ts";
import { broken, type Draw, nasty, toJson } from "./inputs.ts";
import { errorOf } from "./lines.ts";
import { createMessages, GREETING } from "./mcp-messages.ts";
import { attackTarget, REALM, type Target } from "./target.ts";

/** Requests with something wrong in them, to a server of MCP over streamable HTTP. */
export function attackMcpHttp(options: AttackOptions): Promise<Attack> {
  return attackTarget(options, async (target) => {
    const clock = createSystemClock();
    const { runtime } = target;
    const createServer = createServers({ runtime, realm: REALM, version: "1.2.3", memoryOnly: false, clock });
    const listener = await listenHttp({
      host: "127.0.0.1",
      port: 0,
      token: undefined,
      allowedHosts: [],
      createServer,
      clock,
      log: () => {},
    });
    const port = Number(new URL(listener.url).port);
    try {
      const [connection, good] = [await greet(port), await greet(port)];
      const surface = {
        port,
        request: createRequests(target.draw, connection),
        oddities: odditiesFor("/mcp"),
        probe: () => posted(good, { ...PROBE, jsonrpc: "2.0", id: 1 }),
        judge: (answer: HttpAnswer, bytes: Uint8Array, score: Score) => judge(answer, bytes, { score, target }),
      };
      return await attackHttp(target, surface, options.inputs);
    } finally {
      await listener.close();
    }
  });
}

const PROBE = { method: "tools/call", params: { name: "meerkat_run", arguments: { prompt: "Are you there?" } } };
const HEADERS: readonly (readonly [string, string])[] = [
  ["host", "127.0.0.1"],
  ["content-type", "application/json"],
  ["accept", "application/json, text/event-stream"],
];

function posted(connection: string, message: unknown): HostileRequest {
  const headers = [...HEADERS, ["mcp-session-id", connection] as const];
  return requestOf({ method: "POST", path: "/mcp", headers, body: toJson(message) });
}

/** Makes a connection, and says by which id it goes. */
async function greet(port: number): Promise<string> {
  const lane = openLane(port);
  const body = JSON.stringify({ jsonrpc: "2.0", id: 0, ...GREETING });
  const answer = await lane.ask(requestOf({ method: "POST", path: "/mcp", headers: HEADERS, body }).bytes, "POST");
  lane.close();
  return answer?.headers.get("mcp-session-id") ?? "";
}

const METHODS = ["GET", "PUT", "PATCH", "OPTIONS", "HEAD"];
const PATHS = ["/", "/mcp/", "/mcp?x=1", "/mcp/../mcp", "//mcp", "/health", "/%6dcp"];
const NAMES = ["mcp-session-id", "mcp-protocol-version", "last-event-id", "accept", "content-type", "origin", "host"];

function createRequests(draw: Draw, connection: string): () => HostileRequest {
  const { random } = draw;
  const message = createMessages(draw);
  let sent = 0;
  const bodyOf = (): string | Uint8Array => {
    sent += 1;
    const one = toJson(message(sent));
    if (chance(random, 0.05)) return `[${one},${toJson(message(sent + 1_000_000))}]`;
    return chance(random, 0.2) ? broken(Buffer.from(one), draw) : one;
  };
  return () => {
    const plain: RequestParts = {
      method: chance(random, 0.95) ? "POST" : (pick(random, METHODS) ?? "POST"),
      path: chance(random, 0.97) ? "/mcp" : (pick(random, PATHS) ?? "/mcp"),
      headers: [...HEADERS, ["mcp-session-id", connection]],
      body: bodyOf(),
    };
    if (!chance(random, 0.15)) return requestOf(plain);
    const name = pick(random, NAMES) ?? "accept";
    const value = nasty(draw);
    const headers = plain.headers.filter(([known]) => known !== name);
    if (chance(random, 0.3)) return requestOf({ ...plain, headers });
    return requestOf({ ...plain, headers: [...headers, [name, String(value).slice(0, 500)]] });
  };
}

interface Context {
  readonly score: Score;
  readonly target: Target;
}

function judge({ status, headers, text }: HttpAnswer, bytes: Uint8Array, { score, target }: Context): string {
  score.check({ text }, bytes);
  if (status >= 500) score.fault(`answered ${status}: ${text.slice(0, 300)}`, bytes);
  const type = headers.get("content-type") ?? "";
  if (type.startsWith("text/event-stream"))
    return text === "" ? "a stream" : judgeFrames(text, bytes, { score, target });
  if (type === "application/json" && text !== "") return judgeFrame(text, bytes, { score, target });
  if (text !== "" && text !== "ok") score.fault(`${status} with a text of its own: ${text.slice(0, 300)}`, bytes);
  return text === "ok" ? "answered" : `bare ${status}`;
}

/** Of several messages the last is counted. */
function judgeFrames(text: string, bytes: Uint8Array, context: Context): string {
  const lines = text.split("\n").filter((line) => line.startsWith("data: {"));
  return lines.map((line) => judgeFrame(line.slice("data: ".length), bytes, context)).at(-1) ?? "answered";
}

function judgeFrame(text: string, bytes: Uint8Array, { score, target }: Context): string {
  const frame = JSON.parse(text);
  if (frame.method !== undefined) return "told";
  const { code, number, problem } = errorOf(frame);
  if (problem !== undefined) score.fault(`${problem}: ${text.slice(0, 300)}`, bytes);
  score.check({ text: "", code: number === INTERNAL ? "INTERNAL_ERROR" : code }, bytes);
  const { session_id } = frame.result?.structuredContent ?? {};
  if (typeof session_id === "string") target.know(session_id);
  return code ?? (number === undefined ? "answered" : String(number));
}

const INTERNAL = -32603;
