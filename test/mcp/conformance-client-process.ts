import { AskUser, type McpAddress } from "@rkat/core/ports/tool";
import { createSystemClock } from "@rkat/core/runtime/system-clock";
import { openConnection } from "@rkat/core/tools/mcp/connection";
import { logInAt } from "@rkat/node/mcp-login";

// The client that the official suite runs: it logs in if the server wants that, lists the tools and calls them.
const server: McpAddress = { name: "suite", url: process.argv.at(-1) ?? "" };
const { toolCalls } = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? "{}");
const { signal } = new AbortController();
let login: string | undefined;
const logins = {
  read: () => login,
  write: (_: McpAddress, made: string | undefined) => {
    login = made;
  },
};
const browse = async (address: string): Promise<void> => {
  const { headers } = await fetch(address, { redirect: "manual" });
  await fetch(headers.get("location") ?? "");
};
const logIn = () =>
  logInAt(server, {
    logins,
    env: {},
    signal,
    show: (address) => void browse(address),
    paste: () => new Promise(() => {}),
  });

const work = async (): Promise<void> => {
  const place = { env: {}, root: "/", clock: createSystemClock(), logins };
  const connection = await openConnection(server, place, signal);
  try {
    // `as`: the suite's tools are described as such.
    const listed = (await connection.list(signal)) as readonly { name: string }[];
    const calls = toolCalls ?? listed.map(({ name }) => ({ name, arguments: { a: 5, b: 3 } }));
    for (const call of calls) {
      const by = { sessionId: "suite", effectId: `suite:1:${call.name}`, signal, asksWithinMs: 60_000 };
      let said = await connection.call(call.name, call.arguments, by);
      while (said instanceof AskUser) {
        const { resuming, question } = said;
        const fields = Object.keys(Object(question.schema.properties)).map((name) => [name, true]);
        const answer = { action: "accept" as const, content: Object.fromEntries(fields) };
        said = await connection.call(call.name, call.arguments, { ...by, answered: { answer, resuming } });
      }
    }
  } finally {
    await connection.close();
  }
};

await logIn();
await work().catch(async (thrown: unknown) => {
  // As a person does who is told to log in, once.
  if (!String(thrown).includes("rkat mcp login")) throw thrown;
  await logIn();
  await work();
});
