import { RuntimeError } from "../../contract/error.ts";
import type { OperationName } from "../../contract/operations.ts";
import { WIRE_TABLE } from "../../contract/wire-table.ts";
import type { Dispatch } from "../../service/dispatch.ts";
import { createRuntimeCalls, type Runtime } from "../../service/runtime-calls.ts";
import { cancelledError, closedError } from "../failures.ts";
import { isRecord } from "../fields.ts";
import { requireSameContract } from "../same-contract.ts";
import { createExchange } from "./exchange.ts";
import { createFollowing } from "./following.ts";
import { requestOf } from "./request.ts";
import { createTurns } from "./turns.ts";

/** A server at an address: `rkat serve`. */
export interface HttpOptions {
  readonly url: string;
  /** What the server asks for; without it none is sent. */
  readonly token?: string | undefined;
}

/** Connects to a server over HTTP; throws when nothing answers there, or nothing this client can speak with. */
export async function openHttp(options: HttpOptions): Promise<Runtime> {
  const url = baseOf(options.url);
  const exchange = createExchange({ url, token: tokenOf(options.token) });
  const ending = new AbortController();
  const { signal: closing } = ending;
  const runTurn = createTurns({ exchange, newId, closing });

  const ask = async (name: OperationName, input: unknown, signal: AbortSignal | undefined): Promise<unknown> => {
    const either = signal === undefined ? closing : AbortSignal.any([closing, signal]);
    return exchange.read(await exchange.send(requestOf(name, input), { signal: either }));
  };
  const dispatch: Dispatch = async (name, input, call = {}) => {
    if (closing.aborted) throw closedError();
    if (call.tools !== undefined && call.tools.length > 0) throw toolsRefused();
    if (call.signal?.aborted) throw cancelledError();
    try {
      const answer = WIRE_TABLE[name].hasEvents
        ? await runTurn(requestOf(name, input), call)
        : await ask(name, input, call.signal);
      // The server answers a row's route with the row's output.
      return inTableForm(name, answer) as Awaited<ReturnType<typeof dispatch<typeof name>>>;
    } catch (thrown) {
      if (closing.aborted) throw closedError();
      if (call.signal?.aborted && isBroken(thrown))
        throw new RuntimeError("REQUEST_CANCELLED", "the request was cancelled");
      throw thrown;
    }
  };
  const { contract_version } = await dispatch("readCapabilities", {});
  requireSameContract(contract_version, url);
  const subscribe = createFollowing({ exchange, dispatch, closing });
  return createRuntimeCalls({ dispatch, subscribe, close: async () => ending.abort("closed") });
}

function isBroken(thrown: unknown): boolean {
  return thrown instanceof RuntimeError && thrown.code === "AGENT_ERROR" && thrown.cause !== undefined;
}

function toolsRefused(): RuntimeError {
  const message = "tools: over HTTP the server has no way to call them; tools of the client's own need a command";
  return new RuntimeError("INVALID_PARAMS", message);
}

const TIMES = ["created_at", "updated_at"];

/** REST writes the times of a session as texts; everywhere else they are seconds. */
function inTableForm(name: OperationName, answer: unknown): unknown {
  if (name !== "readSession" || !isRecord(answer)) return answer;
  const seconds = TIMES.map((field) => [field, Date.parse(String(answer[field])) / 1_000]);
  return { ...answer, ...Object.fromEntries(seconds) };
}

/** The address without what follows the path, and without a slash at its end. */
function baseOf(url: unknown): string {
  const text = url instanceof URL ? url.href : url;
  const parsed = typeof text === "string" && URL.canParse(text) ? new URL(text) : undefined;
  if (parsed === undefined || !/^https?:$/.test(parsed.protocol)) {
    throw new RuntimeError("INVALID_PARAMS", "url: write the address of a server, such as http://127.0.0.1:8080");
  }
  if (parsed.username !== "" || parsed.password !== "") {
    throw new RuntimeError("INVALID_PARAMS", "url: leave out the name and password; a token is given as token");
  }
  return `${parsed.origin}${parsed.pathname.replace(/(?<!\/)\/+$/, "")}`;
}

function tokenOf(token: unknown): string | undefined {
  if (token === undefined) return undefined;
  if (typeof token === "string" && /^[\x21-\x7e]+$/.test(token)) return token;
  throw new RuntimeError("INVALID_PARAMS", "token: write visible characters without blanks, as the server has it");
}

const ID_BYTES = 16;

/** Not a UUID: pages that were not loaded over TLS cannot make one. */
function newId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(ID_BYTES)), (byte) =>
    byte.toString(16).padStart(2, "0"),
  ).join("");
}
