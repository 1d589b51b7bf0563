import type { AvailableCommand } from "@agentclientprotocol/sdk";
import type { Compaction } from "@rkat/core/contract/compaction";
import { invalid } from "@rkat/core/contract/error";
import type { CallContext, Dispatch } from "@rkat/core/runtime/dispatch";

export interface SlashParts {
  readonly dispatch: Dispatch;
  readonly sessionId: string;
  readonly call: CallContext;
}

interface SlashCommand {
  readonly description: string;
  readonly hint?: string;
  run(parts: SlashParts, rest: string): Promise<string>;
}

const HITS_SHOWN = 5;
const LOST_SHOWN = 20;
const SEARCHED_LAST = 50;

const COMMANDS: Readonly<Record<string, SlashCommand>> = {
  compact: {
    description: "Summarise the older turns now",
    hint: "what the summary must not leave out",
    run: async ({ dispatch, sessionId, call }, rest) => {
      const instructions = rest === "" ? {} : { instructions: rest };
      const { compaction, reason } = await dispatch("compactSession", { session_id: sessionId, ...instructions }, call);
      return compaction === undefined
        ? `Not compacted: ${reason ?? "there is nothing to take out"}.`
        : sizes(compaction);
    },
  },
  receipt: {
    description: "Show the newest compaction: its summary, and where its facts are now",
    run: async (parts) => {
      const newest = (await compactionsOf(parts)).at(-1);
      return newest === undefined ? "There is no compaction yet; /compact makes one." : receiptText(newest);
    },
  },
  undo: {
    description: "Undo a compaction, by default the newest",
    hint: "the id of a compaction",
    run: async (parts, rest) => {
      const standing = (await compactionsOf(parts)).filter(({ undone }) => !undone);
      const compaction_id = rest === "" ? standing.at(-1)?.compaction_id : rest;
      if (compaction_id === undefined) return "There is no compaction to undo.";
      const input = { session_id: parts.sessionId, compaction_id };
      const { messages, estimated_tokens } = await parts.dispatch("undoCompaction", input, parts.call);
      return `Undone. The context has ${messages} messages, about ${estimated_tokens} tokens.`;
    },
  },
  pin: {
    description: "Pin a message so that compactions keep it; by default your newest",
    hint: "the seq of a message",
    run: async ({ dispatch, sessionId, call }, rest) => {
      const seq = rest === "" ? await newestOfUser({ dispatch, sessionId, call }) : Number(rest);
      const { pins } = await dispatch("pinMessage", { session_id: sessionId, seq }, call);
      return `Pinned message ${seq}. Pinned are: ${pins.join(", ")}.`;
    },
  },
  memory: {
    description: "Search what compactions removed, in this and other sessions; with -a, everything",
    hint: "[-a] what to look for",
    run: async ({ dispatch, call }, rest) => {
      const isAll = /^-a(?:\s|$)/.test(rest);
      const input = { query: isAll ? rest.slice(2).trim() : rest, limit: HITS_SHOWN };
      const { results } = await dispatch(isAll ? "searchHistory" : "searchMemory", input, call);
      if (results.length === 0) return "Nothing was found.";
      const hits = results.map(({ content, score, created_at, role }) => {
        const quoted = content.split("\n").join("\n  > ");
        return `- ${role}, ${created_at.slice(0, 10)}, score ${score.toFixed(2)}\n  > ${quoted}`;
      });
      return hits.join("\n");
    },
  },
};

export function availableCommands(): AvailableCommand[] {
  return Object.entries(COMMANDS).map(([name, { description, hint }]) => ({
    name,
    description,
    ...(hint === undefined ? {} : { input: { hint } }),
  }));
}

/** The command a prompt is, and what follows it; undefined for any other prompt, which may begin with a path. */
export function parseSlash(text: string): { readonly name: string; readonly rest: string } | undefined {
  const [, name = "", rest = ""] = /^\/([a-z]+)(?:\s([\s\S]*))?$/.exec(text.trim()) ?? [];
  return Object.hasOwn(COMMANDS, name) ? { name, rest: rest.trim() } : undefined;
}

export async function runSlash(parts: SlashParts, { name, rest }: { name: string; rest: string }): Promise<string> {
  const command = COMMANDS[name];
  if (command === undefined) throw invalid(`there is no /${name}`);
  return command.run(parts, rest);
}

async function compactionsOf({ dispatch, sessionId, call }: SlashParts): Promise<readonly Compaction[]> {
  return (await dispatch("listCompactions", { session_id: sessionId }, call)).compactions;
}

async function newestOfUser({ dispatch, sessionId, call }: SlashParts): Promise<number> {
  const { message_count } = await dispatch("readHistory", { session_id: sessionId, limit: 1 }, call);
  const offset = Math.max(0, message_count - SEARCHED_LAST);
  const { messages } = await dispatch("readHistory", { session_id: sessionId, offset }, call);
  const newest = messages.findLast(({ role }) => role === "user");
  if (newest !== undefined) return newest.seq;
  throw invalid("there is no message of yours to pin; write /pin and the seq of one");
}

function sizes({ tokens_before, tokens_after, messages_before, messages_after }: Compaction): string {
  const messages = `${messages_before} messages became ${messages_after}`;
  return `Compacted: ${messages}, about ${tokens_before} tokens became ${tokens_after}. /receipt shows what it did, /undo brings it back.`;
}

function receiptText(compaction: Compaction): string {
  const { receipt, summary, compaction_id, undone } = compaction;
  const lost = receipt.items.filter(({ status }) => status === "lost").slice(0, LOST_SHOWN);
  return [
    `Compaction ${compaction_id}${undone ? ", undone" : ""}: about ${compaction.tokens_before} tokens became ${compaction.tokens_after}.`,
    receipt.verdict,
    ...lost.map(({ kind, text }) => `- lost ${kind}: ${text}`),
    "",
    summary,
  ].join("\n");
}
