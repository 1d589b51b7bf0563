import { RuntimeError } from "../../contract/error.ts";
import type { Runtime } from "../../service/runtime-calls.ts";
import type { Driver, Surface } from "./driver.ts";

/** Whatever has the calls of a runtime: one in this process, or a client of one elsewhere. */
export type RuntimeLike = Pick<Runtime, "dispatch" | "close">;

/** Tells scenarios through a runtime; `open` makes it, and after a restart the one that takes its place. */
export async function openRuntimeDriver(surface: Surface, open: () => Promise<RuntimeLike>): Promise<Driver> {
  let runtime = await open();
  return {
    surface,
    lacks: () => undefined,
    hears: () => true,
    call: async (operation, input, onEvent) => {
      const listening =
        onEvent === undefined ? {} : { listener: ({ event }: { event: object }) => onEvent(told(event)) };
      try {
        return { ok: true, result: asJson(await runtime.dispatch(operation, input, listening)) };
      } catch (thrown) {
        if (!(thrown instanceof RuntimeError)) throw thrown;
        const { code, message, details } = thrown;
        return { ok: false, code, message, ...(details === undefined ? {} : { details: asJson(details) }) };
      }
    },
    restart: async () => {
      await runtime.close();
      runtime = await open();
    },
    close: () => runtime.close(),
  };
}

/** As it would come over a wire: without fields that are there and undefined. */
function asJson(value: unknown): unknown {
  return value === undefined ? undefined : JSON.parse(JSON.stringify(value));
}

function told(event: object): { readonly type: string } {
  return asJson(event) as { type: string }; // Every event has a type.
}
