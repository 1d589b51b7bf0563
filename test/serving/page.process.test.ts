import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { runBlock } from "../support/run-block.ts";

const page = readFileSync(join(import.meta.dirname, "../../docs/serving.md"), "utf8");
const [agent = "", server = "", route = ""] = [...page.matchAll(/^```ts\n([\s\S]*?)^```$/gm)].map(
  ([, block = ""]) => block,
);

it("[S1] docs/serving.md: its module is served by the command", async () => {
  const serve = "rkat serve --app ./agent.ts --watch --port 8080 &";
  const wait = "until curl -s http://127.0.0.1:8080/health; do sleep 0.1; done";
  const ask = `curl -s http://127.0.0.1:8080/sessions -H "Authorization: Bearer $RKAT_TOKEN"`;
  const text = `export RKAT_TOKEN=0123456789abcdef\ncat > agent.ts <<'END'\n${agent}END\n${serve}\n${wait}\n${ask}\n`;
  const { code, output } = await runBlock("sh", text);
  expect(code, output).toBe(0);
  expect(output).toContain('{"sessions":[]');
}, 90_000);

it("[S1] docs/serving.md: its server and its handler run as written", async () => {
  const listening = await runBlock("ts", server);
  expect(listening.code, listening.output).toBe(0);
  expect(listening.output).toMatch(/^http:\/\/127\.0\.0\.1:\d+\n$/);
  const asked = `
const ask = (cookie: string) => handler(new Request("https://app.example/api/agent/access", { headers: { cookie } }));
console.log((await ask("")).status, await (await ask("user=ada")).text());
process.exit();
`;
  const { code, output } = await runBlock("ts", `${route}${asked}`);
  expect(code, output).toBe(0);
  expect(output).toBe('401 {"name":"ada","scopes":["read","run","approve"],"labels":{"user":"ada"}}\n');
}, 90_000);
