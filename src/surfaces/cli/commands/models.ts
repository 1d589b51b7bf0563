import type { Command } from "commander";
import type { CapabilityStatus, CatalogModel, ModelsCatalog } from "../../../contract/capability.ts";
import { RuntimeError } from "../../../contract/error.ts";
import { withoutControls } from "../../wire/terminal-text.ts";
import { describeHelp, holdCommands } from "../help.ts";
import { alignColumns, createPaint, grouped, writeJson } from "../io.ts";
import { createEmpty, readConfiguration, withSessions } from "../open-runtime.ts";
import type { Invocation, ModelOutlook } from "../parts.ts";

/** Declares `rkat models`. */
export function addModelsCommand(program: Command, invocation: Invocation): void {
  const command = program
    .command("models")
    .description("Lists the known models, newest first, with their context window, output limit and price.")
    .summary("list known models and who has a key")
    .option("--json", "as JSON")
    .action((flags: { readonly json?: boolean }) => listModels(invocation, flags.json === true));
  describeHelp(command, {
    examples: [
      ["rkat models", "what can be asked, and what lacks a key"],
      ["rkat models --json | jq '.providers[].default_model_id'", "for scripts"],
    ],
    notes: [
      ["Other models", "any name a provider knows works: rkat -m PROVIDER/MODEL, rkat -m ollama/llama3.2"],
      ["Prices", "US dollars for a million tokens in / out; one that is unknown is set under [prices.MODEL]"],
    ],
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

/** Whether a provider can be asked as things are, in a few words. */
export function keyNote(provider: string, outlook: ModelOutlook["providers"]): string {
  const row = outlook.find((one) => one.provider === provider);
  if (row === undefined) return provider === "offline" ? "needs no key" : "";
  return row.hasKey ? `${row.keyVariable} is set` : `set ${row.keyVariable} to use these`;
}

function modelLines({ models, default_model_id }: ModelsCatalog["providers"][number]): readonly string[] {
  const rows = models.map(({ id, display_name, context_window, max_output_tokens, prices }) => [
    id === default_model_id ? " *" : "  ",
    id,
    display_name,
    `${size(context_window).padStart(9)} context`,
    `${size(max_output_tokens).padStart(7)} output`,
    priceText(prices),
  ]);
  return alignColumns(rows);
}

/** What a million tokens cost, in and out. */
export function priceText(prices: CatalogModel["prices"]): string {
  return prices === undefined ? "" : `$${prices.input} / $${prices.output}`;
}

function size(tokens: number | undefined): string {
  return tokens === undefined ? "?" : grouped(tokens);
}

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

/** Declares `rkat blob`. */
export function addBlobCommand(program: Command, invocation: Invocation): void {
  const blob = holdCommands(program.command("blob"))
    .summary("read what is kept by reference")
    .description("Reads blobs, such as the full text of a tool output that was cut.");
  const get = blob
    .command("get")
    .summary("write a blob to stdout")
    .description("Writes the bytes of a blob to stdout.")
    .argument("<blob>")
    .usage("ID")
    .action((blobId: string) => writeBlob(invocation, blobId));
  describeHelp(get, { examples: [["rkat blob get sha256:… > output.txt", "all of what was cut"]] });
  describeHelp(blob, {
    examples: [["rkat blob get sha256:… > output.txt", "the id stands in the message that was cut"]],
  });
}

async function writeBlob(invocation: Invocation, blobId: string): Promise<void> {
  const { stdout } = invocation.io;
  await withSessions(invocation, async ({ runtime }) => {
    const { media_type: mediaType, data: base64 } = await runtime.dispatch("readBlob", { blob_id: blobId });
    const data = Buffer.from(base64, "base64");
    if (!stdout.isTerminal) return stdout.write(data);
    if (mediaType.startsWith("text/")) return stdout.write(withoutControls(new TextDecoder().decode(data)));
    throw new RuntimeError("INVALID_PARAMS", `${blobId} is ${mediaType}, which no terminal shows; write it to a file`);
  });
}
