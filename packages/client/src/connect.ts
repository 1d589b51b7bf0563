import { RuntimeError } from "@rkat/core/contract/error";
import { requireNames } from "@rkat/core/runtime/options";
import { createRuntimeCalls, type Runtime, type RuntimeLink } from "@rkat/core/runtime/runtime-calls";
import { closedError } from "./answers.ts";
import { type HttpOptions, openHttp } from "./http.ts";

/** A server that is started as a command and spoken to over its stdin and stdout; Node only. */
export interface CommandOptions {
  /** What to start; without it the package's own `rkat-rpc`. `MEERKAT_BIN_PATH` wins over both. */
  readonly command?: string;
  readonly args?: readonly string[];
  /** The folder it works in, instead of this process's. */
  readonly cwd?: string;
  /** Its environment, instead of this process's. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly log?: (line: string) => void;
}

/** A runtime of this process. */
export interface RuntimeOption {
  readonly runtime: Pick<Runtime, "dispatch" | "subscribe">;
}

/** Where the sessions run: at an address, in a command, or here. */
export type ConnectOptions = HttpOptions | CommandOptions | RuntimeOption;

export type Connect = (options?: ConnectOptions) => Promise<Runtime>;

/** `connect`; only Node can start commands, so that part is passed in. */
export function createConnect(openCommand: (options: CommandOptions) => Promise<Runtime>): Connect {
  return async (options = {}) => {
    requireNames(options, namesFor(options));
    if ("url" in options) return openHttp(options);
    if ("runtime" in options) return createRuntimeCalls(createLocalLink(runtimeOf(options)));
    return openCommand(options);
  };
}

const COMMAND_NAMES = ["command", "args", "cwd", "env", "log"];
const ALL_NAMES = ["url", "runtime", ...COMMAND_NAMES];

function namesFor(options: ConnectOptions): readonly string[] {
  if (typeof options !== "object" || options === null) return ALL_NAMES;
  if ("url" in options) return ["url", "token"];
  if ("runtime" in options) return ["runtime"];
  return "command" in options || "args" in options ? COMMAND_NAMES : ALL_NAMES;
}

function runtimeOf({ runtime }: RuntimeOption): RuntimeOption["runtime"] {
  if (typeof runtime?.dispatch === "function") return runtime;
  throw new RuntimeError("INVALID_PARAMS", "runtime: pass the result of createRuntime or openRuntime");
}

/** The link to a runtime of this process. Closing the client does not close the runtime. */
function createLocalLink(runtime: Pick<Runtime, "dispatch" | "subscribe">): RuntimeLink {
  const closing = new AbortController();
  const dispatch: RuntimeLink["dispatch"] = async (...call) => {
    if (closing.signal.aborted) throw closedError();
    return runtime.dispatch(...call);
  };
  return {
    dispatch,
    subscribe: (sessionId, { after, signal } = {}) => {
      const ending = signal === undefined ? closing.signal : AbortSignal.any([closing.signal, signal]);
      return runtime.subscribe(sessionId, { signal: ending, ...(after === undefined ? {} : { after }) });
    },
    close: async () => closing.abort("closed"),
  };
}
