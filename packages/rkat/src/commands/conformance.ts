import { existsSync } from "node:fs";
import { resolve } from "node:path";
import type { ConformanceOptions, Report } from "@rkat/conformance/conformance";
import { invalid } from "@rkat/core/contract/error";
import { Option } from "commander";
import { type Call, command } from "../command-row.ts";
import { jsonFlag, repeated, wholeFrom } from "../flags.ts";
import { alignColumns, counted, createPaint, grouped, type Io, oneLine, writeJson } from "../io.ts";
import type { Invocation } from "../parts.ts";

interface Flags {
  readonly rpc?: string;
  readonly rest?: string;
  readonly mcp?: string;
  readonly mcpUrl?: string;
  readonly token?: string;
  readonly modelPort?: number;
  readonly only: readonly string[];
  readonly list?: boolean;
  readonly json?: boolean;
}

/** Where the models of the scenarios listen for a server that is started by hand. */
const MODEL_PORT = 8_082;
const PORT_MAX = 65_535;

const others = (...names: readonly string[]) => names as string[]; // Commander asks for a list it may write to.

export const conformanceRow = command("conformance", {
  text: "Check that every surface, or a server, keeps the contract: the same scenarios must give the same results, events and error codes. It uses its own models and does not touch the project.",
  flags: () => [
    new Option("--rpc <command>", "a server of JSON-RPC on stdin and stdout, as it is started").conflicts(
      others("rest", "mcp", "mcpUrl"),
    ),
    new Option("--rest <url>", "a server of REST that is running").conflicts(others("mcp", "mcpUrl")),
    new Option("--mcp <command>", "a server of MCP on stdin and stdout, as it is started").conflicts("mcpUrl"),
    new Option("--mcp-url <url>", "a server of MCP over HTTP that is running"),
    new Option("--token <token>", "with --rest and --mcp-url: the bearer token; better, set RKAT_TOKEN"),
    new Option("--model-port <n>", `where its models listen: ${MODEL_PORT} with a URL, else any`).argParser(
      wholeFrom(0),
    ),
    repeated("--only <scenario>", "this scenario alone; may be repeated"),
    new Option("--list", "list the scenarios"),
    jsonFlag(),
  ],
  examples: [
    ["rkat conformance", "every surface of this installation"],
    ['rkat conformance --rpc "rkat-rpc"', "a server, started as written, in a folder of its own"],
    ["rkat conformance --rest http://127.0.0.1:8080", "a running server; prints the configuration it needs"],
    ["rkat conformance --only retry --only compaction", "some scenarios"],
  ],
  notes: [["Exit codes", "0 all as expected · 1 a difference · 2 wrong input, or a server that cannot be reached"]],
  run: async ({ invocation, flags }: Call<Flags>) => invocation.exitWith(await check(invocation, flags)),
});

async function check({ io, parts }: Invocation, flags: Flags): Promise<number> {
  const conformance = await parts.loadConformance();
  if (flags.list === true) {
    listScenarios(io, conformance.scenarios, flags.json === true);
    return 0;
  }
  const options = optionsOf(io, flags);
  if (options.target !== undefined && "url" in options.target) {
    io.stderr.write(`${options.target.url} must have been started with this configuration:\n\n`);
    io.stderr.write(`${conformance.configuration(options.modelPort)}\n`);
  }
  const reports: Report[] = [];
  const progress = createProgress(io);
  progress.show("starting");
  for await (const report of conformance.run(options)) {
    progress.clear();
    reports.push(report);
    if (flags.json !== true) io.stdout.write(`${lineOf(io, report)}\n`);
    progress.show(`${reports.length} reported`);
  }
  progress.clear();
  const summary = summaryOf(reports);
  if (flags.json === true) writeJson(io, { reports, summary });
  else io.stdout.write(`\n${sentenceOf(summary)}\n`);
  return summary.failed === 0 ? 0 : 1;
}

function listScenarios(io: Io, scenarios: readonly { name: string; title: string }[], isJson: boolean): void {
  const rows = scenarios.map(({ name, title }) => [name, title]);
  if (isJson) writeJson(io, { scenarios });
  else io.stdout.write(`${alignColumns(rows).join("\n")}\n`);
}

function optionsOf({ env, cwd, interrupt }: Io, flags: Flags): ConformanceOptions {
  const { rest, mcpUrl, modelPort, only, token = env.RKAT_TOKEN } = flags;
  if (modelPort !== undefined && modelPort > PORT_MAX) {
    throw invalid(`--model-port ${modelPort}: write a number from 0 to ${PORT_MAX}`);
  }
  if (flags.token !== undefined && rest === undefined && mcpUrl === undefined) {
    throw invalid("--token is for a server at an address; add --rest or --mcp-url");
  }
  const common = { only, modelPort: modelPort ?? 0, signal: interrupt };
  const fixed = { ...common, modelPort: modelPort || MODEL_PORT };
  if (rest !== undefined) return { ...fixed, target: { kind: "rest-url", url: urlOf("--rest", rest), token } };
  if (mcpUrl !== undefined) return { ...fixed, target: { kind: "mcp-url", url: urlOf("--mcp-url", mcpUrl), token } };
  const kind = flags.rpc === undefined ? "mcp" : "rpc";
  const words = wordsIn(flags.rpc ?? flags.mcp ?? "").map((word) => standing(cwd, word));
  if (flags.rpc === undefined && flags.mcp === undefined) return common;
  if (words.length === 0) throw invalid(`--${kind}: write the command that starts the server`);
  return { ...common, target: { kind, words } };
}

function urlOf(flag: string, given: string): string {
  if (URL.canParse(given) && /^https?:/.test(given)) return given.replace(/\/$/, "");
  throw invalid(`${flag} ${given}: write an address like http://127.0.0.1:8080`);
}

/** The words of a command as a shell reads them: quotes hold words together. */
function wordsIn(command: string): readonly string[] {
  return [...command.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].map(
    ([, double, single, plain]) => double ?? single ?? plain ?? "",
  );
}

/** A server is started in a folder of its own, where a path from here would lead nowhere. */
function standing(cwd: string, word: string): string {
  const path = resolve(cwd, word);
  return word.includes("/") && existsSync(path) ? path : word;
}

const DIFFERENCE_CHARS_MAX = 600;
const SURFACE_CHARS = 8;
const SCENARIO_CHARS = 24;

function lineOf({ stdout, env }: Io, { surface, scenario, verdict }: Report): string {
  const paint = createPaint(stdout, env);
  const name = `${surface.padEnd(SURFACE_CHARS)}  ${scenario.padEnd(SCENARIO_CHARS)}`;
  switch (verdict.kind) {
    case "ok":
      return `${name}  ok`;
    case "failed":
      return `${name}  ${paint.red(`failed: ${oneLine(verdict.difference, DIFFERENCE_CHARS_MAX)}`)}`;
    case "not applicable":
      return paint.dim(`${name}  not applicable: ${verdict.reason}`);
  }
}

function summaryOf(reports: readonly Report[]) {
  const of = (kind: Report["verdict"]["kind"]) => reports.filter(({ verdict }) => verdict.kind === kind).length;
  return { ok: of("ok"), failed: of("failed"), not_applicable: of("not applicable") };
}

function sentenceOf({ ok, failed, not_applicable }: ReturnType<typeof summaryOf>): string {
  const beside = not_applicable === 0 ? "" : `; ${grouped(not_applicable)} not applicable`;
  return `${counted(ok, "scenario")} as expected, ${grouped(failed)} not${beside}.`;
}

/** The progress, on a line that is redrawn. */
function createProgress({ stderr }: Io): { show(text: string): void; clear(): void } {
  if (!stderr.isTerminal) return { show: () => {}, clear: () => {} };
  return { show: (text) => stderr.write(`\r\u001b[K${text}…`), clear: () => stderr.write("\r\u001b[K") };
}
