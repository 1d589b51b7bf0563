#!/usr/bin/env node
// Plain JavaScript of a single file: it is run once, from a package that nothing else needs.
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { basename, join, relative, resolve } from "node:path";
import { createInterface } from "node:readline/promises";
import { parseArgs } from "node:util";

/** @type {Readonly<Record<string, string>>} */
const TEMPLATES = {
  agent: "an agent of your own, with a tool, an approval and a page",
  memory: "a memory for the agent you use: Claude Code, Codex, Cursor and others",
};
const HELP = `Usage: npm create rkat@latest [FOLDER] [-- --template NAME]

Creates a program with rkat in FOLDER, which must be new or empty.

  --template NAME  ${Object.entries(TEMPLATES)
    .map(([name, what]) => `${name}: ${what}`)
    .join("\n                   ")}
  --help           shows this text
`;
// The same as `engines` in package.json, which npm only warns of.
const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
if (major < 22 || (major === 22 && minor < 18))
  refuse(`rkat needs Node 22.18 or newer; this is Node ${process.versions.node}`);
const home = join(import.meta.dirname, "..");
const { version } = JSON.parse(readFileSync(join(home, "package.json"), "utf8"));

/** @param {string} sentence @returns {never} */
function refuse(sentence) {
  process.stderr.write(`create-rkat: ${sentence}\n`);
  process.exit(2);
}

function readArguments() {
  try {
    return parseArgs({
      options: { template: { type: "string" }, help: { type: "boolean", short: "h" } },
      allowPositionals: true,
    });
  } catch (error) {
    return refuse(`${error instanceof Error ? error.message : error}; --help shows the options`);
  }
}

const { values, positionals } = readArguments();
if (values.help) {
  process.stdout.write(HELP);
  process.exit(0);
}
if (positionals.length > 1) refuse(`name one folder instead of ${positionals.length}`);

/** Asks a person; without a terminal the default is taken. @param {string} question @param {string} otherwise */
async function ask(question, otherwise) {
  if (!process.stdin.isTTY) return otherwise;
  const lines = createInterface({ input: process.stdin, output: process.stdout });
  const answer = await lines.question(`${question} [${otherwise}] `);
  lines.close();
  return answer.trim() || otherwise;
}

const folder = resolve(positionals[0] ?? (await ask("Folder?", "my-agent")));
const list = Object.entries(TEMPLATES).map(([name, what]) => `  ${name.padEnd(8)} ${what}\n`);
if (values.template === undefined && process.stdin.isTTY) process.stdout.write(list.join(""));
const template = values.template ?? (await ask("Template?", "agent"));
if (!Object.hasOwn(TEMPLATES, template)) {
  refuse(`there is no template ${JSON.stringify(template)}: use ${Object.keys(TEMPLATES).join(" or ")}`);
}
const name =
  basename(folder)
    .toLowerCase()
    .replaceAll(/[^a-z0-9._-]+/g, "-")
    .replace(/^[._-]+/, "") || "my-agent";

try {
  if (existsSync(folder) && readdirSync(folder).length > 0) refuse(`${folder} is not empty: name a new folder`);
  mkdirSync(folder, { recursive: true });
  cpSync(join(home, "templates", template), folder, { recursive: true });
  // npm leaves a file of that name out of packages.
  renameSync(join(folder, "gitignore"), join(folder, ".gitignore"));
  for (const file of ["package.json", "README.md"]) {
    const text = readFileSync(join(folder, file), "utf8");
    writeFileSync(join(folder, file), text.replaceAll("{{name}}", name).replaceAll("{{version}}", version));
  }
} catch (error) {
  refuse(`${folder} could not be written: ${error instanceof Error ? error.message : error}`);
}
const place = relative(process.cwd(), folder) || ".";
process.stdout.write(`Created ${template} in ${folder}. Next:

  cd ${/[^\w./-]/.test(place) ? JSON.stringify(place) : place}
  npm install
  npm start

README.md says more.
`);
