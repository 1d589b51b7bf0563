import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import { useCommandLine } from "../../../../test/support/command-line.ts";
import { typedTo } from "../../../../test/support/keyboard.ts";

const line = useCommandLine();
const { run } = line;
const env = { RKAT_MODEL: "offline" };
const chat = (...input: readonly string[]) => run(["chat", "-t", "none"], { env, input: input.join("\n") });

const CONFIGURATION = `[providers.lab]
base_url = "http://127.0.0.1:1/v1"
[self_hosted.servers.gpu]
base_url = "http://127.0.0.1:1"
[self_hosted.models.heron]
server = "gpu"
[profiles.summarizer]
model = "offline"
`;
beforeEach(() => writeFileSync(join(line.cwd, "rkat.toml"), CONFIGURATION));

describe("/model", () => {
  it("[G5] lists what there is with window, price and key, those that can be asked first, from a pipe", async () => {
    const { code, stdout, stderr } = await run(["--trust", "chat"], { env, input: "/model" });
    expect(code).toBe(0);
    expect(stdout).toMatch(
      /^gpt-5\.5 +openai · 1,050,000 context · \$\S+ \/ \$\S+ · set OPENAI_API_KEY to use these$/m,
    );
    expect(stdout).toMatch(/^offline \* +offline · 128,000 context .*needs no key$/m);
    expect(stdout).toMatch(/^heron +self_hosted/m);
    expect(stdout.indexOf("offline *")).toBeLessThan(stdout.indexOf("gpt-5.5"));
    expect(stderr).toContain("\nCurrent model: offline. /model NAME switches to another.\n");
  });

  it("[G5] takes a known name, a dated one, a profile, and any name behind who serves it", async () => {
    const names = [
      "gpt-5.5",
      "gpt-5.5-2026-04-23",
      "claude-sonnet-5-5@20260101",
      "heron",
      "summarizer",
      "ollama/llama3.2:3b",
      "lab/any/thing",
      "gpu/any",
      "openai/gpt-9",
    ];
    const { code, stderr } = await run(["--trust", "chat"], {
      env,
      input: names.map((name) => `/model ${name}`).join("\n"),
    });
    expect(code).toBe(0);
    expect(stderr.match(/^The next turn uses .*\.$/gm)).toEqual(names.map((name) => `The next turn uses ${name}.`));
  });

  it("[G5] refuses a name that nobody serves, with the nearest", async () => {
    expect(await chat("/model claude-opsu-5-5")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining(
        "Error: no model claude-opsu-5-5 is known; did you mean claude-opus-5-5? For a new model: /model PROVIDER/claude-opsu-5-5\n",
      ),
    });
    expect((await chat("/model heorn\u001b[2J")).stderr).toContain("Error: no model heorn[2J is known; /model lists");
    expect((await chat("/model opnai/gpt-5")).stderr).toContain(
      "Error: there is no provider opnai; did you mean openai/gpt-5?\n",
    );
    expect((await chat("/model openai/")).stderr).toContain("no model openai/ is known");
  });

  it("[G5] lets a person choose; a slip leaves the talk as it was", async () => {
    const { ended, press, pressed, type, saw } = typedTo(run, ["chat", "-t", "none"], { env });
    await saw("> ");
    await type("/model nobody", "no model nobody is known");
    await type("/model", "Current model");
    await pressed("offline", "❯ offline *");
    await type("", "The next turn uses offline.");
    await type("/model", "Current model");
    await press("no such model");
    await saw("no matches");
    await type("", "> ");
    await type("My name is Ada.", "Ada.\r\n");
    await type("/quit", "Come back with");
    expect(await ended).toMatchObject({ code: 0 });
  });
});
