// Runs a turn in the store of the environment, under Bun or Deno, and prints the sessions that are there, or what failed.
import { openRuntime, RuntimeError } from "rkat";

const { STATE_FOLDER: stateFolder, STORE: store } = process.env;
const place = stateFolder === undefined ? { store } : { stateFolder };
const print = (value: unknown): unknown => process.stdout.write(`${JSON.stringify(value)}\n`);
try {
  const runtime = await openRuntime({ ...place, env: {}, model: "offline" });
  await runtime.createSession("My name is Ada.");
  print({ sessions: (await runtime.listSessions()).length });
  await runtime.close();
} catch (thrown) {
  print({ failure: thrown instanceof RuntimeError ? thrown.message : String(thrown) });
}
process.exit();
