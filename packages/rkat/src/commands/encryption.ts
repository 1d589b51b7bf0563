import { resolve } from "node:path";
import type { Config } from "@rkat/core/config/config-schema";
import { RuntimeError } from "@rkat/core/contract/error";
import { withoutControls } from "@rkat/server/http/terminal-text";
import { Option } from "commander";
import { type Call, type CommandRow, command, print, show } from "../command-row.ts";
import { jsonFlag } from "../flags.ts";
import { grouped } from "../io.ts";
import { readConfiguration } from "../open-runtime.ts";

interface RotateFlags {
  readonly toFile?: string;
  readonly toEnv?: string;
  readonly toCommand?: string;
  readonly json?: boolean;
}

/** `rkat encryption`. */
export const encryptionRows: readonly CommandRow[] = [
  command("encryption", {
    text: "Encrypt stored data with a key: make the key that [encryption] of the configuration names, show what is encrypted with it, and change it.",
  }),
  command("encryption key", {
    text: "Print a new key, which is stored nowhere: without it, data that it encrypts cannot be read again.",
    examples: [["rkat encryption key > ~/.rkat/realm.key", "then chmod 600, and a copy in another place"]],
    run: async ({ invocation, io }) => print(io, (await invocation.parts.encryption()).newRealmKey()),
  }),
  command("encryption status", {
    text: "Show whether this realm is encrypted, by which key, and what is still plain text.",
    flags: () => [jsonFlag()],
    examples: [["rkat encryption status", "does not need the key"]],
    run: printState,
  }),
  command("encryption enable", {
    text: "Encrypt a realm that is plain text: from now on its data is encrypted with the key that [encryption] names. Index and memory are made again, encrypted; older logs, blobs and files stay plain. A new realm under a key is encrypted from the start and does not need this. Stop the realm's servers first: a running server continues to write plain text.",
    flags: () => [jsonFlag()],
    examples: [["rkat encryption enable", "then rkat store copy FROM TO --to-key-file for older data"]],
    notes: [["Exit codes", "0 the realm is encrypted · 2 no key is named · 31 it is encrypted with another key"]],
    run: begin,
  }),
  command("encryption rotate", {
    text: "Change the realm's key: its keys are wrapped with another one, and the data they encrypt is not written again. The configuration names the current key, a flag the next one. Stopped at any point, the realm has the one or the other: run it again. Running servers continue to read, and need the next key to start another session.",
    flags: () => [
      new Option("--to-file <path>", "the file that holds the next key"),
      new Option("--to-env <name>", "the variable that holds the next key"),
      new Option("--to-command <command>", "a command of the shell that prints the next key"),
      jsonFlag(),
    ],
    examples: [["rkat encryption rotate --to-file ~/.rkat/next.key", "then name that file in [encryption]"]],
    notes: [
      ["Exit codes", "0 the realm has the next key · 2 a key is missing or wrong · 31 the keys cannot be written"],
    ],
    run: change,
  }),
];

async function printState(call: Call): Promise<void> {
  const { stateFolder } = call.invocation.place();
  const report = await (await call.invocation.parts.encryption()).inspectSeal(stateFolder);
  const facts = report && { key_id: report.keyId, keys: report.keys, plain_before: report.isPlainBefore };
  show(call, { sealed: report !== undefined, ...facts, problems: report?.problems ?? [] }, () =>
    report === undefined
      ? withoutControls(`Nothing is encrypted in ${stateFolder}.`)
      : [
          `Encrypted with the key ${report.keyId}, which wraps ${grouped(report.keys)} others.`,
          ...(report.isPlainBefore ? [`${PLAIN_BEFORE}.`] : []),
          ...report.problems,
        ].map(withoutControls),
  );
}

/** The note for a realm that was not encrypted from the start. */
export const PLAIN_BEFORE =
  "Older data is still plain text, also in .rkat; rkat store copy FROM TO --to-key-file encrypts all of it";

async function begin(call: Call): Promise<void> {
  const { io, parts, place } = call.invocation;
  const { config, trust } = await readConfiguration(call.invocation);
  if (config.store.url !== undefined)
    throw new RuntimeError("INVALID_PARAMS", "this realm is kept in PostgreSQL: let the database encrypt its disk");
  const { projectRoot, stateFolder } = place();
  trust.requireState(projectRoot, stateFolder);
  const realms = await parts.encryption();
  const wasPlain = await realms.enableEncryption(stateFolder, config.encryption, io.env);
  const done = wasPlain
    ? `New data in ${stateFolder} is encrypted from now on. ${PLAIN_BEFORE}`
    : `${stateFolder} is encrypted with this key`;
  show(call, { enabled: wasPlain }, () => `${withoutControls(done)}.`);
}

async function change(call: Call<RotateFlags>): Promise<void> {
  const { io, parts, place } = call.invocation;
  const { toFile, toEnv, toCommand } = call.flags;
  const { config } = await readConfiguration(call.invocation);
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
  const done = wasChanged ? "The realm has the next key." : "The realm has this key already.";
  show(call, { rotated: wasChanged }, () => `${done} Name it in [encryption] now, in place of the one before.`);
}
