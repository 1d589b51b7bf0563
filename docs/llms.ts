import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** Pages about the code, and references that a server gives better: the operations and the commands. */
const LEFT_OUT = [
  "spec",
  "style",
  "architecture",
  "measured",
  "compared-measured",
  "glossary",
  "operations",
  "cli",
  "index",
];

const INTRO = `# rkat

> A runtime for agent sessions that outlive any context window: a TypeScript SDK, a command line (\`rkat\`), servers (REST, JSON-RPC, MCP, ACP, OpenAI's API, the AI SDK's UI stream) and a console. Sessions are stored as append-only logs, compacted before they overflow, and searchable.

Install with \`npm install rkat\`; \`npx rkat run "hello"\` runs a turn, \`npx rkat serve\` starts a server. Every page below is in [llms-full.txt](llms-full.txt).`;

const REFERENCES = `## Optional

- [Operations](openapi.json): every operation of a server with its fields, as OpenAPI; this page needs a token
- \`rkat help COMMAND\`: the manual of the command line`;

interface Page {
  readonly path: string;
  readonly title: string;
  readonly note: string;
  readonly text: string;
}

/** The pages for users, in the order of the README's table, then by their names. */
function pages(): readonly Page[] {
  const readme = readFileSync(join(import.meta.dirname, "..", "README.md"), "utf8");
  const rows = [...readme.matchAll(/^\| \[([\w-]+\.md)\]\(docs\/\1\) +\| (.*?) +\|$/gm)];
  const rank = (name: string): number =>
    (rows.findIndex((row) => row[1] === name) + rows.length + 1) % (rows.length + 1);
  return readdirSync(import.meta.dirname)
    .filter((name) => name.endsWith(".md") && !LEFT_OUT.includes(name.slice(0, -".md".length)))
    .sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1))
    .map((name) => {
      const text = readFileSync(join(import.meta.dirname, name), "utf8").replace(/^<!-- .* -->\n\n/, "");
      const note = plain(rows.find((row) => row[1] === name)?.[2] ?? firstSentence(text));
      return { path: `docs/${name}`, title: /^# (.*)$/m.exec(text)?.[1] ?? name, note, text };
    });
}

/** `llms.txt`: what there is to read, a line for each page. */
export function llmsIndex(): string {
  const lines = pages().map(({ path, title, note }) => `- [${title}](${path}): ${note}`);
  return `${[INTRO, "## Docs", lines.join("\n"), REFERENCES].join("\n\n")}\n`;
}

/** `llms-full.txt`: all pages, each behind a line that names it, by which a server finds one. */
export function llmsFull(): string {
  return pages()
    .map(({ path, text }) => `<!-- ${path} -->\n${text}`)
    .join("\n");
}

function firstSentence(text: string): string {
  const [, paragraph = ""] = /^# .*\n\n([\s\S]*?)\n\n/.exec(text) ?? [];
  const [first = ""] = /^.*?[.:](?= |$)/.exec(paragraph.replaceAll("\n", " ")) ?? [];
  return first.replace(/[.:]$/, "");
}

function plain(text: string): string {
  return text.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, "$1");
}
