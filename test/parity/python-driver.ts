import { join } from "node:path";
import { createInterface } from "node:readline";
import { type Child, type Start, startChild } from "@rkat/conformance/child";
import { type Driver, eventIn, type Fields, type Outcome } from "@rkat/conformance/driver";
import { isRecord } from "@rkat/core/contract/json";
import { OPERATIONS } from "@rkat/core/contract/operations";

const PYTHON_CLIENT = join(import.meta.dirname, "../../sdks/python");

/** Tells scenarios through the Python client; `server` is the command it starts, or the address of one that runs. */
export async function openPythonDriver(server: Start, address?: () => string): Promise<Driver> {
  const startOf = (): Start => ({
    ...server,
    command: "python3",
    args: [join(import.meta.dirname, "python_driver.py"), address?.() ?? server.command, ...server.args],
    env: { ...server.env, PYTHONPATH: PYTHON_CLIENT },
  });
  const calls = new Map<number, (line: Fields) => void>();
  const open = async (): Promise<Child> => {
    const child = await startChild(startOf());
    createInterface({ input: child.spawned.stdout }).on("line", (text) => {
      const line: Fields = JSON.parse(text);
      calls.get(Number(line.id))?.(line);
    });
    void child.ended.then((code) => {
      const error = { code: "NO_ANSWER", message: `the client ended with ${code}: ${child.complaints()}` };
      for (const answer of calls.values()) answer({ error });
    });
    return child;
  };
  let child = await open();
  let id = 0;
  return {
    surface: "python",
    lacks: () => undefined,
    hasEvents: () => true,
    call: (operation, input, onEvent) =>
      new Promise<Outcome>((resolve) => {
        id += 1;
        const own = id;
        calls.set(own, ({ event, result, error }) => {
          if (event !== undefined)
            return onEvent?.(isRecord(event) && "payload" in event ? eventIn(event) : bare(event));
          calls.delete(own);
          if (!isRecord(error)) return resolve({ ok: true, result });
          const { code, message, details } = error;
          const more = details === undefined || details === null ? {} : { details };
          return resolve({ ok: false, code: String(code), message: String(message), ...more });
        });
        const request = { id: own, method: OPERATIONS[operation].rpc, params: input };
        child.spawned.stdin.write(`${JSON.stringify(request)}\n`);
      }),
    restart: async () => {
      await child.stop();
      child = await open();
    },
    close: () => child.stop(),
  };
}

function bare(event: unknown) {
  return isRecord(event) && typeof event.type === "string"
    ? { ...event, type: event.type }
    : { type: "no event", event };
}
