import { spawn } from "node:child_process";
import { rmSync } from "node:fs";
import { mkdtemp, readFile, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { asRuntimeError, RuntimeError } from "@rkat/core/contract/error";
import { writeError } from "../failure.ts";
import { bytesText, type Io } from "../io.ts";
import type { ChatPlace } from "./conversation.ts";
import { readPastPrompts } from "./past-prompts.ts";
import { commandsLike, completeSlash } from "./slash-commands.ts";
import { completePath } from "./typed-prompt.ts";
import type { TypingHelp } from "./typed-prompts.ts";

/** Help for typing in a chat: earlier prompts, completion of commands and files, and an external editor. */
export function typingHelp({ invocation, opened }: ChatPlace): TypingHelp {
  const { io } = invocation;
  return {
    history: () => readPastPrompts(opened),
    complete: async (before) => {
      const [, word = ""] = /(?:^|\s)@("?[^\s"]*)$/.exec(before) ?? [];
      if (before.startsWith("/") && word === "") {
        const argument = before.indexOf(" ");
        const from = argument < 0 ? 0 : before.length - before.slice(argument).trimStart().length;
        return { from, candidates: await completeSlash(before, { invocation, opened }) };
      }
      if (!/(?:^|\s)@"?[^\s"]*$/.test(before)) return { from: before.length, candidates: [] };
      const paths = await completePath(word.replace(/^"/, ""), opened.place.projectRoot, io.home);
      return {
        from: before.length - word.length,
        candidates: paths.map((path) => ({ text: /\s/.test(path) ? `"${path}"` : path })),
      };
    },
    hints: (typed) => (/^\/[a-z]*$/.test(typed) ? commandsLike(typed) : []),
    editElsewhere: async (text) => {
      try {
        return await editElsewhere(io, text);
      } catch (thrown) {
        writeError(io, asRuntimeError(thrown));
        return undefined;
      }
    },
  };
}

/** More than a prompt can hold. */
const TEXT_BYTES_MAX = 8 * 1024 * 1024;

/** Lets a text be changed in the program that VISUAL or EDITOR names, in a file that only its owner can read. */
async function editElsewhere({ env, cwd, interrupt }: Io, text: string): Promise<string> {
  const program = env.VISUAL || env.EDITOR || "vi";
  const folder = await mkdtemp(join(tmpdir(), "rkat-"));
  const path = join(folder, "prompt.md");
  // Subscribed at once: the process may end before other events.
  const remove = (): void => rmSync(folder, { recursive: true, force: true });
  interrupt.addEventListener("abort", remove);
  try {
    await writeFile(path, `${text}\n`, { mode: 0o600 });
    await new Promise<void>((resolve, reject) => {
      const failed = (reason: string): void =>
        reject(new RuntimeError("INVALID_PARAMS", `${program} ${reason}; EDITOR names the program to edit with`));
      // By a shell, since the variable may hold a program with its options.
      const child = spawn("/bin/sh", ["-c", `${program} "$1"`, "sh", path], {
        stdio: "inherit",
        cwd,
        signal: interrupt,
      });
      child.on("error", ({ message }) => failed(`cannot be started: ${message}`));
      child.on("exit", (code) => (code === 0 ? resolve() : failed(`ended with ${code ?? "a signal"}`)));
    });
    const found = await stat(path).catch(() => undefined);
    if (found?.isFile() !== true)
      throw new RuntimeError("INVALID_PARAMS", `${program} left no plain file; the line is as it was`);
    if (found.size > TEXT_BYTES_MAX) {
      const much = `${bytesText(found.size)}, and a prompt takes ${bytesText(TEXT_BYTES_MAX)}`;
      throw new RuntimeError("INVALID_PARAMS", `${program} left ${much}; the line is as it was`);
    }
    return await readFile(path, "utf8");
  } finally {
    interrupt.removeEventListener("abort", remove);
    remove();
  }
}
