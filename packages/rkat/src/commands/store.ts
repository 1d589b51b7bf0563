import { resolve } from "node:path";
import { RuntimeError } from "@rkat/core/contract/error";
import type { CopyReport } from "@rkat/core/transfer/store-copy";
import { requireRealmId } from "@rkat/node/config/realm";
import { Option } from "commander";
import { type Call, type CommandRow, command } from "../command-row.ts";
import { jsonFlag } from "../flags.ts";
import { counted, grouped, writeJson, writeWarnings } from "../io.ts";
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

/** `rkat store`. */
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
  { io, parts, exitWith }: Invocation,
  { from, to }: { readonly from: string; readonly to: string },
  flags: CopyFlags,
): Promise<void> {
  const { realm, toRealm = realm, dryRun, forceConfig, fromKeyFile, toKeyFile } = flags;
  const keyIn = (path: string | undefined) => (path === undefined ? {} : { key_file: resolve(path) });
  const [isFromUrl, isToUrl] = [from, to].map((place) => URL_LIKE.test(place));
  if (realm !== undefined && !isFromUrl && !isToUrl)
    throw new RuntimeError("INVALID_PARAMS", "--realm names a realm of a database, and both places are folders");
  if (flags.toRealm !== undefined && !isToUrl)
    throw new RuntimeError("INVALID_PARAMS", "--to-realm names a realm of a database, and TO is a folder");
  for (const name of [realm, toRealm]) if (name !== undefined) requireRealmId(name);
  const report = await withBar(
    io,
    (bar) =>
      parts.copyStore(
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
  const { sessions, agents, blobs, configuration } = report;
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
