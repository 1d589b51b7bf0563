import type { Token } from "@rkat/core/contract/caller";
import { Scope } from "@rkat/core/contract/caller";
import { invalid } from "@rkat/core/contract/error";
import { parseDuration, spellDuration } from "@rkat/core/contract/input";
import { defined } from "@rkat/core/contract/json";
import type { TokenStore } from "@rkat/core/ports/store";
import { makeStateFolder, realmNameIn } from "@rkat/node/config/realm";
import { createToken, openTokens, revokeToken } from "@rkat/server/http/token-files";
import { InvalidArgumentError, Option } from "commander";
import { type Call, type CommandRow, command, show } from "../command-row.ts";
import { jsonFlag, type Pair, pairs } from "../flags.ts";
import { table, writeJson } from "../io.ts";
import { loadHere } from "../open-runtime.ts";
import type { Invocation } from "../parts.ts";

export const tokenRows: readonly CommandRow[] = [
  command("token", {
    text: "Create, list and revoke the tokens of this project's servers: clients over HTTP send them. Once a token exists, the servers refuse requests without one; running servers see every change.",
  }),
  command("token create", {
    text: "Create a token and print its secret, once: only its hash is stored.",
    flags: () => [
      new Option("--name <name>", "its name in logs and audits").makeOptionMandatory(),
      new Option("--scope <names>", `what it may do, such as run,read: ${Scope.options.join(", ")}`).argParser(scopes),
      pairs("--label <key=value>", "it sees only sessions with this label; may be repeated"),
      new Option("--max-cost <amount/day>", "what its turns may cost a day, such as 5/day").argParser(costADay),
      new Option("--expires <time>", "when it ends, such as 30d; without it, never").argParser(future),
      new Option("--rate <n/unit>", "how many requests it may send, such as 60/min").argParser(rateOf),
      jsonFlag(),
    ],
    examples: [
      ["rkat token create --name web --scope run,read", "for a client that runs turns"],
      [
        "rkat token create --name team-a --scope run,read --label team=a --rate 60/min",
        "that sees only its own sessions",
      ],
      ["rkat token create --name ops --scope admin --expires 30d", "that may do everything, for a month"],
    ],
    run: make,
  }),
  command("token list", {
    text: "List the tokens of this realm; their secrets are not stored.",
    flags: () => [jsonFlag()],
    examples: [["rkat token list", "names, scopes and limits"]],
    run: async (call) => {
      const rows = await withTokens(call.invocation, async (store) => store.read());
      const head = ["NAME", "SCOPES", "LABELS", "LIMITS", "EXPIRES"];
      show(call, { tokens: rows.map(({ sha256: _hash, ...row }) => row) }, () =>
        rows.length === 0
          ? "There are no tokens; rkat token create makes one."
          : table(call.paint, head, rows.map(columnsOf)),
      );
    },
  }),
  command("token revoke TOKEN", {
    text: "Revoke a token: its open connections end within a second, and the turns it runs are interrupted.",
    usage: "NAME [options]",
    flags: () => [jsonFlag()],
    examples: [["rkat token revoke web", "also while it listens"]],
    run: async (call) => {
      const name = call.arg("token") ?? "";
      await withTokens(call.invocation, (store) => revokeToken(store, name));
      show(call, { name, revoked: true }, () => `Revoked ${name}.`);
    },
  }),
];

interface CreateFlags {
  readonly json?: boolean;
  readonly name: string;
  readonly scope?: readonly Scope[];
  readonly label: readonly Pair[];
  readonly maxCost?: number;
  readonly expires?: number;
  readonly rate?: Token["rate"];
}

async function make({ invocation, io, flags }: Call<CreateFlags>): Promise<void> {
  const { name, scope, label, maxCost, expires, rate } = flags;
  if (scope === undefined) throw invalid(`--scope: say what it may do, such as --scope run,read`);
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
    ...defined({ max_cost_per_day: maxCost, rate }),
  };
  const secret = await withTokens(invocation, (store) => createToken(store, token));
  if (flags.json) return writeJson(io, { ...token, token: secret });
  io.stdout.write(`${secret}\n`);
  io.stderr.write(`Token ${name} (${scope.join(", ")}) is shown this once; send it as Authorization: Bearer TOKEN.\n`);
}

function columnsOf({ name, scopes, labels, max_cost_per_day, rate, expires_at = "never" }: Token): readonly string[] {
  const limits = [
    ...(max_cost_per_day === undefined ? [] : [`${max_cost_per_day}/day`]),
    ...(rate === undefined ? [] : [`${rate.requests} requests/${spellDuration(rate.per_ms)}`]),
  ];
  const own = Object.entries(labels).map(([key, value]) => `${key}=${value}`);
  return [name, scopes.join(","), own.join(",") || "all", limits.join(", ") || "none", expires_at];
}

async function withTokens<T>(invocation: Invocation, use: (store: TokenStore) => Promise<T>): Promise<T> {
  const { place, warnOnce: warn } = invocation;
  const { config } = await loadHere(invocation);
  const realm = realmNameIn(place(), config.store);
  const store = await openTokens(place().stateFolder, { config, realm, warn }, async (...given) =>
    (await import("@rkat/postgres")).openDatabaseTokens(...given),
  );
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
