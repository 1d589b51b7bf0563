import { createScriptedModel } from "@rkat/core/providers/scripted";
import { openRuntime } from "@rkat/node/open-runtime";
import { describe, expect, it } from "vitest";
import { useCommandLine } from "../../../../test/support/command-line.ts";
import { typedTo } from "../../../../test/support/keyboard.ts";
import type { Parts } from "../parts.ts";

const { run } = useCommandLine();
const env = { RKAT_MODEL: "offline" };
const chat = (...input: readonly string[]) => run(["chat", "-t", "none"], { env, input: input.join("\n") });

describe("/agents", () => {
  it("[G5] lists who remembers and whom tasks can be handed to, and talks to one", async () => {
    const nobody = await chat("/agents");
    expect(nobody.stdout).toMatch(/^Sub-agents:\n {2}general /);
    expect(nobody.stderr).toContain("\nNo agent has memories yet; /agents NAME starts one.\n");
    const first = await chat("hello", "/agents ada", "My cat is called Heron.", "@memory-status");
    expect(first.stderr).toContain(
      "\nThe next prompt starts a session with ada. ada has no memories yet; rkat agent list shows the agents that do.\n",
    );
    expect(first.stdout).toMatch(/\nagent +ada\nmemories +2\n/);
    expect(first.stderr).toMatch(/\nCome back with: rkat chat --resume \S+ --agent ada\n$/);
    const listed = await chat("/agents");
    expect(listed.stdout).toMatch(/\nada {2}2 memories, just now\n$/);
    expect(listed.stderr).toContain("\n/agents NAME chooses one.\n");
    expect((await chat("/agents ../x")).code).toBe(2);
  });

  it("[G5] lets a person choose", async () => {
    await run(["chat", "-t", "none", "--agent", "ada"], { env, input: "My cat is called Heron." });
    const model = createScriptedModel(() => ({ text: "Heron." }));
    const own: Partial<Parts> = { openRuntime: (options) => openRuntime({ ...options, model }) };
    const { ended, type, saw } = typedTo(run, ["chat", "-t", "none"], { own });
    await saw("> ");
    await type("/agents", "❯ ada  2 memories");
    await type("", "The next prompt starts a session with ada. ada has 2 memories.");
    await type("What is my cat called?", "Heron.");
    expect(JSON.stringify(model.requests[0])).toContain("My cat is called Heron.");
    await type("/quit", "--agent ada");
    expect(await ended).toMatchObject({ code: 0 });
  });

  it("[G5] lets a person choose by number where nothing can be drawn, and takes the number for no prompt", async () => {
    await run(["chat", "-t", "none", "--agent", "ada"], { env, input: "My cat is called Heron." });
    const model = createScriptedModel(() => ({ text: "Heron." }));
    const own: Partial<Parts> = { openRuntime: (options) => openRuntime({ ...options, model }) };
    const { ended, type, saw } = typedTo(run, ["chat", "-t", "none"], { env: { TERM: "dumb" }, own });
    await saw("> ");
    await type("/agents", "Number, or Enter");
    await type("1", "The next prompt starts a session with ada. ada has 2 memories.");
    await type("What is my cat called?", "Heron.");
    await type("/quit", "--agent ada");
    expect(await ended).toMatchObject({ code: 0 });
    expect(model.requests.map(({ messages }) => messages.at(-1))).toMatchObject([
      { content: "What is my cat called?" },
    ]);
  });
});
