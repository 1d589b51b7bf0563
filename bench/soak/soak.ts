import type { Fields, Outcome } from "@rkat/conformance/driver";
import { isRecord } from "@rkat/core/contract/json";
import { OPERATIONS, type OperationName } from "@rkat/core/contract/operations";
import { below, chance, pick } from "../../test/compaction/chances.ts";
import type { Book } from "./book.ts";
import { Gone } from "./lines.ts";
import type { Server, ServerName } from "./servers.ts";

/** A soak: who is asked, what is known, and what was seen that must not be. */
export interface Soak {
  readonly random: () => number;
  readonly book: Book;
  readonly servers: Readonly<Record<ServerName, Server>>;
  readonly commandLine: Server["call"];
  /** Whether the disk is, or was a moment ago, one that cannot be written to. */
  isDiskFull(): boolean;
  fault(sentence: string): void;
  count(outcome: string): void;
}

/** How an operation ended; undefined when it failed as it may. */
export type Answer = Fields | undefined;

/** Of all calls, those that are made by a command: each starts a process. */
const COMMAND_SHARE = 0.04;
const ANSWER_MS_MAX = 120_000;
/** Ends that nobody can rule out: another turn runs, a model fails, somebody interrupts, a server is gone. */
const MAY_FAIL = ["SESSION_BUSY", "PROVIDER_ERROR", "REQUEST_CANCELLED", "GONE"];
const STORE_TROUBLE = ["SESSION_STORE_ERROR", "AGENT_ERROR", "INTERNAL_ERROR"];

/** Calls an operation over one of the surfaces; what it may not end with is a fault. */
export async function ask(
  soak: Soak,
  operation: OperationName,
  input: Fields,
  mayFail: readonly string[] = [],
): Promise<Answer> {
  const { name, call } = surfaceFor(soak, operation, input);
  const wasFull = soak.isDiskFull();
  const outcome = await settled(soak, call(operation, input), `${operation} over ${name}`);
  soak.count(`${operation} ${outcome.ok ? "ok" : outcome.code}`);
  if (outcome.ok) return isRecord(outcome.result) ? outcome.result : { result: outcome.result };
  const isTrouble = (wasFull || soak.isDiskFull()) && STORE_TROUBLE.some((code) => outcome.code.includes(code));
  if ([...MAY_FAIL, ...mayFail, ...ifArchived(soak, input)].includes(outcome.code) || isTrouble) return undefined;
  soak.fault(`${operation} over ${name} was answered ${outcome.code}: ${outcome.message.slice(0, 300)}`);
  return undefined;
}

function surfaceFor(soak: Soak, operation: OperationName, input: Fields) {
  const { random, servers, commandLine } = soak;
  // A command shows a history whole, and tells of a change to the configuration in a sentence.
  const isWire = operation === "patchConfig" || (operation === "readHistory" && "limit" in input);
  const isCommand = chance(random, COMMAND_SHARE) && !isWire;
  if (isCommand) return { name: "cli", call: commandLine };
  const hasTool = "mcp" in OPERATIONS[operation] && !operation.endsWith("Config");
  const offered = Object.values(servers).filter(({ name }) => hasTool || !name.startsWith("mcp"));
  return pick(random, offered) ?? servers.rest;
}

/** What a call came to; one that is never answered is a fault. */
export async function settled(soak: Soak, call: Promise<Outcome>, what: string): Promise<Outcome> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<Outcome>((resolve) => {
    timer = setTimeout(() => {
      soak.fault(`${what} was not answered in ${ANSWER_MS_MAX / 1_000} s`);
      resolve({ ok: false, code: "GONE", message: "it hangs" });
    }, ANSWER_MS_MAX);
  });
  try {
    return await Promise.race([call, late]);
  } catch (thrown) {
    if (thrown instanceof Gone) return { ok: false, code: "GONE", message: thrown.message };
    return { ok: false, code: "BROKEN", message: `${thrown} ${Object(thrown).cause ?? ""}` };
  } finally {
    clearTimeout(timer);
  }
}

/** Sessions that are talked to at a time. */
const SESSIONS_AT_ONCE = 24;
const TURNS_MAX = 50;

/** A session that goes on; undefined before there is one. */
export function someSession({ random, book }: Soak) {
  const going = [...book.sessions.values()].filter(
    ({ archived, isHeavy, acknowledged }) => archived === "no" && !isHeavy && acknowledged.length < TURNS_MAX,
  );
  return pick(random, going.slice(-SESSIONS_AT_ONCE));
}

export function anySession({ random, book }: Soak) {
  return pick(
    random,
    [...book.sessions.values()].filter(({ isHeavy }) => !isHeavy),
  );
}

/** What may be missing of a session somebody has archived, be it while we asked. */
function ifArchived({ book }: Soak, { session_id }: Fields): readonly string[] {
  const known = typeof session_id === "string" ? book.sessions.get(session_id) : undefined;
  return known === undefined || known.archived === "no" ? [] : ["SESSION_NOT_FOUND"];
}

export function sleepBelow({ random }: Soak, ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, below(random, ms)));
}
