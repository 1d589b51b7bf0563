import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { getuid, pid, env as processEnv } from "node:process";
import { createPolicy, judgeCall } from "@rkat/core/permission/judge";
import { createSystemClock } from "@rkat/core/runtime/system-clock";
import { createShellTools, type ShellTools } from "@rkat/core/tools/shell";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { NO_JOBS, toolContext } from "../support/tool-context.ts";

const page = readFileSync(join(import.meta.dirname, "../../docs/security.md"), "utf8");
const wrapper = /^```sh file=\/opt\/rkat-run\/bash\n(.*?)^```$/ms.exec(page)?.[1] ?? "";
const WAIT = { timeout: 20_000, interval: 5 };
const isAble =
  getuid?.() === 0 &&
  existsSync("/usr/bin/setpriv") &&
  /^nobody:.*:65534:65534:/m.test(readFileSync("/etc/passwd", "utf8"));

/** On a machine that must show it, this fails; elsewhere it is left out. */
describe.skipIf(!isAble && processEnv.CI === undefined)(
  "commands as another user (needs root, setpriv and the user nobody)",
  () => {
    let folder: string;
    let shell: ShellTools;
    const open = (program?: string) =>
      createShellTools({
        root: join(folder, "project"),
        clock: createSystemClock(),
        env: { PATH: processEnv.PATH },
        program,
        jobs: NO_JOBS,
      });
    const run = async (command: string, signal = new AbortController().signal) => {
      const tool = shell.tools.find(({ name }) => name === "shell");
      const context = toolContext({ signal, shellEnv: { GIVEN: "yes" } });
      return JSON.parse(String(await tool?.execute({ command }, context)));
    };
    beforeAll(() => {
      folder = mkdtempSync(join(tmpdir(), "rkat-user-"));
      chmodSync(folder, 0o755);
      for (const name of ["project", "realm"]) mkdirSync(join(folder, name));
      chmodSync(join(folder, "realm"), 0o700);
      chmodSync(join(folder, "project"), 0o777);
      writeFileSync(join(folder, "realm/log"), "a session", { mode: 0o600 });
      writeFileSync(
        join(folder, "bash"),
        wrapper.replaceAll("rkat-run", "nobody").replace("--regid=nobody", "--regid=65534"),
        { mode: 0o755 },
      );
      shell = open(join(folder, "bash"));
    });
    afterAll(async () => {
      await shell.close();
      rmSync(folder, { recursive: true });
    });

    it("[H2] a command of the same user reads the server's environment, as the page says", async () => {
      const own = shell;
      shell = open();
      const { stdout } = await run(`test "$PPID" = ${pid} && tr '\\0' '\\n' < /proc/$PPID/environ`);
      await shell.close();
      shell = own;
      expect(stdout).toContain("PATH=");
    });

    it("[H2] the wrapper of the page keeps the environment and the realm from a command", async () => {
      expect(wrapper).toContain("setpriv");
      expect(await run('id -un; echo "$GIVEN" "$HOME"')).toMatchObject({
        exit_code: 0,
        stdout: "nobody\nyes /var/lib/nobody\n",
      });
      expect(await run(`test "$PPID" = ${pid} && cat /proc/$PPID/environ`)).toMatchObject({ exit_code: 1, stdout: "" });
      expect(await run("cat ../realm/log")).toMatchObject({ exit_code: 1, stdout: "" });
    });

    it("[A5] a command of another user is killed when its call is aborted", async () => {
      const turn = new AbortController();
      const killed = run("echo $$ > pid; sleep 1000", turn.signal);
      const child = await vi.waitFor(() => {
        const text = readFileSync(join(folder, "project/pid"), "utf8");
        if (!text.endsWith("\n")) throw new Error("not written yet");
        return Number(text);
      }, WAIT);
      turn.abort();
      await expect(killed).rejects.toThrow("interrupted and killed");
      // A zombie is dead; only its parent has not looked yet.
      const isAlive = () =>
        existsSync(`/proc/${child}/stat`) && !/\) [ZX] /.test(readFileSync(`/proc/${child}/stat`, "utf8"));
      await vi.waitFor(() => expect(isAlive()).toBe(false), WAIT);
    });

    it("[I1] rules read the lines of a wrapper that is called bash", () => {
      const policy = createPolicy(
        [{ from: "user", rules: { allow: ["shell(git status *)"] } }],
        () => "ask",
        "/opt/rkat-run/bash",
      );
      expect(judgeCall(policy, { tool: "shell", args: { command: "git status" }, root: "/p" }).verdict).toBe("allow");
    });
  },
);
