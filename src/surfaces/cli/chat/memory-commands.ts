import { showMemoryStatus } from "../memory/memory-status.ts";
import { searchAndShow } from "../memory/search-memory.ts";
import type { SlashCommand } from "./chat.ts";

const HINTS = { whole: "rkat memory search --all", everything: "/memory -a QUERY" };

/** What a chat can do to find again what was said. */
export const MEMORY_COMMANDS: Readonly<Record<string, SlashCommand>> = {
  memory: {
    takes: "[-a] QUERY",
    meaning: "search what compactions took out, here and in other sessions; with -a, everything",
    run: async ({ invocation, opened, source }, rest) => {
      const { io } = invocation;
      const [, isAll, query = ""] = /^(-a(?:\s+(?=\S)|$))?(.*)$/s.exec(rest) ?? [];
      if (rest === "") await showMemoryStatus(io, opened);
      else {
        const reach = isAll === undefined ? "discarded" : "everything";
        await source.during((signal) => searchAndShow(io, opened, { query, reach, signal, hints: HINTS }));
      }
      return false;
    },
  },
};
