import { type IncomingMessage, request } from "node:http";
import { OPERATIONS, type OperationName } from "@rkat/core/contract/operations";
import { operationSchema } from "@rkat/core/contract/wire/requests";
import { below, chance, pick } from "../../test/compaction/chances.ts";
import { createScore } from "../../test/hostile/attack.ts";
import { createCases, type Draw, toJson } from "../../test/hostile/inputs.ts";
import { openEventReader } from "../../test/support/event-reader.ts";
import { Gone } from "./lines.ts";
import { turnOf } from "./operations.ts";
import { DIRECTIVES } from "./prompts.ts";
import { ask, type Soak, settled, sleepBelow, someSession } from "./soak.ts";

type Act = (soak: Soak) => Promise<void>;

/** A client that asks for a turn and leaves, at any moment from the head of its request to the end of the answer. */
const leave: Act = async (soak) => {
  const session = someSession(soak);
  if (session === undefined) return;
  const marker = soak.book.nextMarker();
  session.doubtful.add(marker);
  const body = JSON.stringify({ prompt: `${marker} ${DIRECTIVES.slow} Are you there?` });
  const accept = chance(soak.random, 0.5) ? "text/event-stream" : "application/json";
  const sent = request(`${soak.servers.rest.url}/sessions/${session.id}/messages`, {
    method: "POST",
    headers: { "content-type": "application/json", "content-length": Buffer.byteLength(body), accept },
  });
  sent.on("error", () => {}); // It is we who leave.
  sent.on("response", (response: IncomingMessage) => response.on("error", () => {}).resume());
  if (chance(soak.random, 0.3)) sent.write(body.slice(0, body.length >> 1));
  else sent.end(body);
  await sleepBelow(soak, 600);
  sent.destroy();
  soak.count("a client that left");
};

/** A client whose request comes in pieces, with a pause between them. */
const dawdle: Act = async (soak) => {
  const session = someSession(soak);
  if (session === undefined) return;
  const marker = soak.book.nextMarker();
  session.doubtful.add(marker);
  const body = JSON.stringify({ prompt: `${marker} Slowly.` });
  const { rest } = soak.servers;
  await rest.isUp();
  const before = rest.ends;
  const answered = new Promise<number>((resolve, reject) => {
    const sent = request(`${rest.url}/sessions/${session.id}/messages`, {
      method: "POST",
      headers: { "content-type": "application/json", "content-length": Buffer.byteLength(body) },
    });
    sent.on("error", reject);
    sent.on("response", (response: IncomingMessage) => {
      response.on("error", reject).on("end", () => resolve(response.statusCode ?? 0));
      response.resume();
    });
    const write = async (): Promise<void> => {
      for (let at = 0; at < body.length; at += 20) {
        sent.write(body.slice(at, at + 20));
        await sleepBelow(soak, 300);
      }
      sent.end();
    };
    void write();
  });
  const status = answered.then((code) => ({ ok: true, result: code }) as const);
  const outcome = await settled(soak, status.catch(goneIf(() => rest.ends !== before)), "a turn asked for in pieces");
  soak.count(`in pieces ${outcome.ok ? outcome.result : outcome.code}`);
};

function goneIf(isGone: () => boolean) {
  return async (thrown: unknown): Promise<never> => {
    // A connection breaks a moment before the end of the process is heard of.
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    if (isGone()) throw new Gone("the server went away");
    throw thrown;
  };
}

/** A reader of events that reads, stalls or leaves; what it heard is what the log says, without a gap. */
const listen: Act = async (soak) => {
  const session = someSession(soak);
  if (session === undefined) return;
  const { rest } = soak.servers;
  await rest.isUp();
  const before = rest.ends;
  try {
    const isPaused = chance(soak.random, 0.4);
    const after = chance(soak.random, 0.5) ? below(soak.random, 3) : undefined;
    const reader = await openEventReader(rest.url, session.id, { ...(after === undefined ? {} : { after }), isPaused });
    if (chance(soak.random, 0.5)) await turnOf(soak, session, (marker) => `${marker} ${DIRECTIVES.long} Listen.`);
    else await sleepBelow(soak, 3_000);
    reader.close();
    await compareWithLog(soak, session.id, reader.seqs);
    soak.count("a reader of events");
  } catch (thrown) {
    await goneIf(() => rest.ends !== before || session.archived !== "no")(thrown).catch((reported: unknown) => {
      if (!(reported instanceof Gone)) soak.fault(`a reader of ${session.id} failed: ${reported}`);
    });
  }
};

/** Entries without an event take a seq, too, so only the log knows what comes next. */
async function compareWithLog(soak: Soak, sessionId: string, received: readonly number[]): Promise<void> {
  const [first, last] = [received[0], received.at(-1)];
  if (first === undefined || last === undefined) return;
  const scope = { type: "session", session_id: sessionId };
  const page = await ask(soak, "listEvents", { scope, cursor: { scope, sequence: first - 1 } });
  if (page === undefined || !Array.isArray(page.events)) return;
  const reported: readonly number[] = page.events.map((event) => Object(Object(event).cursor).sequence);
  const expected = reported.filter((seq) => seq <= last);
  // A page ends somewhere; what was heard beyond it is not compared.
  const compared = received.filter((seq) => seq <= (reported.at(-1) ?? 0));
  if (JSON.stringify(compared) === JSON.stringify(expected)) return;
  soak.fault(`WRONG events told of ${sessionId}: ${compared}; the log has ${expected}`);
}

/** A stream of events over JSON-RPC, opened and left to itself or closed. */
const stream: Act = async (soak) => {
  const session = someSession(soak);
  if (session === undefined) return;
  const frame = (method: string, params: object) =>
    `{"jsonrpc":"2.0","id":ID,"method":"${method}","params":${JSON.stringify(params)}}`;
  const send = async (body: string) => {
    const raw = soak.servers.rpc.raw({ method: "", path: "", body }).then((result) => ({ ok: true, result }) as const);
    const outcome = await settled(soak, raw, "a stream over rpc");
    return outcome.ok ? Object(Object(outcome.result).result) : {};
  };
  const { stream_id } = await send(frame("session/stream_open", { session_id: session.id }));
  await sleepBelow(soak, 2_000);
  if (stream_id !== undefined) await send(frame("session/stream_close", { stream_id }));
  soak.count("a stream over rpc");
};

const KIB = 1_024;
/** The largest is what a body may hold, nearly. */
const SIZES = [100 * KIB, 300 * KIB, KIB * KIB, 4 * KIB * KIB];

/** A prompt that is very large: it is taken or refused, and the session is left alone afterwards. */
const burden: Act = async (soak) => {
  const session = someSession(soak);
  if (session === undefined) return;
  session.isHeavy = true;
  const marker = soak.book.nextMarker();
  session.doubtful.add(marker);
  const size = SIZES[Math.min(below(soak.random, 6), below(soak.random, 6), SIZES.length - 1)] ?? KIB;
  const name = pick(soak.random, ["rest", "rpc"] as const) ?? "rpc";
  const prompt = `${marker} ${"A heron stood in the pond. ".repeat(size / 27)}`;
  const call = soak.servers[name].call("startTurn", { session_id: session.id, prompt });
  const outcome = await settled(soak, call, `a prompt of ${size} bytes over ${name}`);
  soak.count(`a prompt of ${size} bytes ${outcome.ok ? "ok" : outcome.code}`);
};

/** What changes the settings of everybody is not drawn from. */
const ROWS = (Object.keys(OPERATIONS) as OperationName[]) // The keys of OPERATIONS are the names of operations.
  .filter((name) => !name.endsWith("Config"))
  .map((name) => [name, operationSchema(name, "input")] as const);

/** Inputs that nobody should send, about sessions that nobody else knows. */
export function createHostility(soak: Soak, secret: string): Act {
  const victims: string[] = [];
  const draw: Draw = { random: soak.random, sessions: victims };
  const next = createCases(ROWS, draw);
  const score = createScore(secret);
  let reported = 0;
  return async () => {
    const { row, value } = next();
    const name = pick(soak.random, ["rest", "rpc", "mcp", "mcp-http"] as const) ?? "rpc";
    const isMcp = name.startsWith("mcp");
    const [method = "POST", path = ""] = OPERATIONS[row].http.split(" ");
    const tool = "mcp" in OPERATIONS[row] ? OPERATIONS[row].mcp : "meerkat_read";
    const params = isMcp ? `{"name":"${tool}","arguments":${toJson(value)}}` : toJson(value);
    const frame = `{"jsonrpc":"2.0","id":ID,"method":"${isMcp ? "tools/call" : OPERATIONS[row].rpc}","params":${params}}`;
    const body = name === "rest" ? toJson(value) : name === "mcp-http" ? frame.replace("ID", "1") : frame;
    const filled = path.replaceAll(/\{(\w+)\}/g, (_, field: string) => encodeURIComponent(fieldIn(value, field)));
    const sent = { method: isMcp ? "POST" : method, path: filled, body };
    const raw = soak.servers[name].raw(sent).then((result) => ({ ok: true, result }) as const);
    const outcome = await settled(soak, raw, `a hostile ${row} over ${name}: ${body.slice(0, 200)}`);
    soak.count("a hostile input");
    if (!outcome.ok) {
      if (outcome.code !== "GONE") soak.fault(`a hostile ${row} over ${name} was answered ${outcome.message}`);
      return;
    }
    const text = JSON.stringify(outcome.result);
    const [, code] = /\\?"code\\?":\\?"([A-Z_]+)\\?"/.exec(text) ?? [];
    if (!soak.isDiskFull()) score.check({ text, code }, body);
    for (const fault of score.faults.slice(reported)) soak.fault(`a hostile ${row} over ${name}: ${fault}`);
    reported = score.faults.length;
    const [, created] = /\\?"session_id\\?":\\?"([0-9a-f-]{36})/.exec(text) ?? [];
    if (row === "createSession" && created !== undefined) victims.push(created);
    if (victims.length > 8) victims.shift();
  };
}

function fieldIn(value: unknown, field: string): string {
  try {
    return String(Object(value)[field] ?? "x").toWellFormed();
  } catch {
    return "x";
  }
}

export const ROUGH_ACTS: readonly (readonly [weight: number, act: Act])[] = [
  [3, leave],
  [2, dawdle],
  [4, listen],
  [2, stream],
  [0.4, burden],
];
