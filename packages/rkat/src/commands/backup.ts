import { resolve } from "node:path";
import { ERRORS, invalid } from "@rkat/core/contract/error";
import { nearMiss } from "@rkat/core/text/near-miss";
import { makeStateFolder } from "@rkat/node/config/realm";
import { withoutControls } from "@rkat/server/http/terminal-text";
import { Option } from "commander";
import { type Call, type CommandRow, command } from "../command-row.ts";
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
import type { Invocation, Parts } from "../parts.ts";
import { withBar } from "../progress.ts";

interface RestoreFlags {
  readonly json?: boolean;
  readonly to?: string;
  readonly keyFile?: string;
}

const PAGE = "docs/backup.md";

/** `rkat backup` and `rkat restore`. */
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
  const { io, parts, exitWith } = invocation;
  const meant = nearMiss(place, ["verify", "list"]);
  if (meant !== undefined)
    throw invalid(`did you mean rkat backup ${meant}? For a folder of this name write ./${place}`);
  await refuseDatabase(invocation, `back it up with pg_dump or pg_basebackup, as ${PAGE} shows`);
  const { stateFolder } = invocation.place();
  const report = await withProgress(io, (options) => parts.backUpStore(stateFolder, resolve(io.cwd, place), options));
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

async function verifyPlace({ io, parts, exitWith }: Invocation, place: string, isJson: boolean): Promise<void> {
  const report = await withProgress(io, (options) => parts.verifyBackup(resolve(io.cwd, place), options));
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
  const { io, parts } = invocation;
  const backups = await parts.listBackups(invocation.place().stateFolder);
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
  const { io, parts, exitWith } = invocation;
  if (to === undefined) {
    await refuseDatabase(invocation, "restore with --to FOLDER, and rkat store copy brings that to the database");
    // A slip in the back-up's name makes no realm.
    if (await isThere(resolve(io.cwd, place))) await makeStateFolder(invocation.place().stateFolder);
  }
  const config = (await readConfiguration(invocation).catch(() => undefined))?.config;
  const encryption = keyFile === undefined ? config?.encryption : { key_file: resolve(io.cwd, keyFile) };
  const folder = to === undefined ? invocation.place().stateFolder : resolve(io.cwd, to);
  const report = await withProgress(
    io,
    (options) => parts.restoreBackup(resolve(io.cwd, place), folder, { ...options, encryption, env: io.env }),
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
  work: (options: NonNullable<Parameters<Parts["backUpStore"]>[2]>) => Promise<T>,
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
