import type { Config } from "@rkat/core/config/config-schema";
import { defaultConfig } from "@rkat/core/config/settings";
import type { AgentEvent } from "@rkat/core/contract/event";
import { createRuntime, type RuntimeOptions } from "@rkat/core/create-runtime";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import type { EventStream, Session, TurnResult } from "@rkat/core/sessions/session-handle";
import { createVirtualClock } from "./virtual-clock.ts";

/** A runtime on a scripted model and a virtual clock, with no environment. */
export function scriptedRuntime(script: Parameters<typeof createScriptedModel>[0], options: RuntimeOptions = {}) {
  const model = createScriptedModel(script);
  const clock = createVirtualClock();
  const runtime = createRuntime({ model, clock, env: {}, ...options });
  return { runtime, model, clock };
}

/** The default configuration with some sections changed. */
export function configWith(changes: { [S in keyof Config]?: Partial<Config[S]> }): Config {
  const config = defaultConfig();
  const changed = Object.entries(changes).map(([section, values]) => {
    // The keys of `changes` are those of a configuration.
    const before = config[section as keyof Config];
    return [section, { ...before, ...values }];
  });
  return { ...config, ...Object.fromEntries(changed) };
}

/** Every event of a turn, and how it ended. */
export async function listen(
  stream: EventStream,
): Promise<{ events: AgentEvent[]; result: TurnResult | undefined; error: unknown }> {
  const events: AgentEvent[] = [];
  const collect = async () => {
    for await (const event of stream) events.push(event);
  };
  const [received, end] = await Promise.allSettled([collect(), stream.result]);
  // A turn that told nothing of its end throws it here and in its result.
  if (received.status === "rejected" && end.status === "fulfilled") throw received.reason;
  if (end.status === "fulfilled") return { events, result: end.value, error: undefined };
  return { events, result: undefined, error: end.reason };
}

export function typesOf(events: readonly AgentEvent[]): string[] {
  return events.map((event) => event.type);
}

/** Begins a turn that does not end by itself, and resolves once it has said something. */
export async function beginWaiting(session: Pick<Session, "stream">) {
  const { promise: begun, resolve } = Promise.withResolvers<void>();
  const stream = session.stream("wait");
  const events = (async () => {
    const received = [];
    for await (const event of stream) {
      received.push(event);
      if (event.type === "text_delta") resolve();
    }
    return received;
  })();
  events.catch(() => {}); // Of a turn whose server dies; whoever asks for them hears of it.
  await begun;
  return { result: stream.result, events };
}
