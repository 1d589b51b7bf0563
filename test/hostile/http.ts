import { chance } from "../compaction/chances.ts";
import { type Attack, answered, createScore, heapBytes, type Score } from "./attack.ts";
import { type HttpAnswer, openLane, readAnswer, throwBytes } from "./http-lane.ts";
import { broken } from "./inputs.ts";
import type { Target } from "./target.ts";

/** A request that is whole, whatever it says: it must be answered. */
export interface HostileRequest {
  readonly method: string;
  readonly bytes: Uint8Array;
  /** Whether its head is HTTP; otherwise it may be closed without an answer. */
  readonly isHttp: boolean;
}

export interface HttpSurface {
  readonly port: number;
  request(): HostileRequest;
  /** Bytes that are nobody's request. */
  readonly oddities: readonly string[];
  /** A request that must be answered 200. */
  readonly probe: () => HostileRequest;
  /** How an answer is counted; what is wrong with it is told to the score. */
  judge(answer: HttpAnswer, request: Uint8Array, score: Score): string;
}

const LANES = 16;
const BATCH = 64;
const THROWN_SHARE = 0.4;
const ODD_SHARE = 0.25;
const RESET_SHARE = 0.1;

/** Sends requests, whole ones and broken ones, to a server of HTTP. */
export async function attackHttp(
  target: Target,
  surface: HttpSurface,
  inputs: number,
): Promise<Omit<Attack, "leaked">> {
  const { draw } = target;
  const score = createScore(target.folder);
  const lanes = Array.from({ length: LANES }, () => openLane(surface.port));
  const prover = openLane(surface.port);

  const prove = async (): Promise<void> => {
    const { bytes, method } = surface.probe();
    const answer = await answered(prover.ask(bytes, method), () => bytes);
    if (answer?.status !== 200) score.fault(`a good request was answered ${answer?.status} ${answer?.text}`, bytes);
  };
  const ask = async (lane: (typeof lanes)[number], { bytes, method, isHttp }: HostileRequest): Promise<void> => {
    const answer = await answered(lane.ask(bytes, method), () => bytes);
    if (answer !== undefined) score.count(surface.judge(answer, bytes, score));
    else if (isHttp) score.fault("the connection closed without an answer", bytes);
    else score.count("closed");
  };
  /** What may be half a request is ended once the server has had it in front of it; only a few answers are lost so. */
  const throwAll = async (all: readonly Uint8Array[]): Promise<void> => {
    const thrown = all.map((bytes) => ({ bytes, ...throwBytes(surface.port, bytes) }));
    await prove();
    await prove();
    for (const { end, reset } of thrown) {
      if (chance(draw.random, RESET_SHARE)) reset();
      else end();
    }
    for (const { bytes, closed } of thrown) {
      const reported = await answered(closed, () => bytes);
      if (reported.length === 0) score.count("closed");
      for (let rest = reported; rest.length > 0; ) {
        const answer = readAnswer(rest, methodOf(bytes));
        // An answer that was cut off by our own end.
        if (answer === undefined) break;
        score.count(surface.judge(answer, bytes, score));
        rest = rest.subarray(answer.end);
        if (answer.headers.get("content-type")?.startsWith("text/event-stream") === true) break;
      }
    }
  };

  let middleBytes = 0;
  for (let sent = 0; sent < inputs; ) {
    const size = Math.min(BATCH, inputs - sent);
    const isThrown = Array.from({ length: size }, () => chance(draw.random, THROWN_SHARE));
    const bytes = isThrown.filter(Boolean).map(() => {
      if (!chance(draw.random, ODD_SHARE)) return broken(surface.request().bytes, draw);
      return Buffer.from(surface.oddities[Math.floor(draw.random() * surface.oddities.length)] ?? "", "latin1");
    });
    await throwAll(bytes);
    const whole = Array.from({ length: size - bytes.length }, () => surface.request());
    await Promise.all(
      lanes.map(async (lane, index) => {
        for (let at = index; at < whole.length; at += LANES) {
          const request = whole[at];
          if (request !== undefined) await ask(lane, request);
        }
      }),
    );
    sent += size;
    await prove();
    if (middleBytes === 0 && sent >= inputs / 2) middleBytes = await heapBytes();
  }
  const grownBytes = (await heapBytes()) - middleBytes;
  for (const lane of [...lanes, prover]) lane.close();
  return { inputs, outcomes: score.outcomes, faults: score.faults, grownBytes };
}

function methodOf(bytes: Uint8Array): string {
  return Buffer.from(bytes.subarray(0, 8)).toString("latin1").split(" ")[0] ?? "";
}

export interface RequestParts {
  readonly method: string;
  readonly path: string;
  readonly headers: readonly (readonly [string, string])[];
  readonly body?: string | Uint8Array;
}

const HEAD_BYTES_MAX = 8_192;

/** The bytes of a request whose length is right. */
export function requestOf({ method, path, headers, body }: RequestParts): HostileRequest {
  const payload = Buffer.from(body ?? "");
  const length = body === undefined ? [] : [["content-length", String(payload.length)] as const];
  const lines = [`${method} ${path} HTTP/1.1`, ...[...headers, ...length].map(([name, value]) => `${name}: ${value}`)];
  // What is beyond a byte is sent as UTF-8, which a head may hold.
  const head = Buffer.from(`${lines.join("\r\n")}\r\n\r\n`, "utf8");
  const isCoded = headers.some(([name]) => name === "transfer-encoding");
  const isClean = !/\s/.test(path) && lines.every((line) => !/(?!\t)\p{Cc}/u.test(line));
  return { method, bytes: Buffer.concat([head, payload]), isHttp: isClean && !isCoded && head.length < HEAD_BYTES_MAX };
}

const LOCAL = "Host: 127.0.0.1";
const JSON_TYPE = "Content-Type: application/json";

/** What reaches every server that listens, sooner or later; `path` is one that takes a body. */
export function odditiesFor(path: string): readonly string[] {
  const get = (...headers: readonly string[]) => `GET /health HTTP/1.1\r\n${headers.join("\r\n")}\r\n\r\n`;
  const post = (headers: readonly string[], body: string) =>
    `POST ${path} HTTP/1.1\r\n${[LOCAL, JSON_TYPE, ...headers].join("\r\n")}\r\n\r\n${body}`;
  const targets = ["/../../etc/passwd", "//health", "/health/", "/%00", "/%zz", "/%ff%fe", "*", "health", "/health#x"];
  return [
    ...[
      "",
      "\r\n\r\n\r\n",
      "\0\0\0\0",
      "GET\r\n\r\n",
      "GET /\r\n\r\n",
      "quit\n",
      "\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03",
    ],
    ...[
      "GET /health HTTP/9.9",
      "GET /health HTTP/1.1 x",
      "get /health HTTP/1.1",
      "FOO /health HTTP/1.1",
      "GET  /health HTTP/1.1",
    ].map((line) => `${line}\r\n${LOCAL}\r\n\r\n`),
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "GET /health HTTP/1.0\r\n\r\n",
    `CONNECT evil.example:443 HTTP/1.1\r\n${LOCAL}\r\n\r\n`,
    `OPTIONS * HTTP/1.1\r\n${LOCAL}\r\n\r\n`,
    `TRACE /health HTTP/1.1\r\n${LOCAL}\r\n\r\n`,
    ...targets.map((target) => `GET ${target} HTTP/1.1\r\n${LOCAL}\r\n\r\n`),
    `GET http://evil.example/health HTTP/1.1\r\nHost: evil.example\r\n\r\n`,
    `GET /${"a".repeat(20_000)} HTTP/1.1\r\n${LOCAL}\r\n\r\n`,
    get(),
    get("Host: evil.example"),
    get("Host:"),
    get(LOCAL, LOCAL),
    get(LOCAL, "X: \0"),
    get(LOCAL, "X : y"),
    get(LOCAL, "no colon"),
    get(LOCAL, " folded: x"),
    get(LOCAL, `X: ${"y".repeat(20_000)}`),
    get(LOCAL, ...Array.from({ length: 3_000 }, (_, index) => `x${index}: y`)),
    get(LOCAL, "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: x", "Sec-WebSocket-Version: 13"),
    get(LOCAL, "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: x"),
    get(LOCAL, "Expect: nonsense"),
    get(LOCAL).repeat(50),
    post(["Content-Length: 5"], "{}"),
    post(["Content-Length: 1"], '{"prompt":"x"}'),
    post(["Content-Length: -1"], "{}"),
    post(["Content-Length: 2, 2"], "{}"),
    post(["Content-Length: 2", "Content-Length: 3"], "{}"),
    post(["Content-Length: 0x2"], "{}"),
    post(["Content-Length: 99999999999999999999"], "{}"),
    post(["Content-Length: 17000000"], "{}"),
    post(["Content-Length: 17000000", "Expect: 100-continue"], ""),
    post(["Content-Length: 2", "Expect: 100-continue"], "{}"),
    post(["Content-Length: 2", "Transfer-Encoding: chunked"], "2\r\n{}\r\n0\r\n\r\n"),
    post(["Transfer-Encoding: chunked"], "2\r\n{}\r\n0\r\n\r\n"),
    post(["Transfer-Encoding: chunked"], "zz\r\n{}\r\n0\r\n\r\n"),
    post(["Transfer-Encoding: chunked"], "-2\r\n{}\r\n0\r\n\r\n"),
    post(["Transfer-Encoding: chunked"], "ffffffffffffffffff\r\n{}"),
    post(["Transfer-Encoding: chunked"], "7fffffff\r\n{}"),
    post(["Transfer-Encoding: chunked"], `2;${"x".repeat(40_000)}\r\n{}\r\n0\r\n\r\n`),
    post(["Transfer-Encoding: chunked"], `2\r\n{}\r\n0\r\n${"t: x\r\n".repeat(5_000)}\r\n`),
    post(["Transfer-Encoding: chunked"], "2\r\n{}\r\n"),
    post(["Transfer-Encoding: chunked, identity"], "{}"),
    post(["Transfer-Encoding: xchunked"], "{}"),
    post(["Transfer-Encoding: gzip, chunked"], "2\r\n{}\r\n0\r\n\r\n"),
    post(["Content-Length: 2", "Content-Encoding: gzip"], "\x1f\x8b"),
    post(["Content-Length: 5"], "\xef\xbb\xbf{}"),
    post(["Content-Length: 4"], '"\xff"x'),
    post(["Content-Length: 2"], "{}GET /health HTTP/1.1\r\n\r\n"),
  ];
}
