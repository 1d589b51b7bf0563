import type { Config } from "./config/config-schema.ts";
import { RuntimeError } from "./contract/error.ts";
import type { AgentEvent } from "./contract/event.ts";
import { type HookEntry, hookFault } from "./contract/hook.ts";
import { defined, type JsonTable } from "./contract/json.ts";
import type { Clock } from "./ports/clock.ts";
import { createSystemClock } from "./runtime/system-clock.ts";
import { createBackgroundHooks, type HookOptions, type HookPart, joinHooks, readHooks } from "./sessions/hooks.ts";
import { createHookCommands } from "./tools/hook-command.ts";
import { type Env, secretsIn } from "./tools/shell.ts";
import { createHooks, denialText } from "./turn/hooks.ts";
import { createRedactor } from "./turn/redact.ts";

/** The hooks of a runtime: functions it is composed with, and commands of its configuration. */
export interface ComposedHooks {
  of(config: Config): HookPart;
  /** Resolves when background hooks and all commands have ended. */
  close(): Promise<void>;
}

export function composeHooks(
  given: readonly HookOptions[] | undefined,
  parts: { readonly root: string; readonly env: Env; readonly clock: Clock },
): ComposedHooks {
  const own = readHooks(given ?? []);
  const commands = createHookCommands(parts);
  let most = 0;
  const background = createBackgroundHooks(() => most);
  return {
    of: ({ hooks: { entries, default_timeout_ms, payload_max_bytes, background_max_concurrency } }) => {
      most = background_max_concurrency;
      const configured = entries.filter(({ enabled }) => enabled).map((entry) => commands.hook(entry));
      return {
        hooks: joinHooks(own, configured),
        off: entries.filter(({ enabled }) => !enabled).map(({ id }) => id),
        timeoutMs: default_timeout_ms,
        payloadBytesMax: payload_max_bytes,
        startInBackground: background.start,
        commandHook: commands.hook,
      };
    },
    close: async () => {
      await background.settled();
      await commands.close();
    },
  };
}

/** What a turn would make of a hook. */
interface HookTrial {
  readonly events: readonly AgentEvent[];
  /** What the model or the caller would receive. */
  readonly denied?: string;
  readonly args?: object;
  readonly result?: object;
}

/** Calls a hook once, as a turn would, and says what that turn would make of its answer. */
export async function tryHook(
  entry: HookEntry,
  payload: JsonTable,
  at: { readonly root: string; readonly env: Env; readonly config: Config; readonly signal: AbortSignal },
): Promise<HookTrial> {
  const { config, signal, ...place } = at;
  const fault = hookFault({ ...entry, failurePolicy: entry.failure_policy, tools: undefined });
  if (fault !== undefined) throw new RuntimeError("INVALID_PARAMS", `${fault.field} of ${entry.id}: ${fault.problem}`);
  const clock = createSystemClock();
  const commands = createHookCommands({ ...place, clock });
  const events: AgentEvent[] = [];
  const { tools: _any, ...hook } = commands.hook(entry);
  const hooks = createHooks({
    // It is waited for here, also where a turn would not.
    hooks: [{ ...hook, mode: "foreground" }],
    sessionId: clock.newId(),
    labels: undefined,
    clock,
    redact: createRedactor(secretsIn(place.env)),
    timeoutMs: config.hooks.default_timeout_ms,
    payloadBytesMax: config.hooks.payload_max_bytes,
    startInBackground: () => false,
    emit: (event) => events.push(event),
  });
  try {
    const hooked = await hooks?.run(entry.point, payload, { signal });
    const { reported = [], denied, args, result } = hooked ?? {};
    for (const body of reported) if (body.kind === "event") events.push(body.event);
    return {
      events,
      ...(denied === undefined ? {} : { denied: denialText(denied) }),
      ...defined({ args, result }),
    };
  } finally {
    await commands.close();
  }
}
