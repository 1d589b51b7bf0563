import { lstat, mkdir, writeFile } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import type { Command } from "commander";
import { RuntimeError } from "../../../contract/error.ts";
import { isErrno, readIfThere } from "../../wire/state-folder.ts";
import { describeHelp } from "../help.ts";
import type { Invocation } from "../parts.ts";
import { configTemplate } from "./config-template.ts";

/** Declares `rkat init`. */
export function addInitCommand(program: Command, invocation: Invocation): void {
  const command = program
    .command("init")
    .description("Writes .rkat/config.toml with every common setting, explained and commented out.")
    .summary("write a commented configuration for this folder")
    .option("-f, --force", "overwrite the file that is there")
    .action((flags: { readonly force?: boolean }) => writeConfiguration(invocation, flags.force === true));
  describeHelp(command, { examples: [["rkat init", "then edit .rkat/config.toml"]] });
}

async function writeConfiguration({ io, parts }: Invocation, isForced: boolean): Promise<void> {
  const path = join(io.cwd, ".rkat", "config.toml");
  const shown = relative(io.cwd, path);
  if ((await readIfThere(join(io.cwd, "rkat.toml"))) !== undefined) {
    throw new RuntimeError("INVALID_PARAMS", "rkat.toml configures this folder already; edit it, or remove it first");
  }
  await writeOnce(path, { shown, isForced, text: configTemplate(await parts.configFileSchema()) });
  io.stdout.write(
    [
      `Wrote ${shown}. Every line is a comment until you need it.`,
      "",
      "Next:",
      "  rkat doctor    see what works already",
      "  rkat demo      watch a session, without a key",
      "",
    ].join("\n"),
  );
}

async function writeOnce(
  path: string,
  { shown, isForced, text }: { readonly shown: string; readonly isForced: boolean; readonly text: string },
): Promise<void> {
  if (isForced) await refuseLinks([dirname(shown), shown], dirname(dirname(path)));
  try {
    // The folder will also hold sessions, which are nobody else's business.
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    await writeFile(path, text, { flag: isForced ? "w" : "wx" });
  } catch (cause) {
    const code = isErrno(cause) ? cause.code : undefined;
    const message =
      code === "EEXIST"
        ? `${shown} is there already; rkat init --force overwrites it`
        : `${shown} cannot be written: ${code ?? "it failed"}; check the folder's permissions`;
    throw new RuntimeError("INVALID_PARAMS", message, { cause });
  }
}

/** What a clone has put in our place may lead to a file of the user's that is overwritten then. */
async function refuseLinks(names: readonly string[], folder: string): Promise<void> {
  for (const name of names) {
    const found = await lstat(join(folder, name)).catch(() => undefined);
    if (found?.isSymbolicLink() !== true) continue;
    throw new RuntimeError("INVALID_PARAMS", `${name} is a link, and is not written through; remove it first`);
  }
}
