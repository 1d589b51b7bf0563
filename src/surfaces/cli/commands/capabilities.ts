import type { Command } from "commander";
import type { CapabilityStatus } from "../../../contract/capability.ts";
import { readConfiguration } from "../configuration.ts";
import { describeHelp } from "../help.ts";
import { writeJson } from "../io.ts";
import { createEmpty } from "../open-runtime.ts";
import { createPaint } from "../paint.ts";
import type { Invocation } from "../parts.ts";
import { alignColumns } from "../plain-text.ts";

/** Declares `rkat capabilities`. */
export function addCapabilitiesCommand(program: Command, invocation: Invocation): void {
  const command = program
    .command("capabilities")
    .description("Says what this rkat can do and what was left out.")
    .summary("say what this rkat can do")
    .option("--json", "as JSON")
    .action((flags: { readonly json?: boolean }) => listCapabilities(invocation, flags.json === true));
  describeHelp(command, { examples: [["rkat capabilities", "what is there, and what is not"]] });
}

async function listCapabilities(invocation: Invocation, isJson: boolean): Promise<void> {
  const { io } = invocation;
  const { config } = await readConfiguration(invocation);
  const runtime = await createEmpty(invocation, config);
  try {
    const answer = await runtime.dispatch("readCapabilities", {});
    if (isJson) return writeJson(io, answer);
    const rows = answer.capabilities.map(({ id, description, status }) => ["", id, statusWord(status), description]);
    const { dim } = createPaint(io.stdout, io.env);
    for (const [index, line] of alignColumns(rows).entries()) {
      const isThere = answer.capabilities[index]?.status === "Available";
      io.stdout.write(`${isThere ? line : dim(line)}\n`);
    }
  } finally {
    await runtime.close();
  }
}

function statusWord(status: CapabilityStatus): string {
  if (status === "Available") return "yes";
  return "DisabledByPolicy" in status ? "switched off" : "no";
}
