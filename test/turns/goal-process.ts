// Works towards a goal in a folder until it is killed: at the append or the model call that its arguments count, or by its check.
import { createRuntime } from "@rkat/core/create-runtime";
import type { Store } from "@rkat/core/ports/store";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { openEmbeddedStore } from "@rkat/node/open-runtime";
import { createFastClock } from "../support/fast-clock.ts";

type Point = "before append" | "after append" | "in model call";

/** Kills the process that runs it where the file `die` has the number of the check. */
const COMMAND =
  'echo check >> checks; test "$(wc -l < checks)" -eq "$(cat die)" && kill -9 $PPID; test "$(wc -l < work)" -ge 3';

/** A runtime whose model adds a line to a file in each turn. */
export async function openWorker(folder: string, pass: (point: Point) => void = () => {}) {
  const kept = await openEmbeddedStore(folder);
  const append: Store["log"]["append"] = async (...given) => {
    pass("before append");
    const seq = await kept.log.append(...given);
    pass("after append");
    return seq;
  };
  const model = createScriptedModel(({ messages }) => {
    pass("in model call");
    if (messages.at(-1)?.role === "tool_results") return { text: "One more." };
    const turn = messages.filter(({ role }) => role === "user" || role === "system_notice").length;
    return { calls: [{ name: "shell", args: { command: `echo ${turn} >> work` } }] };
  });
  const store = { ...kept, log: { ...kept.log, append } };
  const here = { projectRoot: folder, toolPreset: "full", resumeTurns: true } as const;
  return { runtime: createRuntime({ store, model, clock: createFastClock(), ...here }), kept };
}

if (import.meta.main) {
  const [folder = "", session_id = "", at, number] = process.argv.slice(2);
  let left = Number(number);
  const { runtime } = await openWorker(folder, (point) => {
    if (point === at) left -= 1;
    if (left === 0) process.kill(process.pid, "SIGKILL");
  });
  const goal = { until: { command: COMMAND } };
  await runtime.dispatch("startTurn", { session_id, prompt: "Add three lines.", goal });
  await runtime.close();
}
