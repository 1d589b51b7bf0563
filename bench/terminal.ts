import { setImmediate } from "node:timers/promises";
import { withoutControls } from "@rkat/core/text/terminal-text";
import { languageOf } from "rkat/chat/highlight";
import { createMarkdownStream } from "rkat/chat/markdown";
import { createPaint } from "rkat/io";
import { median, publish } from "./report.ts";

/**
 * What it costs to show an answer as Markdown while it streams, in CPU of the process by kilobyte of the answer, beside
 * writing the same pieces as they are. Pieces are of one to eight characters, as models send them.
 */
const ROUNDS = 9;
const WARM_UP_ROUNDS = 2;
const KILOBYTES = 200;
const LINES = 10_000;
/** Of the first answer of a process, which has nothing compiled yet. */
const FIRST_KILOBYTES = 8;
const PIECES_BETWEEN = 20;

const PROSE = `The runtime keeps every entry of a session in a log, and whatever is shown of it is derived from that log again. When a
window grows too small, older turns are summed up, and the summary says which entries it was made of. Nobody has to trust it.

`;
const LISTS = `1. First the store is opened, and its format is looked at:
   - a folder that was never used is prepared
   - one of an older version is read as it is
     - nothing is rewritten before somebody asks for it
2. Then the session is looked up by its name or its number.
- [x] the log is read
- [ ] the memory is searched

`;
const TABLE = `| name | what it is for | default |
|:-----|----------------|--------:|
| timeout | how long a call may take | 30 |
| retries | how often a call is made again | 2 |
| window | how many tokens fit into a request | 200000 |

`;
const CODES = {
  ts: `/** Runs one turn. */
export async function runTurn(turn: Turn, emit: Emit): Promise<TurnOutcome> {
  for (let step = 1; step <= turn.stepsMax; step += 1) {
    const reply = await askModel(turn.model, \`step \${step}\`, emit); // asks
    if (reply.finish !== "tool_calls") return { finish: reply.finish, steps: step };
  }
}
`,
  python: `@dataclass
class Turn:
    """What was said, and by whom."""
    steps: int = 0

    def run(self, model: Model) -> str:
        for step in range(1, 10):  # bounded
            if model.ask(f"step {step}") is None:
                return "done"
`,
  rust: `/// Reads a log to its end.
pub fn read(path: &Path) -> Result<Vec<Entry>, Error> {
    let mut entries = Vec::with_capacity(1_024);
    for line in BufReader::new(File::open(path)?).lines() {
        entries.push(serde_json::from_str(&line?)?); // one a line
    }
    Ok(entries)
}
`,
  sh: `# Back up what is there.
set -euo pipefail
for file in "$HOME"/.rkat/*.log; do
  if [ -s "$file" ]; then gzip -9 < "$file" > "/tmp/$(basename "$file").gz"; fi
done
`,
  sql: `-- Those who said most.
select author, count(*) as turns from entries
where created_at > '2026-01-01' and kind = 'message'
group by author order by turns desc limit 10;
`,
  yaml: `# A service.
services:
  rkat:
    image: "rkat:latest"
    ports: [8080]
    restart: always
`,
};
const CHINESE = `运行时把会话的每一条记录都保存在日志中，所显示的一切都由日志重新推导而来。当窗口太小时，较早的轮次会被总结，总结会说明它由哪些记录构成。

日本語の文章も、**強調**や\`コード\`を含めて、折り返しながら表示される。

`;
const MIXED = `A **bold claim** about \`core/turn.ts\`, with *some* emphasis and a [link to the page](https://example.com/docs/turns?id=4),
then ~~gone~~ words, an address https://example.com/a_b_c, **bold with \`code\` in it**, snake_case_names and 2 * 3 = 6 of R&D.

`;

const fenced = (name: string, code: string): string => `\`\`\`${name}\n${code}\`\`\`\n\n`;

const KINDS: readonly (readonly [name: string, text: string])[] = [
  ["prose", PROSE],
  ["lists", LISTS],
  ["tables", TABLE],
  ...Object.entries(CODES).map(([name, code]) => [`code, ${name}`, fenced(name, code)] as const),
  ["code, no language", fenced("", CODES.ts)],
  ["Chinese, Japanese", CHINESE],
  ["emphasis and links", MIXED],
];

const texts = KINDS.map(([name, text]) => [name, repeated(text, KILOBYTES * 1_000)] as const);
const everything = KINDS.map(([, text]) => text).join("");
const linesOfAll = everything.split("\n");
const lines = Array.from({ length: LINES }, (_, at) => linesOfAll[at % linesOfAll.length]);
const all = [...texts, ["10,000 lines of all", lines.join("\n")] as const];

function repeated(text: string, bytes: number): string {
  return text.repeat(Math.ceil(bytes / Buffer.byteLength(text)));
}

/** Cut alike in every run. */
function piecesOf(text: string): readonly string[] {
  const pieces: string[] = [];
  let seed = 1;
  for (let at = 0; at < text.length; ) {
    seed = (Math.imul(seed, 1_103_515_245) + 12_345) >>> 0;
    const length = 1 + ((seed >>> 16) % 8);
    pieces.push(text.slice(at, at + length));
    at += length;
  }
  return pieces;
}

let written = 0;
const write = (text: string): void => {
  written += text.length;
};
const output = { isTerminal: true, columns: 80, write };
const paint = createPaint(output, { FORCE_COLOR: "1" });

function streamed(pieces: readonly string[]): void {
  const stream = createMarkdownStream({ write, width: () => 80, paint });
  for (const piece of pieces) stream.push(piece);
  stream.end();
}

/** With time to load what is not there yet. */
async function streamedFirst(pieces: readonly string[]): Promise<void> {
  const stream = createMarkdownStream({ write, width: () => 80, paint });
  for (const [at, piece] of pieces.entries()) {
    stream.push(piece);
    if (at % PIECES_BETWEEN === 0) await setImmediate();
  }
  stream.end();
}

function plainly(pieces: readonly string[]): void {
  for (const piece of pieces) write(withoutControls(piece));
}

async function cpuMsOf(work: () => void | Promise<void>): Promise<number> {
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000;
}

const first = repeated(everything, FIRST_KILOBYTES * 1_000);
const firstMs = await cpuMsOf(() => streamedFirst(piecesOf(first)));
for (const name of Object.keys(CODES)) await languageOf(name);

const rows: { name: string; kilobytes: number; shown: number[]; floor: number[] }[] = [];
for (const [name, text] of all) {
  const pieces = piecesOf(text);
  const row = { name, kilobytes: Buffer.byteLength(text) / 1_000, shown: [] as number[], floor: [] as number[] };
  for (let round = 0; round < WARM_UP_ROUNDS + ROUNDS; round += 1) {
    const shown = await cpuMsOf(() => streamed(pieces));
    const floor = await cpuMsOf(() => plainly(pieces));
    if (round < WARM_UP_ROUNDS) continue;
    row.shown.push(shown / row.kilobytes);
    row.floor.push(floor / row.kilobytes);
  }
  rows.push(row);
}

await publish({
  name: "terminal",
  tables: [
    [
      ["an answer of", "KB", "CPU ms/KB", "most", "written plainly"],
      ...rows.map(({ name, kilobytes, shown, floor }) => [
        name,
        kilobytes.toFixed(0),
        median(shown).toFixed(3),
        Math.max(...shown).toFixed(3),
        median(floor).toFixed(3),
      ]),
      [
        "all, the first of a process, with six languages to load",
        (Buffer.byteLength(first) / 1_000).toFixed(0),
        (firstMs / (Buffer.byteLength(first) / 1_000)).toFixed(3),
        "",
        "",
      ],
    ],
  ],
  targets: rows.map(({ name, shown }) => ({ what: `CPU ms/KB, ${name}`, value: median(shown), max: 1 })),
  measured: { written, firstMs, rows },
});
