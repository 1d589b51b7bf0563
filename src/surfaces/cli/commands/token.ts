import { type Command, InvalidArgumentError, Option } from "commander";
import { Scope } from "../../../contract/caller.ts";
import { RuntimeError } from "../../../contract/error.ts";
import { parseDuration, spellDuration } from "../../../contract/input.ts";
import type { Token } from "../../../contract/token.ts";
import type { TokenStore } from "../../../ports/token-store.ts";
import { makeStateFolder, realmNameIn } from "../../wire/realm.ts";
import { createToken, openTokens, revokeToken } from "../../wire/token-files.ts";
import { jsonFlag, type Pair, pairs } from "../flags.ts";
import { describeHelp, holdCommands } from "../help.ts";
import { alignColumns, writeJson } from "../io.ts";
import { loadHere } from "../open-runtime.ts";
import type { Invocation } from "../parts.ts";

/** Declares `rkat token`. */
export function addTokenCommand(program: Command, invocation: Invocation): void {
  const token = holdCommands(program.command("token"))
    .summary("let others use this project's servers")
    .description(
      "Makes, lists and revokes the tokens that clients of this realm's servers over HTTP send. As soon as one was made, nobody is let in without; servers that run see every change.",
    );
  const create = token
    .command("create")
    .summary("make a token")
    .description("Makes a token and prints its secret, once: only its hash is kept.")
    .requiredOption("--name <name>", "how logs and audits call it")
    .addOption(
      new Option("--scope <names>", `what it may do, such as run,read: ${Scope.options.join(", ")}`).argParser(scopes),
    )
    .addOption(pairs("--label <key=value>", "only sessions with this label are there for it; may be repeated"))
    .addOption(
      new Option("--max-cost <amount/day>", "what its turns may cost a day, such as 5/day").argParser(costADay),
    )
    .addOption(new Option("--expires <time>", "when it ends, such as 30d; without it, never").argParser(future))
    .addOption(new Option("--rate <n/unit>", "how often it may ask, such as 60/min").argParser(rateOf))
    .addOption(jsonFlag())
    .action((flags: CreateFlags) => make(invocation, flags));
  const list = token
    .command("list")
    .summary("show the tokens")
    .description("Shows the tokens of this realm; their secrets are nowhere.")
    .addOption(jsonFlag())
    .action((flags: JsonFlags) => show(invocation, flags));
  const revoke = token
    .command("revoke")
    .summary("take a token away")
    .description("Takes a token away: what it has open ends within a second, and turns it runs are interrupted.")
    .argument("<name>")
    .usage("NAME [options]")
    .addOption(jsonFlag())
    .action((name: string, flags: JsonFlags) => takeAway(invocation, name, flags));
  describeHelp(create, {
    examples: [
      ["rkat token create --name web --scope run,read", "for a client that runs turns"],
      [
        "rkat token create --name team-a --scope run,read --label team=a --rate 60/min",
        "that sees its own sessions alone",
      ],
      ["rkat token create --name ops --scope admin --expires 30d", "that may do everything, for a month"],
    ],
  });
  describeHelp(list, { examples: [["rkat token list", "who may ask, and for what"]] });
  describeHelp(revoke, { examples: [["rkat token revoke web", "also while it listens"]] });
  describeHelp(token, {
    examples: [
      ["rkat token create --name web --scope run,read", "the secret is shown once"],
      ["rkat token revoke web", "servers that run obey at once"],
    ],
  });
}

interface JsonFlags {
  readonly json?: boolean;
}

interface CreateFlags extends JsonFlags {
  readonly name: string;
  readonly scope?: readonly Scope[];
  readonly label: readonly Pair[];
  readonly maxCost?: number;
  readonly expires?: number;
  readonly rate?: Token["rate"];
}

async function make(invocation: Invocation, flags: CreateFlags): Promise<void> {
  const { name, scope, label, maxCost, expires, rate } = flags;
  if (scope === undefined) {
    throw new RuntimeError("INVALID_PARAMS", `--scope: say what it may do, such as --scope run,read`);
  }
  const { stateFolder, projectRoot } = invocation.place();
  (await loadHere(invocation)).trust.requireState(projectRoot, stateFolder);
  await makeStateFolder(stateFolder);
  const nowMs = Date.now();
  const token: Omit<Token, "sha256"> = {
    name,
    scopes: [...scope],
    labels: Object.fromEntries(label),
    created_at: new Date(nowMs).toISOString(),
    ...(expires === undefined ? {} : { expires_at: new Date(nowMs + expires).toISOString() }),
    ...(maxCost === undefined ? {} : { max_cost_per_day: maxCost }),
    ...(rate === undefined ? {} : { rate }),
  };
  const secret = await withTokens(invocation, (store) => createToken(store, token));
  const { io } = invocation;
  if (flags.json) return writeJson(io, { ...token, token: secret });
  io.stdout.write(`${secret}\n`);
  io.stderr.write(`Token ${name} (${scope.join(", ")}) is shown this once; send it as Authorization: Bearer TOKEN.\n`);
}

async function show(invocation: Invocation, { json }: JsonFlags): Promise<void> {
  const { io } = invocation;
  const rows = await withTokens(invocation, async (store) => store.read());
  if (json) return writeJson(io, { tokens: rows.map(({ sha256: _hash, ...row }) => row) });
  if (rows.length === 0) return void io.stdout.write("There are no tokens; rkat token create makes one.\n");
  const head = ["NAME", "SCOPES", "LABELS", "LIMITS", "EXPIRES"];
  const lines = alignColumns([head, ...rows.map(columnsOf)]);
  io.stdout.write(`${lines.join("\n")}\n`);
}

function columnsOf({ name, scopes, labels, max_cost_per_day, rate, expires_at = "never" }: Token): readonly string[] {
  const limits = [
    ...(max_cost_per_day === undefined ? [] : [`${max_cost_per_day}/day`]),
    ...(rate === undefined ? [] : [`${rate.requests} requests/${spellDuration(rate.per_ms)}`]),
  ];
  const own = Object.entries(labels).map(([key, value]) => `${key}=${value}`);
  return [name, scopes.join(","), own.join(",") || "all", limits.join(", ") || "none", expires_at];
}

async function takeAway(invocation: Invocation, name: string, { json }: JsonFlags): Promise<void> {
  const { io } = invocation;
  await withTokens(invocation, (store) => revokeToken(store, name));
  if (json) writeJson(io, { name, revoked: true });
  else io.stdout.write(`Revoked ${name}.\n`);
}

async function withTokens<T>(invocation: Invocation, use: (store: TokenStore) => Promise<T>): Promise<T> {
  const { parts, place, warnOnce: warn } = invocation;
  const { config } = await loadHere(invocation);
  const realm = realmNameIn(place(), config.store);
  const store = await openTokens(place().stateFolder, { config, realm, warn }, parts.openDatabaseTokens);
  try {
    return await use(store);
  } finally {
    await store.close();
  }
}

function scopes(text: string): readonly Scope[] {
  const names = text.split(",").map((name) => name.trim());
  return [...new Set(names)].map((name) => {
    const parsed = Scope.safeParse(name);
    if (parsed.success) return parsed.data;
    throw new InvalidArgumentError(`Write some of ${Scope.options.join(", ")}, with commas between them.`);
  });
}

function costADay(text: string): number {
  const [, amount] = /^(\d{1,9}(?:\.\d{1,6})?)\/day$/.exec(text) ?? [];
  if (Number(amount) > 0) return Number(amount);
  throw new InvalidArgumentError("Write it like 5/day or 0.50/day.");
}

const EXPIRES_MS_MAX = 100 * 365 * 86_400_000;

function future(text: string): number {
  const ms = parseDuration(text) ?? 0;
  if (ms > 0 && ms <= EXPIRES_MS_MAX) return ms;
  throw new InvalidArgumentError("Write a duration like 12h or 30d.");
}

const UNIT_MS = { s: 1_000, sec: 1_000, min: 60_000, h: 3_600_000, hour: 3_600_000, day: 86_400_000 } as const;

function rateOf(text: string): Token["rate"] {
  const [, count, unit = ""] = /^(\d{1,9})\/([a-z]+)$/.exec(text) ?? [];
  const known = Object.entries(UNIT_MS).find(([name]) => name === unit);
  if (Number(count) > 0 && known !== undefined) return { requests: Number(count), per_ms: known[1] };
  throw new InvalidArgumentError("Write it like 60/min or 5/s.");
}
