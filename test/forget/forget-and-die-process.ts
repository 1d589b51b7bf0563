// Forgets a text in a folder and kills itself at one of its calls to what it keeps: before the call, or right after it.
import { join } from "node:path";
import { foldAgent } from "@rkat/core/agent-memory/tiers";
import { createRuntime } from "@rkat/core/create-runtime";
import { CHUNKS_VERSION } from "@rkat/core/recall/chunk";
import { openStore } from "@rkat/node/log/open";
import { openEmbeddedStore } from "@rkat/node/open-runtime";
import { createVault } from "@rkat/node/projections/vault";
import { openMemoryStore } from "@rkat/node/recall-index/open";
import { createTalkingModel, embedder } from "./planted-secrets.ts";

const [folder = "", secret = "", dieAt = "0", moment = "before"] = process.argv.slice(2);
let calls = 0;
let isCounting = false;

const die = (): never => {
  process.kill(process.pid, "SIGKILL");
  throw new Error("a process that is killed goes no further");
};

/** The same, whose every call is counted once forgetting has begun. */
function counted<T extends object>(kept: T): T {
  return new Proxy(kept, {
    get: (target, name) => {
      const value: unknown = Reflect.get(target, name);
      if (typeof value === "object" && value !== null && !(value instanceof AbortSignal)) return counted(value);
      if (typeof value !== "function") return value;
      return (...given: readonly unknown[]) => {
        if (!isCounting) return value.apply(target, given);
        calls += 1;
        const isLast = calls === Number(dieAt);
        if (isLast && moment === "before") die();
        const done: unknown = value.apply(target, given);
        if (!isLast) return done;
        return Promise.resolve(done).then(die);
      };
    },
  });
}

const store = counted(await openEmbeddedStore(folder));
const memory = counted(openMemoryStore({ folder: join(folder, "memory"), version: CHUNKS_VERSION }));
/** As a folder has them: a secret may have been told to an agent. */
const agents = {
  isThere: () => true,
  open: async () => {
    const host = { pid: process.pid, isRunning: () => false };
    const kept = openStore({ folder: join(folder, "agents"), foldRow: foldAgent, host, warn: () => {} });
    return { store: counted(kept), vault: createVault({ folder, warn: () => {} }) };
  },
};
const runtime = createRuntime({
  store,
  agents,
  memory: { store: memory, embedder },
  model: createTalkingModel(),
  compaction: true,
  toolPreset: "none",
  env: {},
});
isCounting = true;
await runtime.dispatch("forget", { query_exact: secret });
process.stdout.write(`${calls}\n`);
await runtime.close();
