import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { ERRORS, type ErrorCode } from "@rkat/core/contract/error";

export interface AttackOptions {
  readonly seed: number;
  readonly inputs: number;
}

/** What an attack on a surface came to. */
export interface Attack {
  readonly inputs: number;
  /** How many inputs ended how: a code of the table, a fault of the protocol, an answer, a close. */
  readonly outcomes: Readonly<Record<string, number>>;
  /** What must not be: each a sentence with the input that did it. */
  readonly faults: readonly string[];
  /** What the heap grew by between the middle and the end, garbage collected. */
  readonly grownBytes: number;
  /** Sockets and timers there are more of at the end than there were at the start. */
  readonly leaked: Readonly<Record<string, number>>;
}

/** The heap may differ by what is kept of the newest sessions, of compiled code and of caches that are bounded. */
export const GROWN_BYTES_MAX = 48 * 1_024 * 1_024;
/** What has not been answered by then hangs. */
const ANSWER_MS_MAX = 30_000;
const FAULTS_MAX = 20;
const EXCERPT_CHARS = 400;

/** Keeps the score of an attack. */
export interface Score {
  count(outcome: string): void;
  fault(sentence: string, input: string | Uint8Array): void;
  /** Fails an answer that tells of the inside of the server, or is a defect of it. */
  check(answer: { readonly text: string; readonly code?: string | undefined }, input: string | Uint8Array): void;
  readonly outcomes: Readonly<Record<string, number>>;
  readonly faults: readonly string[];
}

/** `secret` is what no answer may hold, such as the folder of the server. */
export function createScore(secret: string): Score {
  const outcomes: Record<string, number> = {};
  const faults: string[] = [];
  const fault = (sentence: string, input: string | Uint8Array): void => {
    if (faults.length < FAULTS_MAX) faults.push(`${sentence}; for ${excerptOf(input)}`);
  };
  return {
    outcomes,
    faults,
    fault,
    count: (outcome) => {
      outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
    },
    check: ({ text, code }, input) => {
      if (isDefect(code)) fault(`answered ${code}: ${text.slice(0, EXCERPT_CHARS)}`, input);
      if (STACK.test(text)) fault(`an answer shows a stack: ${text.slice(0, EXCERPT_CHARS)}`, input);
      if (text.includes(secret)) fault(`an answer names a folder: ${text.slice(0, EXCERPT_CHARS)}`, input);
    },
  };
}

const STACK = /\bat (?:async )?[\w.<> ]+ \([^)]*:\d+:\d+\)|node:internal\/|\/node_modules\/|\.(?:ts|js):\d+:\d+/;

/** Codes that say the server is at fault: no input may lead to one. */
function isDefect(code: string | undefined): boolean {
  return code !== undefined && Object.hasOwn(ERRORS, code) && ERRORS[code as ErrorCode].http === 500; // It is a key.
}

function excerptOf(input: string | Uint8Array): string {
  const text = typeof input === "string" ? input : Buffer.from(input).toString("latin1");
  return JSON.stringify(text.length > EXCERPT_CHARS ? `${text.slice(0, EXCERPT_CHARS)}… (${text.length})` : text);
}

/** Waits for an answer; one that does not come is a fault that names what was sent. */
export async function answered<T>(work: Promise<T>, input: () => string | Uint8Array): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const hangs = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer came for ${excerptOf(input())}`)), ANSWER_MS_MAX);
  });
  try {
    return await Promise.race([work, hangs]);
  } finally {
    clearTimeout(timer);
  }
}

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void; // What the flag gives every context.

/** What is in use once what was let go is gone; a first collection only queues what finalisers hold. */
export async function heapBytes(): Promise<number> {
  for (let round = 0; round < 3; round += 1) {
    collect();
    await new Promise((resolve) => setImmediate(resolve));
  }
  return process.memoryUsage().heapUsed;
}

const WATCHED = ["TCPSocketWrap", "TCPServerWrap", "PipeWrap", "Timeout", "FSReqCallback"];
const ROUNDS_MAX = 20_000;

/** How many handles of each kind are open. */
export function handles(): Readonly<Record<string, number>> {
  const open = process.getActiveResourcesInfo();
  return Object.fromEntries(WATCHED.map((kind) => [kind, open.filter((one) => one === kind).length]));
}

/** Handles there are more of than before, once those that are closing have had their time. */
export async function leakedSince(before: Readonly<Record<string, number>>): Promise<Readonly<Record<string, number>>> {
  const more = () => Object.entries(handles()).filter(([kind, count]) => count > (before[kind] ?? 0));
  for (let round = 0; round < ROUNDS_MAX && more().length > 0; round += 1) {
    await new Promise((resolve) => setImmediate(resolve));
  }
  return Object.fromEntries(more().map(([kind, count]) => [kind, count - (before[kind] ?? 0)]));
}
