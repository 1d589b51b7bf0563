// Imports a file into a folder, telling its parent how far it is; it is killed on the way.
import { createReadStream } from "node:fs";
import { setImmediate } from "node:timers/promises";
import { createRuntime } from "@rkat/core/create-runtime";
import type { Dispatch } from "@rkat/core/runtime/dispatch";
import { createSystemClock } from "@rkat/core/runtime/system-clock";
import { importFile } from "@rkat/core/transfer/session-lines";
import { openEmbeddedStore } from "@rkat/node/open-runtime";

const [folder = "", path = ""] = process.argv.slice(2);
const store = await openEmbeddedStore(folder);
const { append } = store.log;
const reported: typeof store = {
  ...store,
  log: {
    ...store.log,
    append: async (...given) => {
      process.stdout.write("appending\n");
      await setImmediate();
      return append(...given);
    },
  },
};
const runtime = createRuntime({ model: "offline", store: reported, env: {} });
const dispatch: Dispatch = runtime.dispatch;
const { signal } = new AbortController();
const { id } = await importFile({
  ...{ dispatch, signal, name: path, clock: createSystemClock() },
  open: () => createReadStream(path),
  progress: () => {},
});
process.stdout.write(`imported ${id}\n`);
await runtime.close();
