import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { Tool } from "@rkat/core/ports/tool";

/** The state of this repository that the recordings are about: the same however it goes on. */
const COMMIT = "871482a";
const OUTPUT_CHARS_MAX = 14_000;

/** A copy of this repository at one commit, to work in. */
export function createWorkspace(repository: string): { readonly folder: string; close(): void } {
  const folder = mkdtempSync(join(tmpdir(), "rkat-recording-"));
  const archive = execFileSync("git", ["archive", COMMIT], { cwd: repository, maxBuffer: 1 << 28 });
  execFileSync("tar", ["-x", "-C", folder], { input: archive });
  symlinkSync(join(repository, "node_modules"), join(folder, "node_modules"));
  const git = (...args: readonly string[]): void => {
    const who = { GIT_AUTHOR_NAME: "rkat", GIT_AUTHOR_EMAIL: "rkat@example.org" };
    const committed = { GIT_COMMITTER_NAME: "rkat", GIT_COMMITTER_EMAIL: "rkat@example.org" };
    const when = { GIT_AUTHOR_DATE: "2026-01-05T09:00:00Z", GIT_COMMITTER_DATE: "2026-01-05T09:00:00Z" };
    execFileSync("git", [...args], { cwd: folder, env: { ...process.env, ...who, ...committed, ...when } });
  };
  git("init", "-q", "-b", "main");
  git("add", "-A", "src", "docs", "package.json");
  git("commit", "-q", "-m", "As it was");
  return { folder, close: () => rmSync(folder, { recursive: true, force: true }) };
}

/** An empty folder with these files in it. */
export function createFolder(files: Readonly<Record<string, string>>): { readonly folder: string; close(): void } {
  const folder = mkdtempSync(join(tmpdir(), "rkat-recording-"));
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(resolve(folder, name, ".."), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
  return { folder, close: () => rmSync(folder, { recursive: true, force: true }) };
}

const text = { type: "string" } as const;

/** Reads, searches, changes and runs in a folder; what fails says so. */
export function createTools(folder: string): readonly Tool[] {
  const inside = (path: unknown): string => join(folder, String(path));
  return [
    {
      name: "read_file",
      description: "Reads lines of a file of the project.",
      inputSchema: {
        type: "object",
        properties: { path: text, from: { type: "integer" }, lines: { type: "integer" } },
        required: ["path"],
      },
      execute: ({ path, from = 1, lines = 400 }) => {
        const all = readFileSync(inside(path), "utf8").split("\n");
        const first = Number(from);
        return all
          .slice(first - 1, first - 1 + Number(lines))
          .map((line, index) => `${String(first + index).padStart(5)}  ${line}`)
          .join("\n");
      },
    },
    {
      name: "edit_file",
      description: "Puts one text in the place of another in a file.",
      inputSchema: {
        type: "object",
        properties: { path: text, old_text: text, new_text: text },
        required: ["path", "old_text", "new_text"],
      },
      execute: ({ path, old_text, new_text }) => {
        const before = readFileSync(inside(path), "utf8");
        const times = before.split(String(old_text)).length - 1;
        if (times === 0) throw new Error(`${path}: the text to replace is not in the file`);
        writeFileSync(inside(path), before.replaceAll(String(old_text), String(new_text)));
        return `${path}: replaced ${times} time${times === 1 ? "" : "s"}`;
      },
    },
    {
      name: "run",
      description: "Runs a command in the project's folder and gives what it prints.",
      inputSchema: { type: "object", properties: { command: text }, required: ["command"] },
      execute: ({ command }) => runIn(folder, String(command)),
    },
  ];
}

function runIn(folder: string, command: string) {
  const env = { PATH: process.env.PATH, LC_ALL: "C.UTF-8", TZ: "UTC", HOME: folder, NO_COLOR: "1", CI: "true" };
  try {
    const output = execFileSync("bash", ["-c", `{ ${command}\n} 2>&1`], {
      cwd: folder,
      env,
      encoding: "utf8",
      maxBuffer: 1 << 26,
    });
    return steady(output, folder);
  } catch (failed) {
    const { status, stdout = "" } = failed as { status?: number; stdout?: string };
    return { content: `${steady(stdout, folder)}\nexit code ${status ?? 1}`, isError: true };
  }
}

/** Without what differs from run to run. */
function steady(output: string, folder: string): string {
  const said = output
    .replaceAll(folder, "/project")
    .replace(/\b\d+(?:\.\d+)?(?:ms|s)\b/g, "12ms")
    .replace(/(Start at\s+)\S+/g, "$109:00:00");
  return said.length <= OUTPUT_CHARS_MAX ? said : `${said.slice(0, OUTPUT_CHARS_MAX)}\n[cut]`;
}

/** Numbers that look like chance and are the same every time. */
export function createChance(seed: number) {
  let state = seed >>> 0;
  const next = (): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
  const whole = (from: number, to: number): number => from + Math.floor(next() * (to - from + 1));
  const pick = <T>(list: readonly T[]): T => {
    const one = list[whole(0, list.length - 1)];
    if (one === undefined) throw new Error("an empty list");
    return one;
  };
  return { next, whole, pick };
}
