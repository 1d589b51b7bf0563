// A process with the same server twice, once with whoever runs it and once without; tells its CPU when asked.
import { join } from "node:path";
import { defaultConfig } from "../src/config/load-config.ts";
import { openRuntime } from "../src/runtime-on-disk.ts";
import { createSystemClock } from "../src/service/system-clock.ts";
import { openRestServer } from "../src/surfaces/rest/serve.ts";
import { createJournal } from "../src/surfaces/wire/journal.ts";
import { createOperator } from "../src/surfaces/wire/operator.ts";

const [folder = "", model = ""] = process.argv.slice(2);
const clock = createSystemClock();
const journal = createJournal({ stream: process.stderr, form: "text", command: "bench", now: clock.now });

async function serve(isWatched: boolean) {
  const stateFolder = join(folder, isWatched ? "watched" : "alone");
  const operator = isWatched ? createOperator({ journal, clock, version: "0.0.0", stateFolder }) : undefined;
  // What is embedded behind turns is measured elsewhere.
  const config = { ...defaultConfig(), features: ["session-store", "session-compaction"] as const };
  const runtime = await openRuntime({
    config: { ...config, features: [...config.features] },
    env: process.env,
    model,
    projectRoot: folder,
    stateFolder,
    ...(operator === undefined ? {} : { observer: operator }),
  });
  const dispatch = operator === undefined ? runtime.dispatch : operator.watchCalls(runtime.dispatch);
  return openRestServer({
    host: "127.0.0.1",
    port: 0,
    allowedHosts: [],
    token: undefined,
    runtime: { ...runtime, dispatch },
    about: { realm: "bench" },
    version: "0.0.0",
    clock,
    log: () => {},
    operator,
  });
}

const [alone, watched] = [await serve(false), await serve(true)];
process.on("message", () => {
  const { user, system } = process.cpuUsage();
  process.send?.({ cpuMs: (user + system) / 1_000 });
});
process.send?.({ alone: alone.url, watched: watched.url });
