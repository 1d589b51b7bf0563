// Runs a turn that hands out tasks, in a folder, and kills itself at one of its calls to what it keeps; or answers a question.

import { createRuntime } from "@rkat/core/create-runtime";
import { openEmbeddedStore } from "@rkat/node/open-runtime";
import { createPlanModel } from "../support/plan-model.ts";
import { LOOK, TREE, WIPE } from "./handed-tree.ts";

const [folder = "", dieAt = "0", moment = "before", session = "", approval = ""] = process.argv.slice(2);
let calls = 0;

const die = (): never => {
  process.kill(process.pid, "SIGKILL");
  throw new Error("a process that is killed goes no further");
};

/** The same, whose every call is counted. */
function counted<T extends object>(kept: T): T {
  return new Proxy(kept, {
    get: (target, name) => {
      const value: unknown = Reflect.get(target, name);
      if (typeof value === "object" && value !== null && !(value instanceof AbortSignal)) return counted(value);
      if (typeof value !== "function") return value;
      return (...given: readonly unknown[]) => {
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

const store = await openEmbeddedStore(folder);
const runtime = createRuntime({
  store: session === "" ? counted(store) : store,
  model: createPlanModel(),
  tools: [LOOK, WIPE],
  toolPreset: "safe",
  env: {},
});
if (session === "") {
  const budget_limits = { max_tokens: 100_000, max_tool_calls: 1_000 };
  await runtime.dispatch("createSession", { prompt: TREE, enable_agents: true, budget_limits, labels: { root: "1" } });
} else {
  const going: Promise<unknown>[] = [];
  const answer = { session_id: session, approval_id: approval, decision: "allow" };
  await runtime.dispatch("answerApproval", answer, { background: (turn) => void going.push(turn) });
  await Promise.all(going);
}
process.stdout.write(`${calls}\n`);
await runtime.close();
