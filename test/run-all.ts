// What `npm test` runs after the build. The checks use one core for a minute: the tests run beside them.
import { spawn } from "node:child_process";

/** Resolves with the exit code and, unless it was inherited, the output. */
function run(args: readonly string[], stdio: "inherit" | "pipe"): Promise<{ code: number; output: string }> {
  const child = spawn("npm", ["run", "--silent", ...args], { stdio: ["ignore", stdio, stdio] });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream?.on("data", (data) => (output += data));
  return new Promise((resolve) => child.on("close", (code) => resolve({ code: code ?? 1, output })));
}

async function checksAndExamples(): Promise<{ code: number; output: string }> {
  const check = await run(["check"], "pipe");
  const examples = await run(["examples"], "pipe");
  return { code: check.code || examples.code, output: check.output + examples.output };
}

const [beside, tests] = await Promise.all([checksAndExamples(), run(["test:quick"], "inherit")]);
process.stdout.write(beside.output);
process.exitCode = beside.code || tests.code;
