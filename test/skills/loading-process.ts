import { createScriptedModel } from "@rkat/core/providers/scripted";
import { openRuntime } from "@rkat/node/open-runtime";
import { SKILL, scriptFor } from "./resumed-skill.ts";

// Runs turns of a session that loads a skill, and kills itself, as no handler can notice, at the first event of a type.
const [stateFolder = "", dieAt = ""] = process.argv.slice(2);
const runtime = await openRuntime({
  stateFolder,
  model: createScriptedModel(scriptFor),
  compaction: { recentTurnBudget: 1 },
  toolPreset: "safe",
  skills: [SKILL],
  env: {},
});
const { id } = await runtime.createSession();
process.stdout.write(`${id}\n`);
for (const prompt of ["Load it.", "One.", "Two.", "compact"]) {
  const session = runtime.session(id);
  if (prompt === "compact") {
    await session.compact();
    if (dieAt === "compaction_completed") process.kill(process.pid, "SIGKILL");
    continue;
  }
  const stream = session.stream(prompt);
  for await (const event of stream) if (event.type === dieAt) process.kill(process.pid, "SIGKILL");
  await stream.result;
}
await runtime.close();
