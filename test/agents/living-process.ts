import { openRuntimeOf } from "./open-life.ts";

// Adds memories to an agent until it has as many as asked for, and says each number once it is acknowledged.
const [folder = "", total = "0"] = process.argv.slice(2);
process.stdout.on("error", () => process.exit()); // Nobody listens any more.
const { operations, close } = openRuntimeOf(folder);
let { count } = await operations.readAgentStatus({ agent: "ada" }, {});
process.stdout.write(`has ${count}\n`);
while (count < Number(total)) {
  ({ count } = await operations.remember({ agent: "ada", content: `Memory ${count + 1}.` }, {}));
  process.stdout.write(`added ${count}\n`);
}
await close();
process.stdout.write("done\n");
