import type { Command } from "commander";
import type { ModelsCatalog } from "../../../contract/catalog.ts";
import { withoutControls } from "../../wire/terminal-text.ts";
import { readConfiguration } from "../configuration.ts";
import { describeHelp } from "../help.ts";
import { writeJson } from "../io.ts";
import { createEmpty } from "../open-runtime.ts";
import { createPaint } from "../paint.ts";
import type { Invocation, ModelOutlook } from "../parts.ts";
import { alignColumns, grouped } from "../plain-text.ts";

/** Declares `rkat models`. */
export function addModelsCommand(program: Command, invocation: Invocation): void {
  const command = program
    .command("models")
    .description("Lists the known models, newest first, with their context window and output limit.")
    .summary("list known models and who has a key")
    .option("--json", "as JSON")
    .action((flags: { readonly json?: boolean }) => listModels(invocation, flags.json === true));
  describeHelp(command, {
    examples: [
      ["rkat models", "what can be asked, and what lacks a key"],
      ["rkat models --json | jq '.providers[].default_model_id'", "for scripts"],
    ],
    notes: [["Other models", "any name a provider knows works: rkat -m PROVIDER/MODEL, rkat -m ollama/llama3.2"]],
  });
}

async function listModels(invocation: Invocation, isJson: boolean): Promise<void> {
  const { io, parts } = invocation;
  const { config } = await readConfiguration(invocation);
  const runtime = await createEmpty(invocation, config);
  try {
    const catalog = await runtime.dispatch("readModels", {});
    if (isJson) return writeJson(io, catalog);
    const { providers } = await parts.inspectModels(config);
    const { bold, dim } = createPaint(io.stdout, io.env);
    for (const row of catalog.providers) {
      io.stdout.write(`${bold(withoutControls(row.provider))}  ${dim(keyNote(row.provider, providers))}\n`);
      io.stdout.write(`${modelLines(row).join("\n")}\n\n`);
    }
    io.stdout.write(`${dim("* is used when only the provider is named.")}\n`);
  } finally {
    await runtime.close();
  }
}

function keyNote(provider: string, outlook: ModelOutlook["providers"]): string {
  const row = outlook.find((one) => one.provider === provider);
  if (row === undefined) return provider === "offline" ? "needs no key" : "";
  return row.hasKey ? `${row.keyVariable} is set` : `set ${row.keyVariable} to use these`;
}

function modelLines({ models, default_model_id }: ModelsCatalog["providers"][number]): readonly string[] {
  const rows = models.map(({ id, display_name, context_window, max_output_tokens }) => [
    id === default_model_id ? " *" : "  ",
    id,
    display_name,
    `${size(context_window).padStart(9)} context`,
    `${size(max_output_tokens).padStart(7)} output`,
  ]);
  return alignColumns(rows);
}

function size(tokens: number | undefined): string {
  return tokens === undefined ? "?" : grouped(tokens);
}
