import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { useCommandLine } from "./support/command-line.ts";
import { openAiResponsesWire } from "./wire/openai-responses.ts";
import { listOf } from "./wire/scenario.ts";
import { openWireServer } from "./wire/server.ts";

const OPAQUE = `gAAAAAB${"c2VjcmV0".repeat(400)}`;
const TALK = "All of this was said while the kettle boiled and the rain went on. ".repeat(6);
const USAGE = { input: 100, output: 10 };
const line = useCommandLine();

const answer = (text: string) => ({ kind: "answer" as const, scenario: { text: [text], usage: USAGE } });
const ownItem = { kind: "answer" as const, scenario: { compaction: { opaque: OPAQUE }, usage: USAGE } };

describe("rkat with native = true", () => {
  it("[C6] [C11] keeps and sends OpenAI's item, says whose it is and how large, and shows it nowhere", async () => {
    const server = await openWireServer(openAiResponsesWire);
    onTestFinished(() => server.close());
    const { env: keys, model } = openAiResponsesWire.settings(server.url);
    const env = { ...keys, RKAT_MODEL: model, NO_COLOR: "1" };
    const settings =
      'recent_turn_budget = 1\nmax_summary_tokens = 200\nnative = true\n\n[providers.openai]\napi = "responses"\n';
    writeFileSync(join(line.cwd, "rkat.toml"), `[compaction]\n${settings}`);
    const run = async (...args: readonly string[]): Promise<string> => {
      const { code, stdout, stderr } = await line.run(args, { env });
      expect({ args, code, stderr }).toMatchObject({ args, code: 0 });
      return `${stdout}${stderr}`;
    };
    const said: string[] = [];
    server.reply(
      answer(`Noted. ${TALK}`),
      answer(`Noted. ${TALK}`),
      answer("Builds are fine."),
      ownItem,
      answer("Yes."),
    );
    said.push(await run("run", `Build 1 is fine. ${TALK}`));
    said.push(await run("run", "--resume", "last", `Build 2 is fine. ${TALK}`));
    said.push(await run("compact", "run", "last"));
    said.push(await run("run", "--resume", "last", "--verbose", "And build 3?"));
    const sent = listOf(server.requests.at(-1)?.body.input);
    expect(sent.filter(({ type }) => String(type) === "compaction")).toHaveLength(1);
    const listed = await run("compact", "list", "last");
    expect(listed).toMatch(/NATIVE ITEM +STATE\n.* openai, 3\.3 KB +stands\n$/);
    const shown = await run("compact", "show", "last");
    const sentence = `item of openai, 3.3 KB, sent to ${model} in the place of the summary; of the cost, 100 tokens in / 10 out`;
    expect(shown).toContain(sentence);
    said.push(
      listed,
      shown,
      await run("compact", "list", "last", "--json"),
      await run("session", "show", "last", "--json"),
    );
    expect(said.join("\n")).not.toContain(OPAQUE.slice(0, 40));
  });
});
