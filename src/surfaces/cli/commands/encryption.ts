import { resolve } from "node:path";
import type { Command } from "commander";
import type { Config } from "../../../config/load-config.ts";
import { RuntimeError } from "../../../contract/error.ts";
import { withoutControls } from "../../wire/terminal-text.ts";
import { jsonFlag } from "../flags.ts";
import { describeHelp, holdCommands } from "../help.ts";
import { grouped, writeJson } from "../io.ts";
import { readConfiguration } from "../open-runtime.ts";
import type { Invocation } from "../parts.ts";

interface RotateFlags {
  readonly toFile?: string;
  readonly toEnv?: string;
  readonly toCommand?: string;
  readonly json?: boolean;
}

/** Declares `rkat encryption` and what it holds. */
export function addEncryptionCommand(program: Command, invocation: Invocation): void {
  const encryption = holdCommands(program.command("encryption"))
    .summary("seal what is kept with a key")
    .description(
      "Makes the key that [encryption] of the configuration names, says what is sealed with it, and changes it.",
    );
  const key = encryption
    .command("key")
    .summary("print a new key")
    .description("Prints a new key and keeps it nowhere: without it, nobody reads again what is sealed with it.")
    .action(async () => invocation.io.stdout.write(`${(await invocation.parts.encryption()).newRealmKey()}\n`));
  const status = encryption
    .command("status")
    .summary("say whether what is kept here is sealed")
    .description("Says whether what this realm keeps is sealed, by which key, and what is still plain.")
    .addOption(jsonFlag())
    .action((flags: { readonly json?: boolean }) => tell(invocation, flags.json === true));
  const enable = encryption
    .command("enable")
    .summary("encrypt a realm that is plain")
    .description(
      "Encrypts what is said in this realm from now on, with the key that [encryption] names. Index and memory are made again, encrypted; older logs, blobs and files stay plain. A new realm under a key is encrypted from the start and does not need this. Stop the realm's servers first: one that runs goes on writing plain text.",
    )
    .addOption(jsonFlag())
    .action((flags: { readonly json?: boolean }) => begin(invocation, flags.json === true));
  const rotate = encryption
    .command("rotate")
    .summary("change the realm's key")
    .description(
      "Wraps the keys of this realm with another key; what they sealed is not written anew. The configuration names the key of now, a flag the next one. Stopped at any point, the realm has the one or the other: run it again. Servers that run go on reading, and need the next key to begin another session.",
    )
    .option("--to-file <path>", "the file that holds the next key")
    .option("--to-env <name>", "the variable that holds the next key")
    .option("--to-command <command>", "a command of the shell that prints the next key")
    .addOption(jsonFlag())
    .action((flags: RotateFlags) => change(invocation, flags));
  describeHelp(key, {
    examples: [["rkat encryption key > ~/.rkat/realm.key", "then chmod 600, and a copy in another place"]],
  });
  describeHelp(status, { examples: [["rkat encryption status", "the key itself is not asked for"]] });
  describeHelp(enable, {
    examples: [["rkat encryption enable", "then rkat store copy FROM TO --to-key-file for what was there before"]],
    notes: [["Exit codes", "0 the realm is encrypted · 2 no key is named · 31 it is encrypted with another key"]],
  });
  describeHelp(rotate, {
    examples: [["rkat encryption rotate --to-file ~/.rkat/next.key", "then name that file in [encryption]"]],
    notes: [
      ["Exit codes", "0 the realm has the next key · 2 a key is missing or wrong · 31 the keys cannot be written"],
    ],
  });
  describeHelp(encryption, {
    examples: [
      ["rkat encryption key > ~/.rkat/realm.key", "name it in [encryption] as key_file"],
      ["rkat encryption enable", "encrypt a realm that is there already"],
      ["rkat encryption rotate --to-file ~/.rkat/next.key", "change it"],
    ],
  });
}

async function tell({ io, parts, place }: Invocation, isJson: boolean): Promise<void> {
  const report = await (await parts.encryption()).inspectSeal(place().stateFolder);
  if (isJson) {
    const told = report && { key_id: report.keyId, keys: report.keys, plain_before: report.isPlainBefore };
    return writeJson(io, { sealed: report !== undefined, ...told, problems: report?.problems ?? [] });
  }
  const lines =
    report === undefined
      ? [`Nothing is sealed in ${place().stateFolder}.`]
      : [
          `Sealed by the key ${report.keyId}, which wraps ${grouped(report.keys)} others.`,
          ...(report.isPlainBefore ? [`${PLAIN_BEFORE}.`] : []),
          ...report.problems,
        ];
  io.stdout.write(`${lines.map(withoutControls).join("\n")}\n`);
}

/** What is told of a realm that was not sealed from its beginning. */
export const PLAIN_BEFORE =
  "What was kept before is still plain, also in .rkat: rkat store copy FROM TO --to-key-file seals all of it";

async function begin(invocation: Invocation, isJson: boolean): Promise<void> {
  const { io, parts, place } = invocation;
  const { config, trust } = await readConfiguration(invocation);
  if (config.store.url !== undefined)
    throw new RuntimeError("INVALID_PARAMS", "this realm is kept in PostgreSQL: let the database encrypt its disk");
  const { projectRoot, stateFolder } = place();
  trust.requireState(projectRoot, stateFolder);
  const realms = await parts.encryption();
  const wasPlain = await realms.enableEncryption(stateFolder, config.encryption, io.env);
  if (isJson) return writeJson(io, { enabled: wasPlain });
  const done = wasPlain
    ? `What is said in ${stateFolder} from now on is encrypted. ${PLAIN_BEFORE}`
    : `${stateFolder} is encrypted with this key`;
  io.stdout.write(`${withoutControls(done)}.\n`);
}

async function change(invocation: Invocation, { toFile, toEnv, toCommand, json }: RotateFlags): Promise<void> {
  const { io, parts, place } = invocation;
  const { config } = await readConfiguration(invocation);
  const given = { key_file: toFile && resolve(toFile), key_env: toEnv, key_command: toCommand };
  const named = Object.entries(given).filter(([, value]) => value !== undefined);
  if (named.length !== 1)
    throw new RuntimeError("INVALID_PARAMS", "name the next key once: --to-file, --to-env or --to-command");
  const to: Config["encryption"] = Object.fromEntries(named);
  const { stateFolder } = place();
  const wasChanged = await (await parts.encryption()).rotateRealmKey(stateFolder, {
    from: config.encryption,
    to,
    env: io.env,
  });
  if (json) return writeJson(io, { rotated: wasChanged });
  const done = wasChanged ? "The realm has the next key." : "The realm has this key already.";
  io.stdout.write(`${done} Name it in [encryption] now, in place of the one before.\n`);
}
