import type { Command } from "commander";
import { jsonFlag } from "../flags.ts";
import { describeHelp } from "../help.ts";
import { alignColumns, writeJson } from "../io.ts";
import { createEmpty, readConfiguration } from "../open-runtime.ts";
import type { Invocation } from "../parts.ts";

/** Declares `rkat access`. */
export function addAccessCommand(program: Command, invocation: Invocation): void {
  const command = program
    .command("access")
    .summary("say who asks, and what it may do")
    .description("Says who asks and what it may do; whoever runs this command may do everything.")
    .addOption(jsonFlag())
    .action((flags: { readonly json?: boolean }) => showAccess(invocation, flags.json === true));
  describeHelp(command, {
    examples: [
      ["rkat access", "what you may do here"],
      ["rkat access --json | jq -r '.scopes[]'", "for scripts"],
    ],
    notes: [["Tokens", "a server answers GET /access with what the token of the request may do; see rkat token"]],
  });
}

async function showAccess(invocation: Invocation, isJson: boolean): Promise<void> {
  const { io } = invocation;
  const { config } = await readConfiguration(invocation);
  const runtime = await createEmpty(invocation, config);
  try {
    const access = await runtime.dispatch("readAccess", {});
    if (isJson) return writeJson(io, access);
    const { name = "you", scopes, labels } = access;
    const pairs = Object.entries(labels).map(([key, value]) => `${key}=${value}`);
    const rows = [
      ["who", name],
      ["may", scopes.join(", ")],
      ["sessions", pairs.length === 0 ? "all" : `those with ${pairs.join(", ")}`],
    ];
    io.stdout.write(`${alignColumns(rows).join("\n")}\n`);
  } finally {
    await runtime.close();
  }
}
