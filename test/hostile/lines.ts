import { PassThrough } from "node:stream";
import { ERRORS, type ErrorCode } from "@rkat/core/contract/error";
import { chance, pick } from "../compaction/chances.ts";
import { type Attack, answered, createScore, heapBytes } from "./attack.ts";
import { broken, type Draw, nasty, toJson } from "./inputs.ts";
import type { Target } from "./target.ts";

type Fields = Record<string, unknown>;

/** A server that reads lines and writes lines. */
export interface LineSurface {
  serve(streams: { input: PassThrough; output: PassThrough; signal: AbortSignal }): Promise<void>;
  /** A request with something wrong in it, or nothing. */
  request(id: number): unknown;
  /** A request that must be answered with a result. */
  readonly probe: { readonly method: string; readonly params: Fields };
  /** The number of a code, where it is not the table's. */
  numberOf?(code: string): number | undefined;
  /** What to send once a result came, such as the close of what it opened. */
  followUp?(result: Fields): unknown;
}

const BATCH = 64;
const BROKEN_SHARE = 0.35;
const DEPTH_MAX = 128;
const PROBE_ID = "a good request";

/** Sends lines to a server, and compares the answers with what JSON-RPC says must come. */
export async function attackLines(
  target: Target,
  surface: LineSurface,
  inputs: number,
): Promise<Omit<Attack, "leaked">> {
  const { draw } = target;
  const score = createScore(target.folder);
  const input = new PassThrough();
  const output = new PassThrough();
  const ending = new AbortController();
  const ended = surface.serve({ input, output, signal: ending.signal });
  let owed = 0;
  let batch: Buffer[] = [];
  let onPaid = (): void => {};
  const send = (bytes: Uint8Array): void => {
    const line = Buffer.concat([bytes, Buffer.from("\n")]);
    owed += answersTo(line);
    input.write(line);
  };
  const take = (line: string): void => {
    const frame = asFields(JSON.parse(line)); // Nothing but JSON may be written.
    if (frame.method !== undefined) return;
    owed -= 1;
    judge(frame, line);
    if (owed <= 0) onPaid();
  };
  const judge = (frame: Fields, line: string): void => {
    const isProbe = frame.id === PROBE_ID;
    const culprit = (typeof frame.id === "number" ? batch[frame.id % BATCH] : undefined) ?? Buffer.concat(batch);
    if (isProbe && !("result" in frame)) score.fault(`a good request was answered ${line}`, culprit);
    const { code, number, problem } = errorOf(frame, surface.numberOf);
    if (problem !== undefined) score.fault(`${problem}: ${line.slice(0, 300)}`, culprit);
    score.check(
      { text: line, code: code ?? (number === ERRORS.INTERNAL_ERROR.rpc ? "INTERNAL_ERROR" : code) },
      culprit,
    );
    if (!isProbe) score.count(code ?? (number === undefined ? "answered" : String(number)));
    const result = asFields(frame.result);
    if (typeof result.session_id === "string") target.know(result.session_id);
    const more = surface.followUp?.(result);
    if (more !== undefined) send(Buffer.from(toJson(more)));
  };
  let rest = "";
  output.setEncoding("utf8");
  output.on("data", (text: string) => {
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) take(line);
  });
  const paid = (): Promise<void> =>
    new Promise((resolve) => {
      onPaid = resolve;
      if (owed <= 0) resolve();
    });

  let middleBytes = 0;
  for (let sent = 0; sent < inputs; ) {
    batch = [];
    for (let line = 0; line < BATCH && sent < inputs; line += 1, sent += 1) {
      const whole = Buffer.from(toJson(surface.request(sent)));
      const bytes = Buffer.from(chance(draw.random, BROKEN_SHARE) ? broken(whole, draw) : whole);
      batch.push(bytes);
      if (bytes.every((byte) => byte !== 0x0a) && answersTo(Buffer.concat([bytes, Buffer.from("\n")])) === 0)
        score.count("nothing to answer");
      send(bytes);
    }
    send(Buffer.from(JSON.stringify({ jsonrpc: "2.0", id: PROBE_ID, ...surface.probe })));
    await answered(paid(), () => Buffer.concat(batch));
    if (owed < 0) score.fault(`${-owed} answers too many`, Buffer.concat(batch));
    owed = 0;
    if (middleBytes === 0 && sent >= inputs / 2) middleBytes = await heapBytes();
  }
  const grownBytes = (await heapBytes()) - middleBytes;
  input.end();
  await answered(ended, () => "the end of the input");
  return { inputs, outcomes: score.outcomes, faults: score.faults, grownBytes };
}

const WRONG_SHARE = 0.1;

/** A request as it is, or with something wrong in its envelope. */
export function wronged(request: Fields, draw: Draw): Fields {
  if (!chance(draw.random, WRONG_SHARE)) return request;
  const field = pick(draw.random, ["jsonrpc", "id", "method", "params", "result", "error", "extra"]) ?? "id";
  return { ...request, [field]: chance(draw.random, 0.2) ? undefined : nasty(draw) };
}

function asFields(value: unknown): Fields {
  return typeof value === "object" && value !== null ? (value as Fields) : {}; // An object's fields are unknown, no more.
}

/** How many answers lines are owed, by the rules of JSON-RPC 2.0; nothing of the server is asked. */
function answersTo(bytes: Uint8Array): number {
  let answers = 0;
  for (let start = 0; start < bytes.length; ) {
    const end = bytes.indexOf(0x0a, start);
    answers += answersToLine(bytes.subarray(start, end < 0 ? bytes.length : end));
    start = end < 0 ? bytes.length : end + 1;
  }
  return answers;
}

function answersToLine(bytes: Uint8Array): 0 | 1 {
  const parsed = parseLine(bytes);
  if (parsed === "blank") return 0;
  if (parsed === "broken" || typeof parsed.value !== "object" || parsed.value === null) return 1;
  if (Array.isArray(parsed.value)) return 1;
  const { jsonrpc, id, method, params } = asFields(parsed.value);
  const isAnswer = method === undefined && ("result" in parsed.value || "error" in parsed.value);
  if (isAnswer) return 0;
  const isNotification =
    !("id" in parsed.value) &&
    id === undefined &&
    jsonrpc === "2.0" &&
    typeof method === "string" &&
    (params === undefined || typeof params === "object");
  return isNotification ? 0 : 1;
}

function parseLine(bytes: Uint8Array): "blank" | "broken" | { readonly value: unknown } {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    if (text.trim() === "") return "blank";
    return depthOf(text) > DEPTH_MAX ? "broken" : { value: JSON.parse(text) };
  } catch {
    return "broken";
  }
}

function depthOf(text: string): number {
  let depth = 0;
  let deepest = 0;
  for (const mark of text.replace(/"(?:[^"\\]|\\.)*"?/gs, "").match(/[[\]{}]/g) ?? []) {
    depth += mark === "[" || mark === "{" ? 1 : -1;
    deepest = Math.max(deepest, depth);
  }
  return deepest;
}

const PROTOCOL = new Map([
  ["PARSE_ERROR", -32700],
  ["INVALID_REQUEST", -32600],
]);
/**
 * Numbers of JSON-RPC and MCP that stand for themselves, without a code of the table. MCP 2026-07-28 answers headers that
 * disagree with the body with -32020.
 */
const BARE_NUMBERS: readonly number[] = [-32601, -32602, -32600, -32700, -32000, -32001, -32020];

/** The code of an answer's error, and what is wrong with its form. */
export function errorOf(
  frame: Fields,
  numberOf: LineSurface["numberOf"] = () => undefined,
): {
  readonly code?: string;
  readonly number?: number;
  readonly problem?: string;
} {
  if (frame.jsonrpc !== "2.0" || !("id" in frame)) return { problem: "an answer without jsonrpc or id" };
  if ("result" in frame)
    return "error" in frame ? { problem: "both a result and an error" } : toolErrorOf(frame.result);
  const { code: number, message, data } = asFields(frame.error);
  if (typeof number !== "number" || typeof message !== "string" || message === "")
    return { problem: "no error object" };
  const { code } = asFields(data);
  if (typeof code !== "string") {
    return BARE_NUMBERS.includes(number) ? { number } : { number, problem: "an error without a code" };
  }
  const wanted =
    numberOf(code) ?? PROTOCOL.get(code) ?? (Object.hasOwn(ERRORS, code) ? ERRORS[code as ErrorCode].rpc : undefined);
  return wanted === number ? { code, number } : { code, number, problem: `${code} is not ${number}` };
}

/** A tool of MCP that fails says so in its result. */
function toolErrorOf(result: unknown): { readonly code?: string; readonly problem?: string } {
  const { isError, content } = asFields(result);
  if (isError !== true || !Array.isArray(content)) return {};
  const { code, error } = asFields(JSON.parse(String(asFields(content[0]).text)));
  const isKnown = typeof code === "string" && Object.hasOwn(ERRORS, code) && typeof error === "string";
  return isKnown ? { code: String(code) } : { problem: "a tool error without a code" };
}
