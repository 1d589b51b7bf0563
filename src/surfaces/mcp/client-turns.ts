import type { Caller } from "../../contract/caller.ts";
import { RuntimeError } from "../../contract/error.ts";
import type { ClientTool, ToolResults } from "../../contract/mcp-tools.ts";
import type { JsonObject } from "../../contract/session.ts";
import type { Tool, ToolOutput } from "../../ports/tool.ts";
import type { Listener } from "../../service/event-queue.ts";

/** What a call of a client brings to the turn it runs or goes on with. */
interface Hearing {
  readonly signal: AbortSignal;
  readonly listener: Listener;
  /** Whose call it is: results of a turn are taken from whoever began it. */
  readonly caller: Caller | undefined;
}

/** A turn that cannot go on before its client has run these. */
export interface WaitingTurn {
  readonly session_id: string;
  readonly pending: readonly { readonly toolUseId: string; readonly name: string; readonly args: JsonObject }[];
}

/**
 * Turns whose tools the client runs. A server of MCP cannot ask its client to run one, so the call that runs the turn
 * is answered with what is wanted, and a later call brings the results.
 */
export interface ClientTurns {
  toTools(given: readonly ClientTool[]): readonly Tool[];
  /** Begins a turn and resolves when it has ended or waits for the client. */
  begin<T>(start: (call: Omit<Hearing, "caller">) => Promise<T>, hearing: Hearing): Promise<T | WaitingTurn>;
  /** Gives results to the turn that waits for them, and resolves as `begin` does. */
  goOn(sessionId: string, results: ToolResults, hearing: Hearing): Promise<unknown>;
}

interface Turn {
  readonly caller: Caller | undefined;
  readonly waiting: Map<string, { name: string; args: JsonObject; answer(output: ToolOutput): void }>;
  readonly aborting: AbortController;
  ended: Promise<unknown>;
  /** Undefined between two calls of the client: nobody is there to be told. */
  listener: Listener | undefined;
  /** Wakes whoever waits for the turn to want something. */
  wake: () => void;
}

/** A client may ask a person before it runs something. */
const CLIENT_TOOL_MS_MAX = 600_000;
const WAITING_TURNS_MAX = 256;
const STOPPED: ToolOutput = { content: "interrupted: this call may or may not have taken effect", isError: true };

export function createClientTurns(): ClientTurns {
  const turns = new Map<string, Turn>();

  const ask = (sessionId: string, { toolUseId, name, args }: WaitingTurn["pending"][number], signal: AbortSignal) =>
    new Promise<ToolOutput>((resolve) => {
      const turn = turns.get(sessionId);
      const waiting = [...turns.values()].filter((one) => one.waiting.size > 0).length;
      if (turn === undefined || waiting > WAITING_TURNS_MAX) {
        resolve({ content: `no client is there to run ${name}`, isError: true });
        return;
      }
      const answer = (output: ToolOutput): void => {
        turn.waiting.delete(toolUseId);
        resolve(output);
      };
      turn.waiting.set(toolUseId, { name, args, answer });
      signal.addEventListener("abort", () => answer(STOPPED), { once: true });
      turn.wake();
    });

  /** Resolves with the turn's end, or with what it waits for. */
  const follow = async (sessionIdOf: () => string, turn: Turn, { signal, listener }: Hearing): Promise<unknown> => {
    const interrupt = (): void => turn.aborting.abort(signal.reason);
    signal.addEventListener("abort", interrupt, { once: true });
    turn.listener = listener;
    try {
      for (;;) {
        const first = await Promise.race([turn.ended, wanting(turn)]);
        if (first !== WANTS) return first;
        const pending = [...turn.waiting].map(([toolUseId, { name, args }]) => ({ toolUseId, name, args }));
        // What was wanted a moment ago may have been answered or given up since.
        if (pending.length > 0) return { session_id: sessionIdOf(), pending } satisfies WaitingTurn;
      }
    } finally {
      signal.removeEventListener("abort", interrupt);
      turn.listener = undefined;
      turn.wake = () => {};
    }
  };

  return {
    toTools: (given) =>
      given.map(({ name, description, input_schema }) => ({
        name,
        description,
        inputSchema: input_schema,
        timeoutMs: CLIENT_TOOL_MS_MAX,
        execute: (args, { sessionId, toolUseId, signal }) => ask(sessionId, { toolUseId, name, args }, signal),
      })),
    begin: async (start, hearing) => {
      let sessionId = "";
      const turn: Turn = {
        caller: hearing.caller,
        waiting: new Map(),
        aborting: new AbortController(),
        ended: Promise.resolve(),
        listener: undefined,
        wake: () => {},
      };
      const listener: Listener = (delivery) => {
        // A turn first tells of itself with `run_started`, before it can want anything.
        if (delivery.event.type === "run_started") {
          sessionId = delivery.event.session_id;
          turns.set(sessionId, turn);
        }
        turn.listener?.(delivery);
      };
      const ended = start({ signal: turn.aborting.signal, listener }).finally(() => {
        if (turns.get(sessionId) === turn) turns.delete(sessionId);
      });
      ended.catch(() => {}); // Whoever follows the turn hears of it; it may fail while nobody does.
      turn.ended = ended;
      // What `follow` resolves with is what `start` did, unless the turn waits.
      return (await follow(() => sessionId, turn, hearing)) as Awaited<typeof ended> | WaitingTurn;
    },
    goOn: async (sessionId, results, hearing) => {
      const begun = turns.get(sessionId);
      const turn = requireWanted(begun?.caller === hearing.caller ? begun : undefined, results);
      const followed = follow(() => sessionId, turn, hearing);
      for (const { tool_use_id, content, is_error } of results) {
        turn.waiting.get(tool_use_id)?.answer({ content, isError: is_error });
      }
      return followed;
    },
  };
}

/**
 * Throws INVALID_PARAMS unless these are the results of all calls that wait: only together are they kept, and what is
 * answered with success must be.
 */
function requireWanted(turn: Turn | undefined, results: ToolResults): Turn {
  const refuse = (why: string) => new RuntimeError("INVALID_PARAMS", `tool_results: ${why}`);
  if (turn === undefined) throw refuse("no turn of this session waits for any; it may have ended, or was cut off");
  const given = results.map(({ tool_use_id }) => tool_use_id);
  const stray = given.find((id, index) => !turn.waiting.has(id) || given.indexOf(id) !== index);
  if (stray !== undefined) throw refuse(`no call ${stray} waits for a result, or it is there twice`);
  const missing = [...turn.waiting.keys()].filter((id) => !given.includes(id));
  if (missing.length > 0) throw refuse(`give those of all calls that wait at once; ${missing.join(", ")} is missing`);
  return turn;
}

const WANTS = Symbol("the turn waits for its client");

/** The calls of one answer are asked for one after the other; a moment later the client is told of them together. */
function wanting(turn: Turn): Promise<typeof WANTS> {
  return new Promise((resolve) => {
    turn.wake = () => setImmediate(() => resolve(WANTS));
    if (turn.waiting.size > 0) turn.wake();
  });
}

export function isWaiting(output: unknown): output is WaitingTurn {
  return typeof output === "object" && output !== null && "pending" in output;
}
