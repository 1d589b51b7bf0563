import { asRuntimeError } from "../../contract/error.ts";
import type { ChatPlace } from "./conversation.ts";
import { editElsewhere } from "./external-editor.ts";
import { writeError } from "./failure.ts";
import { readPastPrompts } from "./past-prompts.ts";
import { commandsLike, completeSlash } from "./slash-commands.ts";
import { completePath } from "./typed-prompt.ts";
import type { TypingHelp } from "./typed-prompts.ts";

/** What helps whoever types in a chat: earlier prompts, commands, files, and a program to write in. */
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
