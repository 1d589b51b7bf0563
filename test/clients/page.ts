import { connect, RuntimeError } from "rkat/client";

/** What a page does with a server, told as JSON. */
export async function run(url: string, token: string): Promise<string> {
  const client = await connect({ url, token });
  const first = client.createSessionStreaming("Hello from a page");
  const types = [];
  for await (const event of first) types.push(event.type);
  const session = await first.session;
  const replayed = [];
  for await (const { event } of client.subscribe(session.id, { after: 0 })) {
    replayed.push(event.type);
    if (event.type === "run_completed") break;
  }
  const { createdAt } = await client.readSession(session.id);
  const aborting = new AbortController();
  const waiting = session.stream("wait", { signal: aborting.signal });
  for await (const event of waiting) if (event.type === "text_delta") aborting.abort();
  const codes = await Promise.all([
    codeOf(waiting.result),
    codeOf(client.readSession("x")),
    codeOf(connect({ url })),
    codeOf(connect({ command: "rkat-rpc" })),
  ]);
  await client.close();
  return JSON.stringify({ text: session.text, types, replayed, hasTime: Number.isInteger(createdAt), codes });
}

async function codeOf(work: Promise<unknown>): Promise<unknown> {
  try {
    return await work;
  } catch (thrown) {
    return thrown instanceof RuntimeError ? thrown.code : String(thrown);
  }
}
