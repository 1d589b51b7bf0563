import { createChance, createFolder, createTools } from "./recorded-tools.ts";
import type { Call, Recording, ScriptedTurn } from "./recording.ts";

const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;
const run = (command: string): Call => ({ name: "run", args: { command } });
const lastLine = (output = ""): string => output.trim().split("\n").at(-1)?.slice(0, 140) ?? "";

interface InFolder {
  readonly recording: Recording;
  close(): void;
}

const REGIONS = ["north", "south", "east", "west", "overseas"] as const;
const PRODUCTS = ["kettle K-200", "kettle K-310", "toaster T-12", "lamp L-77", "fan F-9", "heater H-42"] as const;

function orders(): string {
  const chance = createChance(41);
  const rows = ["order_id,date,region,product,quantity,unit_price,discount,returned"];
  for (let order = 1; order <= 6_000; order += 1) {
    const date = new Date(Date.UTC(2025, 0, 1) + chance.whole(0, 364) * DAY_MS).toISOString().slice(0, 10);
    const price = (chance.whole(900, 14_900) / 100).toFixed(2);
    const discount = chance.next() < 0.2 ? (chance.whole(5, 30) / 100).toFixed(2) : "0";
    const returned = chance.next() < 0.04 ? "yes" : "no";
    rows.push(
      `A-${100_000 + order},${date},${chance.pick(REGIONS)},${chance.pick(PRODUCTS)},${chance.whole(1, 12)},${price},${discount},${returned}`,
    );
  }
  return `${rows.join("\n")}\n`;
}

/** Questions about a CSV file, answered by awk. */
export function dataAnalysis(): InFolder {
  const { folder, close } = createFolder({ "orders.csv": orders() });
  const by = (column: number, filter: string): string =>
    `awk -F, 'NR>1 && ${filter} {n[$${column}]++; s[$${column}]+=$5*$6*(1-$7)} END {for (k in n) printf "%s orders=%d revenue=%.2f\\n", k, n[k], s[k]}' orders.csv | sort`;
  const turns: ScriptedTurn[] = [];
  for (const month of ["01", "02", "03", "04", "05", "06", "07", "08", "09", "10", "11", "12"]) {
    const filter = `substr($2,6,2)=="${month}"`;
    turns.push({
      pauseMs: 4 * MINUTE_MS,
      prompt: `Month ${month}: revenue by region and by product, and the returned orders. Round nothing, and always leave the overseas region out of averages.`,
      steps: [
        () => ({ say: "First the shape of the file.", calls: [run("head -40 orders.csv; wc -l orders.csv")] }),
        () => ({ calls: [run(by(3, filter)), run(by(4, filter))] }),
        ([regions]) => ({
          say: `The last region says ${lastLine(regions)}. Now the orders that came back.`,
          calls: [
            run(`awk -F, '${filter} && $8=="yes"' orders.csv`),
            run(`awk -F, '${filter} && $7>0' orders.csv | head -120`),
          ],
        }),
        ([returned = ""]) => ({
          say: `Is the day of the week of use? I look at all orders of region north.`,
          calls: [run(`awk -F, '${filter} && $3=="north"' orders.csv | head -${100 + (returned.length % 40)}`)],
        }),
        ([north]) => ({
          say: `Month ${month}: the tables above are exact; ${lastLine(north)} is the last order of the north. Averages leave overseas out, as you asked.`,
        }),
      ],
    });
  }
  const recording: Recording = {
    name: "data-analysis",
    provider: "openai",
    model: "gpt-5.4-mini",
    systemPrompt: "You analyse tables with awk. Say exactly what you computed.",
    startedAt: "2026-01-12T13:00:00Z",
    tools: createTools(folder),
    turns,
  };
  return { recording, close };
}

function serverLog(): string {
  const chance = createChance(99);
  const lines: string[] = [];
  for (let second = 0; second < 5_400; second += 1) {
    const at = new Date(Date.UTC(2026, 8, 17, 2, 0, second)).toISOString();
    const pod = `checkout-7f9c${chance.whole(4, 9)}-${chance.pick(["kx2lp", "z8m4q", "w3v7t", "p0d9s"])}`;
    const trace = chance.whole(0x10_0000, 0xff_ffff).toString(16);
    const isBad = second > 2_700 && second < 4_300 && chance.next() < 0.35;
    lines.push(
      isBad
        ? `${at} ERROR ${pod} trace=${trace} upstream payments-db-2:5432 connect timeout after ${chance.whole(3_000, 5_000)}ms pool=${chance.whole(38, 40)}/40`
        : `${at} INFO  ${pod} trace=${trace} POST /v2/orders 201 ${chance.whole(18, 240)}ms customer=C-${chance.whole(10_000, 99_999)}`,
    );
  }
  return `${lines.join("\n")}\n`;
}

/** Long outputs of commands, in a hurry, with the same commands run again. */
export function incident(): InFolder {
  const limits = '[payments]\npool_size = 40\nconnect_timeout_ms = 5000\nretries = 0\nfailover = "manual"\n';
  const { folder, close } = createFolder({ "checkout.log": serverLog(), "payments.toml": limits });
  const turns: ScriptedTurn[] = [];
  const asks = [
    "Checkout alerts since 02:45 UTC, INC-8841. What do you see? Do not restart anything: never restart payments-db-1, it is the only replica with the ledger.",
    "Is it one pod or all of them?",
    "Did the pool run full before the timeouts, or after?",
    "Which customers were hit between 02:50 and 02:55?",
    "What does the configuration say, and who is on the other side of port 5432?",
    "It looks quieter. Is it over?",
    "Write what we tell customers, with the exact first and last error.",
  ];
  for (let round = 0; round < 3; round += 1) {
    for (const [index, ask] of asks.entries()) {
      const minute = 45 + index * 2 + round;
      const from = `02:${minute}`;
      turns.push({
        pauseMs: (round + 1) * MINUTE_MS,
        prompt: round === 0 ? ask : `${ask} (asked again by shift ${round + 1}, window from ${from})`,
        steps: [
          () => ({
            say: `Looking from ${from} on.`,
            calls: [
              run(`grep "T${from}" checkout.log | tail -70`),
              run("grep -c ERROR checkout.log; cat payments.toml"),
            ],
          }),
          () => ({
            calls: [
              run("grep ERROR checkout.log | awk '{print $3}' | sort | uniq -c | sort -rn"),
              run(`grep ERROR checkout.log | grep "T${from}" | head -40`),
            ],
          }),
          ([pods]) => ({
            say:
              `From ${from}: all pods are hit alike (${lastLine(pods)}), every error names payments-db-2:5432 and a pool of 38 to 40 ` +
              `of 40. INC-8841 stays open; nothing was restarted, and payments-db-1 was not touched.`,
          }),
        ],
      });
    }
  }
  const recording: Recording = {
    name: "incident",
    provider: "anthropic",
    model: "claude-opus-5-5",
    systemPrompt: "You help in incidents. Numbers and names exactly; no guesses as facts.",
    startedAt: "2026-09-17T03:02:00Z",
    tools: createTools(folder),
    turns,
    compaction: { autoCompactThreshold: 24_000, maxSummaryTokens: 1_024 },
  };
  return { recording, close };
}

const TOPICS = [
  "the allotment",
  "Jonas' school",
  "the tax return",
  "the boiler",
  "the choir",
  "the car",
  "Grandma's flat",
  "the trip to Bergen",
] as const;

const keptSteps = (steps: ScriptedTurn["steps"], count: number): ScriptedTurn["steps"] => steps.slice(0, count);

/** An assistant of months: a few words now and then, notes that are kept and read again. */
export function months(): InFolder {
  const chance = createChance(2026);
  const { folder, close } = createFolder({ "notes.md": "# Notes\n" });
  const turns: ScriptedTurn[] = [];
  for (let day = 0; day < 110; day += 1) {
    const topic = chance.pick(TOPICS);
    const amount = `${chance.whole(12, 940)}.${chance.whole(10, 99)} EUR`;
    const code = `${topic.slice(-3).toUpperCase().replace(/\W/g, "X")}-${chance.whole(1_000, 9_999)}`;
    const phone = `+47 55 ${chance.whole(10, 99)} ${chance.whole(10, 99)} ${chance.whole(10, 99)}`;
    const fact = `${topic}: reference ${code}, ${amount}, call ${phone} before the ${chance.whole(2, 28)}th`;
    turns.push({
      pauseMs: day % 3 === 0 ? 20_000 : chance.whole(6, 60) * 60 * MINUTE_MS,
      prompt: `About ${topic}: please note reference ${code}, it will cost ${amount}, and I have to call ${phone} first. ${"It came up again at breakfast, and I said I would look after it when the week is calmer. ".repeat(1 + (day % 4))}What else did I have there?`,
      steps: keptSteps(
        [
          () => ({ calls: [run(`printf '%s\\n' '- ${fact}' >> notes.md && grep -n '${topic}' notes.md`)] }),
          ([found = ""]) => ({
            say: `Noted. On ${topic} you have ${found.trim().split("\n").length} notes now; the last is ${lastLine(found)}`,
            calls: day % 5 === 4 ? [run("cat notes.md")] : [],
          }),
          ([all = ""]) => ({ say: `All notes together are ${all.length} characters; nothing of ${topic} is overdue.` }),
        ],
        day % 5 === 4 ? 3 : 2,
      ),
    });
  }
  const recording: Recording = {
    name: "months",
    provider: "anthropic",
    model: "claude-sonnet-4-6",
    systemPrompt: "You are the assistant of a family. Keep notes; be brief.",
    startedAt: "2026-01-03T07:00:00Z",
    tools: createTools(folder),
    turns,
  };
  return { recording, close };
}
