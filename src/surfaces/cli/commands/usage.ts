import type { Command } from "commander";
import type { UsageReport } from "../../../contract/usage.ts";
import { addFieldFlags, fieldsOf, jsonFlag } from "../flags.ts";
import { describeHelp } from "../help.ts";
import { alignColumns, costText, createPaint, grouped, type Io, writeJson } from "../io.ts";
import { type Opened, withSessions } from "../open-runtime.ts";
import type { Invocation } from "../parts.ts";

/** Declares `rkat usage`. */
export function addUsageCommand(program: Command, invocation: Invocation): void {
  const command = program
    .command("usage")
    .summary("sum up tokens and cost over all sessions")
    .description(
      "Sums up what the models of all sessions and agents of this folder were used for, and what they cost.",
    );
  addFieldFlags(command, "readUsage")
    .addOption(jsonFlag())
    .action((flags: UsageFlags) => withSessions(invocation, (opened) => showUsage(invocation.io, opened, flags)));
  describeHelp(command, {
    examples: [
      ["rkat usage", "what each model has cost"],
      ["rkat usage --by day --since 7d", "the last week, day by day"],
      ["rkat usage --by label --json | jq .total.usage.cost.amount", "for scripts"],
    ],
    notes: [
      ["Cost", "is in US dollars, by the prices of its time; ≥ where some calls have no known price, see rkat models"],
    ],
  });
}

interface UsageFlags {
  readonly json?: boolean;
}

async function showUsage(io: Io, { runtime }: Opened, flags: UsageFlags): Promise<void> {
  const report = await runtime.dispatch("readUsage", fieldsOf("readUsage", flags));
  if (flags.json) return writeJson(io, report);
  const { groups, total, since } = report;
  if (groups.length === 0) {
    io.stdout.write(`Nothing was used${since === undefined ? "" : ` since ${since}`}.\n`);
    return;
  }
  const { dim, bold } = createPaint(io.stdout, io.env);
  const rows = [
    HEADINGS[report.by],
    ...groups.map(({ key, ...sums }) => rowOf(key || "(none)", sums)),
    rowOf("total", total),
  ];
  for (const [index, line] of alignColumns(rows).entries()) {
    const paint = index === 0 ? dim : index === rows.length - 1 ? bold : (text: string) => text;
    io.stdout.write(`${paint(line)}\n`);
  }
}

const COLUMNS = ["CALLS", "INPUT", "CACHED", "OUTPUT", "COST"];
const HEADINGS: Readonly<Record<UsageReport["by"], readonly string[]>> = {
  model: ["MODEL", ...COLUMNS],
  label: ["LABEL", ...COLUMNS],
  day: ["DAY", ...COLUMNS],
  token: ["TOKEN", ...COLUMNS],
};

function rowOf(key: string, { calls, usage }: UsageReport["total"]): readonly string[] {
  const { input_tokens, output_tokens, cache_read_tokens = 0, cost } = usage;
  const numbers = [calls, input_tokens, cache_read_tokens, output_tokens];
  return [key, ...numbers.map((number, at) => grouped(number).padStart(COLUMNS[at]?.length ?? 0)), costText(cost)];
}
