import { requireCapability } from "../../../service/dispatch.ts";
import { undoCompaction } from "../compactions/change-context.ts";
import { attempt, compactedLines } from "../compactions/compact-now.ts";
import { showCompaction } from "../compactions/show-compaction.ts";
import { createPaint } from "../paint.ts";
import { type Chat, currentOf, type SlashCommand, tell } from "./chat.ts";
import { contextBar } from "./context-bar.ts";

/** What a chat can do about what the model is shown of it. */
export const COMPACTION_COMMANDS: Readonly<Record<string, SlashCommand>> = {
  context: {
    meaning: "show what fills the model's context; rkat session context shows all of it",
    run: async (chat) => {
      const { io } = chat.invocation;
      const context = await chat.opened.runtime.dispatch("readContext", { session_id: currentOf(chat) });
      io.stdout.write(`${contextBar(context, io).join("\n")}\n`);
      return false;
    },
  },
  compact: {
    takes: "[INSTRUCTIONS]",
    meaning: "summarise the older turns now; say what the summary must not leave out",
    run: async (chat, rest) => {
      requireCompaction(chat);
      await compact(chat, rest);
      return false;
    },
  },
  receipt: {
    takes: "[all]",
    meaning: "show the newest compaction: its summary, and what it took out",
    run: async (chat, rest) => {
      requireCompaction(chat);
      if (!(await wasCompacted(chat))) return tell(chat, "There is no compaction yet; /compact makes one.");
      const how = { word: undefined, all: rest === "all", allHint: "/receipt all" };
      await showCompaction(chat.invocation.io, chat.opened, { id: currentOf(chat), ...how });
      return false;
    },
  },
  undo: {
    takes: "COMPACTION",
    meaning: "undo a compaction, the newest that stands unless one is named; what was said since stays",
    run: async (chat, rest) => {
      requireCompaction(chat);
      if (!(await wasCompacted(chat, { isStanding: true }))) return tell(chat, "There is no compaction to undo.");
      await undoCompaction(chat.invocation.io, chat.opened, {
        id: currentOf(chat),
        word: rest === "" ? undefined : rest,
      });
      return false;
    },
  },
};

async function compact(chat: Chat, rest: string): Promise<void> {
  const { invocation, opened, source } = chat;
  const { io } = invocation;
  const id = currentOf(chat);
  const instructions = rest === "" ? {} : { instructions: rest };
  const { result, failure } = await source.during((signal) => attempt(io, opened, { id, ...instructions, signal }));
  if (failure !== undefined) throw failure;
  const { compaction, reason } = result;
  if (compaction === undefined) {
    tell(chat, `Not compacted: ${reason ?? ""}.`);
    return;
  }
  io.stdout.write(`${compactedLines(io, compaction).join("\n")}\n`);
  io.stderr.write(`${createPaint(io.stderr, io.env).dim("/receipt shows what it did, /undo brings it back")}\n`);
}

function requireCompaction({ opened }: Chat): void {
  requireCapability(new Set(opened.config.features), "session-compaction");
}

async function wasCompacted(chat: Chat, { isStanding = false } = {}): Promise<boolean> {
  const session_id = chat.conversation.sessionId;
  if (session_id === undefined) return false;
  const { compactions } = await chat.opened.runtime.dispatch("listCompactions", { session_id });
  return compactions.some(({ undone }) => !(isStanding && undone));
}
