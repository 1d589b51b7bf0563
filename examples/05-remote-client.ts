// Sessions that run elsewhere: the same code with a server over HTTP, with one started as a command, and in-process.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createRuntime } from "rkat";
import { type Client, connect, RuntimeError } from "rkat/client";

/** What a program does with a client; it cannot tell where the sessions run. */
async function useClient(client: Client): Promise<readonly string[]> {
  const session = await client.createSession("Remember: the launch is on 12 May at pier 7. What is 2 + 3?", {
    model: "offline",
    budgetLimits: { maxTokens: 10_000, maxToolCalls: 5 },
  });
  const types = [];
  const stream = session.stream("Where is the launch?");
  for await (const event of stream) {
    types.push(event.type);
    if (event.type === "text_delta") process.stdout.write(event.delta);
  }
  console.log();
  assert.match((await stream.result).text, /pier 7/);
  const failure = await client
    .session("no-such-session")
    .turn("Hello")
    .catch((thrown: unknown) => thrown);
  assert(failure instanceof RuntimeError && failure.code === "INVALID_PARAMS");
  await client.close();
  return types;
}

// A server of its own, as `npx rkat serve` starts it, on a free port.
const folder = await mkdtemp(join(tmpdir(), "rkat-remote-"));
const rkat = join(import.meta.dirname, "../packages/rkat/dist/cli.js");
const args = ["serve", "--port", "0", "--json", "--isolated", "--state-root", folder];
const server = spawn(process.execPath, [rkat, ...args], { stdio: ["ignore", "pipe", "ignore"] });
const [line] = await once(server.stdout, "data");
const { url } = JSON.parse(String(line));
const overHttp = await useClient(await connect({ url }));

// Without a command, the package's own rkat-rpc is started; it ends with the client.
const overStdio = await useClient(await connect({ args: ["--isolated", "--state-root", folder] }));

const runtime = createRuntime({ model: "offline" });
const inProcess = await useClient(await connect({ runtime }));
await runtime.close();

const [first, last] = [inProcess[0], inProcess.at(-1)];
assert.deepEqual([first, last], ["run_started", "run_completed"]);
for (const types of [overHttp, overStdio]) assert.deepEqual([types[0], types.at(-1)], [first, last]);

server.kill("SIGTERM");
await once(server, "exit");
await rm(folder, { recursive: true });
