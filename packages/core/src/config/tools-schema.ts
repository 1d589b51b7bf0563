import { z } from "../contract/schema.ts";
import { common, flag, oneOf, TIMER_MS_MAX, text, wait, whole } from "./values.ts";

const absent = z.literal(false, { error: "rkat has no such tools, so set it to false or remove the key" }).optional();
const elsewhere = "of other runtimes of this contract; rkat has no such tools";

export const Tools = z
  .strictObject({
    default_timeout: wait.prefault("600s").meta(common("of one tool call")),
    approval_timeout: wait.prefault("30m").describe("how long a call waits for approval; then it is denied"),
    max_concurrent: whole(1).default(10).describe("calls of one answer that run at once"),
    builtins_enabled: flag
      .default(false)
      .meta(
        common(
          "built-in tools of sessions of servers and the SDK that do not say: time, tasks, patches; a file that says `false` forbids them to all",
          true,
        ),
      ),
    shell_enabled: flag
      .default(false)
      .meta(common("the shell for those; a file that says `false` forbids it to all", true)),
    memory: flag
      .default(true)
      .meta(common("`memory_search` and `search_project_history` for sessions that have tools", false)),
    output_bytes_max: whole(1_024)
      .default(65_536)
      .describe("what of one output the model is shown; the rest stays reachable as a blob"),
    // Written by other runtimes of this contract. Asking for what is not there is refused, not ignored; a schedule
    // is on by default there, so `true` says nothing.
    comms_enabled: absent.describe(elsewhere),
    mob_enabled: absent.describe(elsewhere),
    workgraph_enabled: absent.describe(elsewhere),
    schedule_enabled: flag.optional().describe(elsewhere),
  })
  .transform((tools) => ({
    default_timeout_ms: tools.default_timeout,
    approval_timeout_ms: tools.approval_timeout,
    max_concurrent: tools.max_concurrent,
    builtins_enabled: tools.builtins_enabled,
    shell_enabled: tools.shell_enabled,
    memory: tools.memory,
    output_bytes_max: tools.output_bytes_max,
  }));

export const Shell = z
  .strictObject({
    program: text.optional().describe("without it, bash where there is one, else sh"),
    timeout_secs: z
      .number({ error: "write a number of seconds" })
      .positive({ error: "write a number of seconds above 0" })
      .max(TIMER_MS_MAX / 1_000, { error: "write at most 2147483 seconds" })
      .default(30)
      .describe("of one command"),
    security_mode: oneOf(["unrestricted"])
      .optional()
      .describe("what the shell is: not a sandbox; [security.md](security.md)"),
  })
  .transform((shell) => ({ program: shell.program, timeout_ms: Math.max(1, Math.round(shell.timeout_secs * 1_000)) }));
