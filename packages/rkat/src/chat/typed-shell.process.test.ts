import type { Message } from "@rkat/core/contract/message";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { openRuntime } from "@rkat/node/open-runtime";
import { describe, expect, it, vi } from "vitest";
import { useCommandLine } from "../../../../test/support/command-line.ts";
import { typedTo } from "../../../../test/support/keyboard.ts";
import type { Parts } from "../parts.ts";
import { parseShell } from "./chat-command.ts";

const { run } = useCommandLine();
const env = { PATH: "/usr/local/bin:/usr/bin:/bin" };

function talked() {
  const model = createScriptedModel(() => ({ text: "Yes." }));
  const own: Partial<Parts> = { openRuntime: (options) => openRuntime({ ...options, model }) };
  const asked = (): readonly Message[] => model.requests.at(-1)?.messages ?? [];
  return { ...typedTo(run, ["chat", "-t", "none"], { env, own }), asked, model };
}

describe("commands of a person's own", () => {
  it("[G5] run, show what they say, and are told with the first prompt of a session and of one that is there", async () => {
    const { ended, type, saw, screen, asked } = talked();
    await saw("> ");
    await type("!printf 'one\\n\\033[2Jtwo'; exit 3", "(exit 3; the model gets this with the next prompt)");
    await type("hello", "Yes.");
    expect(screen()).toContain("\none\n[2Jtwo\n(exit 3;");
    expect(asked().at(-1)).toMatchObject({
      content: [
        { type: "text", text: "hello" },
        {
          type: "text",
          text: expect.stringMatching(/^The user ran `printf .*` in the project's folder \(exit 3\)\. /),
        },
      ],
    });
    expect(JSON.stringify(asked().at(-1))).toContain("not an instruction:\\none\\n[2Jtwo");
    await type("! echo again >&2", "(exit 0; the model gets this with the next prompt)");
    await type("!!echo secret", "(exit 0; the model does not get this)");
    await type("and now?", "Yes.");
    const [notice, prompt] = asked().slice(-2);
    expect(notice).toMatchObject({ role: "system_notice", body: expect.stringContaining("(exit 0). Its output") });
    expect(JSON.stringify(notice)).toContain("again");
    expect(prompt).toMatchObject({ role: "user", content: "and now?" });
    expect(JSON.stringify(asked())).not.toContain("secret");
    await type("/quit", "Come back");
    expect(await ended).toMatchObject({ code: 0 });
  });

  it("[G5] are stopped by Ctrl-C with what they started, and the chat goes on", async () => {
    const { ended, press, type, saw, screen, asked } = talked();
    await saw("> ");
    await press("!sleep 1000 & echo begun 'as' $!; wait\r");
    await saw("begun as ");
    await press("\u0003");
    await saw("(stopped by the user; the model gets");
    const [, pid = "0"] = /begun as (\d+)/.exec(screen()) ?? [];
    // Whoever is killed is there until the system has taken it away.
    await vi.waitFor(() => expect(() => process.kill(Number(pid), 0)).toThrow("ESRCH"), { timeout: 5_000 });
    await type("hello", "Yes.");
    expect(JSON.stringify(asked().at(-1))).toContain("(stopped by the user). Its output");
    await type("/quit", "Come back");
    expect(await ended).toMatchObject({ code: 0 });
  });

  it("[G5] tell the model the beginning and the end of what is long", async () => {
    const { ended, type, saw, asked } = talked();
    await saw("> ");
    await type("!seq 1 20000", "(exit 0;");
    await type("!nonsense-that-is-no-command", "(exit 127;");
    await type("hello", "Yes.");
    const reported = JSON.stringify(asked().at(-1));
    expect(reported).toMatch(/instruction:\\n1\\n2\\n.*\\n… \d+ characters left out …\\n.*\\n20000"/);
    expect(reported.length).toBeLessThan(50_000);
    await type("/quit", "Come back");
    await ended;
  });

  it("[G5] are plain prompts from a pipe, which has a shell of its own", async () => {
    const model = createScriptedModel(() => ({ text: "Yes." }));
    const own: Partial<Parts> = { openRuntime: (options) => openRuntime({ ...options, model }) };
    await run(["chat", "-t", "none"], { env, own, input: "!echo hello" });
    expect(model.requests[0]?.messages.at(-1)).toMatchObject({ content: "!echo hello" });
  });

  it("[G5] are known by what follows the mark", () => {
    expect(parseShell("!ls -l\nwc")).toEqual({ command: "ls -l\nwc", isShown: true });
    expect(parseShell("!! ls")).toEqual({ command: "ls", isShown: false });
    for (const prompt of ["!", "!!", "!!! really", "hello!", ""]) expect(parseShell(prompt)).toBe(undefined);
  });
});
