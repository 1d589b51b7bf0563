// Calls tools in sessions of a folder or a database, one line of stdin each, until it is killed. An empty line closes the runtime.
import { createInterface } from "node:readline";
import { openRuntime } from "@rkat/node/open-runtime";
import { callTool, createCallingModel } from "./calling-model.ts";

const [stateFolder = "", projectRoot = "", store] = process.argv.slice(2);
const runtime = await openRuntime({
  stateFolder,
  store,
  projectRoot,
  model: createCallingModel(),
  toolPreset: "workspace",
  resumeTurns: true,
});
process.stdout.write(`${(await runtime.createSession()).id}\n`);
for await (const line of createInterface({ input: process.stdin })) {
  if (line === "") break;
  const { id, name, args } = JSON.parse(line);
  const answer = await callTool(runtime, id, name, args).catch((error: Error) => ({ error: error.message }));
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
await runtime.close();
process.stdin.destroy();
