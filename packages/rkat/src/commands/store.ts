import { resolve } from "node:path";
import type { Config } from "@rkat/core/config/config-schema";
import { ERRORS, invalid } from "@rkat/core/contract/error";
import { nearMiss } from "@rkat/core/text/near-miss";
import { withoutControls } from "@rkat/core/text/terminal-text";
import type { CopyReport } from "@rkat/core/transfer/store-copy";
import { makeStateFolder, requireRealmId } from "@rkat/node/config/realm";
import type { backUpStore } from "@rkat/node/store-places";
import { Option } from "commander";
import { type Call, type CommandRow, command, print, show } from "../command-row.ts";
import { jsonFlag } from "../flags.ts";
import {
  ageOf,
  alignColumns,
  bytesText,
  counted,
  createPaint,
  grouped,
  type Io,
  writeJson,
  writeWarnings,
} from "../io.ts";
import { isThere, readConfiguration } from "../open-runtime.ts";
import type { Invocation } from "../parts.ts";
import { withBar } from "../progress.ts";

interface CopyFlags {
  readonly realm?: string;
  readonly toRealm?: string;
  readonly dryRun?: boolean;
  readonly forceConfig?: boolean;
  readonly fromKeyFile?: string;
  readonly toKeyFile?: string;
  readonly json?: boolean;
}

export const storeRows: readonly CommandRow[] = [
  command("store", {
    text: "Copy stored data to another folder or database.",
  }),
  command("store copy FROM TO", {
    text: "Copy everything from one place to another: sessions, agents, blobs and the realm's configuration, which are read back and compared. A place is a state folder or a database. What is at the target already is compared and continued, never overwritten: stopped at any point, run it again. Memory is not copied; it is made anew at the first search.",
    flags: () => [
      new Option("--to-realm <name>", "the realm of the database TO, where it is not that of --realm"),
      new Option("--dry-run", "compare, and print what would be copied; nothing is written"),
      new Option("--force-config", "replace a configuration at TO that differs"),
      new Option("--from-key-file <path>", "the key that FROM is encrypted with"),
      new Option("--to-key-file <path>", "the key that TO is encrypted with; a new folder is encrypted by it"),
      jsonFlag(),
    ],
    examples: [
      ["rkat store copy .rkat/realms/NAME postgres://rkat@db/rkat", "a folder to a database; rkat doctor names it"],
      ["rkat store copy postgres://rkat@db/rkat ./back-up", "and back; a new folder is made"],
      ["rkat store copy ./a postgres://rkat@db/rkat --realm team --dry-run", "a realm of its own; nothing is written"],
      ["rkat store copy ./plain ./sealed --to-key-file realm.key", "all of it, encrypted"],
    ],
    notes: [
      ["Realms", "A database holds several: --realm names one, and without it `default` is meant. A folder is one."],
      ["Passwords", "Leave it out of the URL and set PGPASSWORD: others see what a command was started with."],
      [
        "Exit codes",
        "0 TO has everything of FROM · 1 something was left as it is or is being written, and is named ·",
        "2 a place is wrong · 31 a place cannot be read or written; run it again to continue",
      ],
    ],
    run: ({ invocation, flags, arg }: Call<CopyFlags>) =>
      copyKept(invocation, { from: arg("from") ?? "", to: arg("to") ?? "" }, flags),
  }),
];

async function copyKept(
  { io, exitWith }: Invocation,
  { from, to }: { readonly from: string; readonly to: string },
  flags: CopyFlags,
): Promise<void> {
  const { realm, toRealm = realm, dryRun, forceConfig, fromKeyFile, toKeyFile } = flags;
  const keyIn = (path: string | undefined) => (path === undefined ? {} : { key_file: resolve(path) });
  const [isFromUrl, isToUrl] = [from, to].map((place) => URL_LIKE.test(place));
  if (realm !== undefined && !isFromUrl && !isToUrl)
    throw invalid("--realm names a realm of a database, and both places are folders");
  if (flags.toRealm !== undefined && !isToUrl)
    throw invalid("--to-realm names a realm of a database, and TO is a folder");
  for (const name of [realm, toRealm]) if (name !== undefined) requireRealmId(name);
  const { copyStore } = await import("@rkat/node/store-places");
  const report = await withBar(
    io,
    (bar) =>
      copyStore(
        { place: from, realm },
        { place: to, realm: toRealm },
        {
          dryRun,
          forceConfig,
          fromEncryption: keyIn(fromKeyFile),
          toEncryption: keyIn(toKeyFile),
          signal: io.interrupt,
          env: io.env,
          warn: (sentence) => {
            bar.clear();
            writeWarnings(io, [sentence]);
          },
          progress: ({ what, done, total }) => bar.show(what, done, total),
        },
      ),
    "what was copied stays; run it again to continue",
  );
  exitWith(report.ok ? 0 : 1);
  if (flags.json) return writeJson(io, report);
  writeWarnings(io, [...report.problems, ...report.behind]);
  io.stdout.write(`${describe(report)}\n`);
}

const URL_LIKE = /^[a-z][a-z0-9+.-]*:\/\//i;

function describe(report: CopyReport): string {
  const { sessions, agents, schedules, blobs, configuration } = report;
  const logs = (noun: string, { total, copied, continued, equal, entries }: CopyReport["sessions"]): string => {
    const parts = [
      copied === 0 ? "" : `${grouped(copied)} copied`,
      continued === 0 ? "" : `${grouped(continued)} continued`,
      equal === 0 ? "" : `${grouped(equal)} there already`,
    ].filter((part) => part !== "");
    const left = total - copied - continued - equal;
    if (left > 0) parts.push(`${grouped(left)} left as they are`);
    const added = entries === 0 ? "" : ` (${counted(entries, "entry")})`;
    return `${counted(total, noun)}${parts.length === 0 ? "" : `: ${parts.join(", ")}`}${added}`;
  };
  const lines = [
    logs("session", sessions),
    ...(agents.total === 0 ? [] : [logs("agent", agents)]),
    ...(schedules.total === 0 ? [] : [logs("schedule", schedules)]),
    ...(blobs.total === 0
      ? []
      : [`${counted(blobs.total, "blob")}: ${grouped(blobs.copied)} copied, ${grouped(blobs.equal)} there already`]),
    ...(configuration === "none" ? [] : [`configuration: ${CONFIGURATION[configuration]}`]),
  ];
  return [...lines, verdictOf(report)].join("\n");
}

function verdictOf({ ok: isWhole, dry_run: isDry }: CopyReport): string {
  if (isDry) return "Nothing was written: this is what a copy would do.";
  if (!isWhole) return "Something of FROM is not at TO; it is named above.";
  return "Everything of FROM is at TO and was compared entry by entry. Memory is made anew at the first search.";
}

const CONFIGURATION = { copied: "copied", equal: "there already", kept: "left as it is" } as const;

interface RotateFlags {
  readonly toFile?: string;
  readonly toEnv?: string;
  readonly toCommand?: string;
  readonly json?: boolean;
}

export const encryptionRows: readonly CommandRow[] = [
  command("encryption", {
    text: "Encrypt stored data with a key: make the key that [encryption] of the configuration names, show what is encrypted with it, and change it.",
  }),
  command("encryption key", {
    text: "Print a new key, which is stored nowhere: without it, data that it encrypts cannot be read again.",
    examples: [["rkat encryption key > ~/.rkat/realm.key", "then chmod 600, and a copy in another place"]],
    run: async ({ io }) => print(io, (await import("@rkat/node/sealed-realm")).newRealmKey()),
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
  const report = await (await import("@rkat/node/sealed-realm")).inspectSeal(stateFolder);
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
  const { io, place } = call.invocation;
  const { config, trust } = await readConfiguration(call.invocation);
  if (config.store.url !== undefined)
    throw invalid("this realm is kept in PostgreSQL: let the database encrypt its disk");
  const { projectRoot, stateFolder } = place();
  trust.requireState(projectRoot, stateFolder);
  const realms = await import("@rkat/node/sealed-realm");
  const wasPlain = await realms.enableEncryption(stateFolder, config.encryption, io.env);
  const done = wasPlain
    ? `New data in ${stateFolder} is encrypted from now on. ${PLAIN_BEFORE}`
    : `${stateFolder} is encrypted with this key`;
  show(call, { enabled: wasPlain }, () => `${withoutControls(done)}.`);
}

async function change(call: Call<RotateFlags>): Promise<void> {
  const { io, place } = call.invocation;
  const { toFile, toEnv, toCommand } = call.flags;
  const { config } = await readConfiguration(call.invocation);
  const given = { key_file: toFile && resolve(toFile), key_env: toEnv, key_command: toCommand };
  const named = Object.entries(given).filter(([, value]) => value !== undefined);
  if (named.length !== 1) throw invalid("name the next key once: --to-file, --to-env or --to-command");
  const to: Config["encryption"] = Object.fromEntries(named);
  const { stateFolder } = place();
  const wasChanged = await (await import("@rkat/node/sealed-realm")).rotateRealmKey(stateFolder, {
    from: config.encryption,
    to,
    env: io.env,
  });
  const done = wasChanged ? "The realm has the next key." : "The realm has this key already.";
  show(call, { rotated: wasChanged }, () => `${done} Name it in [encryption] now, in place of the one before.`);
}

interface RestoreFlags {
  readonly json?: boolean;
  readonly to?: string;
  readonly keyFile?: string;
}

const PAGE = "docs/backup.md";

export const backupRows: readonly CommandRow[] = [
  command("backup PLACE", {
    text: "Back up all stored data to a folder, or to one file NAME.tar, while servers write to it: logs, blobs, agents' files, configuration and tokens. A folder is brought up to date by the next back-up: what was added is copied, what is gone or was rewritten is dropped. What was there before counts until the new one is whole.",
    usage: "DIR|FILE.tar [options]\n  rkat backup verify|list",
    flags: () => [jsonFlag()],
    examples: [
      ["rkat backup /mnt/backups/main", "everything at first, then only what is new"],
      ["rkat backup main.tar -r main", "everything in one file, of a realm by its name"],
      ["rkat backup verify /mnt/backups/main", "read all of it and check it"],
      ["rkat restore /mnt/backups/main", "bring it back"],
    ],
    notes: [
      ["Not taken", "What is made anew from the rest: the index, memory, checkpoints, files for people."],
      ["Databases", `A realm in PostgreSQL is backed up by its own tools; ${PAGE} has the commands.`],
      [
        "Exit codes",
        "0 everything is there · 1 something was left out or is damaged in the realm, and is named ·",
        "2 a place is wrong or in use · 31 a place cannot be read or written; what was there still counts",
      ],
    ],
    run: ({ invocation, flags, arg }) => backUp(invocation, arg("place") ?? "", flags.json === true),
  }),
  command("backup verify PLACE", {
    text: "Read a back-up and check all of it, every file and every record of its logs; nothing is changed.",
    usage: "DIR|FILE.tar [options]",
    flags: () => [jsonFlag()],
    examples: [["rkat backup verify /mnt/backups/main", "before it is needed"]],
    notes: [["Exit codes", "0 it is whole · 2 there is no back-up · 31 something is missing or damaged, and is named"]],
    run: ({ invocation, flags, arg }) => verifyPlace(invocation, arg("place") ?? "", flags.json === true),
  }),
  command("backup list", {
    text: "List the back-ups made of this realm: where, when, and whether each is still there.",
    flags: () => [jsonFlag()],
    examples: [["rkat backup list", "back-ups that may still hold what was erased since"]],
    run: ({ invocation, flags }) => listPlaces(invocation, flags.json === true),
  }),
  command("restore PLACE", {
    text: "Restore a back-up; the realm's folder, or the one of --to, must be new or empty. It is made beside it, checked, and takes its name when it is whole: stopped at any point, run it again.",
    usage: "DIR|FILE.tar [options]",
    flags: () => [
      new Option("--to <folder>", "the state folder to make, instead of that of the realm"),
      new Option("--key-file <path>", "the key of an encrypted back-up, instead of that of [encryption]"),
      jsonFlag(),
    ],
    examples: [
      ["rkat restore /mnt/backups/main", "to the realm of this folder"],
      ["rkat restore main.tar -r main", "to a realm by its name"],
      ["rkat restore main.tar --to ./look", "to look at, beside the realm"],
      ["rkat restore main.tar --key-file old.key", "made before rkat encryption rotate"],
    ],
    notes: [
      ["Databases", "Restore to a folder, then rkat store copy FOLDER postgres://USER@HOST/DATABASE."],
      ["Trust", "What config.toml wants beyond settings needs rkat trust, as in any new folder."],
      [
        "Exit codes",
        "0 it is back and whole · 1 it is back, with the damage that the realm had ·",
        "2 a place is wrong or not empty · 31 a place cannot be read or written; run it again to continue",
      ],
    ],
    run: ({ invocation, flags, arg }: Call<RestoreFlags>) => bringBack(invocation, arg("place") ?? "", flags),
  }),
];

async function backUp(invocation: Invocation, place: string, isJson: boolean): Promise<void> {
  const { io, exitWith } = invocation;
  const meant = nearMiss(place, ["verify", "list"]);
  if (meant !== undefined)
    throw invalid(`did you mean rkat backup ${meant}? For a folder of this name write ./${place}`);
  await refuseDatabase(invocation, `back it up with pg_dump or pg_basebackup, as ${PAGE} shows`);
  const { stateFolder } = invocation.place();
  const places = await import("@rkat/node/store-places");
  const report = await withProgress(io, (options) => places.backUpStore(stateFolder, resolve(io.cwd, place), options));
  exitWith(report.ok ? 0 : 1);
  if (isJson) return writeJson(io, report);
  writeWarnings(io, report.problems);
  const { files, bytes, copied, dropped } = report;
  const added = copied.files === 0 ? "nothing was new" : `${grouped(copied.files)} copied (${bytesText(copied.bytes)})`;
  const gone = dropped === 0 ? "" : `, ${grouped(dropped)} dropped`;
  io.stdout.write(`${counted(files, "file")}, ${bytesText(bytes)}: ${added}${gone}\n`);
  const verdict = report.ok ? "Everything of the realm is in" : "All but what is named above is in";
  io.stdout.write(`${verdict} ${withoutControls(report.place)}, as of ${timeText(report.at_ms)}.\n`);
}

async function verifyPlace({ io, exitWith }: Invocation, place: string, isJson: boolean): Promise<void> {
  const { verifyBackup } = await import("@rkat/node/store-places");
  const report = await withProgress(io, (options) => verifyBackup(resolve(io.cwd, place), options));
  const { problems, leftovers } = report;
  const isSound = problems.length === 0;
  exitWith(isSound ? 0 : ERRORS.SESSION_STORE_ERROR.exit);
  if (isJson) return writeJson(io, { ok: isSound, ...report });
  writeWarnings(io, problems);
  if (leftovers > 0) writeWarnings(io, [`${counted(leftovers, "file")} of a back-up that was stopped; back up again`]);
  const { green, red } = createPaint(io.stdout, io.env);
  const held = [
    counted(report.files, "file"),
    `${counted(report.records, "record")} of ${counted(report.sessions, "session")}`,
    ...(report.agents === 0 ? [] : [counted(report.agents, "agent")]),
    ...(report.blobs === 0 ? [] : [counted(report.blobs, "blob")]),
    bytesText(report.bytes),
  ].join(", ");
  const verdict = isSound ? `whole, as of ${timeText(report.at_ms)}` : counted(problems.length, "problem");
  io.stdout.write(`${isSound ? green("✓") : red("✗")} ${held}: ${verdict}\n`);
}

async function listPlaces(invocation: Invocation, isJson: boolean): Promise<void> {
  const { io } = invocation;
  const backups = await (await import("@rkat/node/store-places")).listBackups(invocation.place().stateFolder);
  if (isJson) return writeJson(io, { backups });
  if (backups.length === 0) {
    io.stdout.write("No back-up was made of this realm; rkat backup DIR makes one.\n");
    return;
  }
  const rows = backups.map(({ place, at_ms, state, why }) => [
    ageOf(Math.floor(at_ms / 1_000), Date.now()),
    state,
    place,
    why === undefined ? "" : `(${why})`,
  ]);
  for (const line of alignColumns(rows)) io.stdout.write(`${line}\n`);
}

async function bringBack(
  invocation: Invocation,
  place: string,
  { to, keyFile, json: isJson }: RestoreFlags,
): Promise<void> {
  const { io, exitWith } = invocation;
  if (to === undefined) {
    await refuseDatabase(invocation, "restore with --to FOLDER, and rkat store copy brings that to the database");
    // A slip in the back-up's name makes no realm.
    if (await isThere(resolve(io.cwd, place))) await makeStateFolder(invocation.place().stateFolder);
  }
  const config = (await readConfiguration(invocation).catch(() => undefined))?.config;
  const encryption = keyFile === undefined ? config?.encryption : { key_file: resolve(io.cwd, keyFile) };
  const folder = to === undefined ? invocation.place().stateFolder : resolve(io.cwd, to);
  const { restoreBackup } = await import("@rkat/node/store-places");
  const report = await withProgress(
    io,
    (options) => restoreBackup(resolve(io.cwd, place), folder, { ...options, encryption, env: io.env }),
    "what was brought stays; run it again, with --key-file where the back-up is encrypted with another key",
  );
  const problems = report.verified?.problems ?? [];
  exitWith(problems.length === 0 ? 0 : 1);
  if (isJson) return writeJson(io, { ok: problems.length === 0, ...report });
  writeWarnings(io, problems);
  const resumed = report.resumed === 0 ? "" : ` (${grouped(report.resumed)} were there already)`;
  io.stdout.write(`${counted(report.files, "file")}, ${bytesText(report.bytes)}${resumed}\n`);
  const damage = problems.length === 0 ? "and was checked" : "with the damage that the realm had, named above";
  const what = `The realm as of ${timeText(report.at_ms)} is in ${withoutControls(report.to)}, ${damage}.`;
  io.stdout.write(`${what} Memory is made anew at the first search.\n`);
}

/** A configuration that cannot be read says nothing of a database; what the folder keeps is safe without it. */
async function refuseDatabase(invocation: Invocation, instead: string): Promise<void> {
  const loaded = await readConfiguration(invocation).catch(() => undefined);
  if (loaded?.config.store.url !== undefined) throw invalid(`this realm is kept in PostgreSQL: ${instead}`);
  const { projectRoot, stateFolder } = invocation.place();
  loaded?.trust.requireState(projectRoot, stateFolder);
}

const KILO = 1_000;

function withProgress<T>(
  io: Io,
  work: (options: NonNullable<Parameters<typeof backUpStore>[2]>) => Promise<T>,
  stays?: string,
): Promise<T> {
  const kilo = (bytes: number): number => Math.round(bytes / KILO);
  return withBar(
    io,
    (bar) =>
      work({
        signal: io.interrupt,
        progress: (done, total) => bar.show("kB", kilo(done), total === undefined ? undefined : kilo(total)),
      }),
    stays,
  );
}

function timeText(atMs: number): string {
  return new Date(atMs).toISOString();
}
