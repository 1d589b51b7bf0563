import type { OperationOutput } from "@rkat/core/contract/operations";
import { withoutControls } from "@rkat/server/http/terminal-text";
import { Option } from "commander";
import { type CommandRow, command, type OpenedCall, onOpened, operation } from "../command-row.ts";
import { fieldOptions, fieldsOf, jsonFlag } from "../flags.ts";
import { ageSince, createPaint, grouped, jsonText, table, writeJson } from "../io.ts";
import { compactAgent, remember, takeNote } from "./agent-changes.ts";
import { agentReceiptLines, agentStatusLines, historyLines, strangerText } from "./agent-views.ts";

/** `rkat agent`: what agents remember. */
export const agentRows: readonly CommandRow[] = [
  command("agent", {
    text: "Give agents memories, show and compact them: the newest are kept word for word, those before in a short-term summary, all older ones in a long-term summary. Nothing is deleted.",
    also: ["agents"],
    notes: [
      [
        "An agent is named by",
        'letters, digits, "_" and "-", beginning with a letter or digit; upper and lower case differ',
      ],
      [
        "Exit codes",
        "0 done, or nothing to do · 2 wrong input · 30 a compaction failed · 31 the store failed",
        "40 without session-store",
      ],
    ],
  }),
  command("agent remember NAME [TEXT…]", {
    text: "Add a memory, or one per line of stdin. A compaction that becomes due runs before the command ends, and is reported on stderr.",
    usage: "NAME TEXT… [options]",
    flags: () => [
      ...fieldOptions("remember"),
      new Option("--json", "as JSON; of several memories, the answer to the last"),
    ],
    examples: [
      ["rkat agent remember ada I saw a heron", "quotes are not needed"],
      ['rkat agent remember ada "It flew away" --metadata \'{"place": "pond"}\'', "with facts about it"],
      ["rkat agent remember ada < diary.txt", "each line that is not empty"],
      ["rkat agent remember ada -- -3 degrees today", "a text that begins with a dash"],
    ],
    notes: [["From stdin", "with - for the text, or without one: each line that is not empty is a memory"]],
    run: remember,
  }),
  command("agent note NAME [TEXT…]", {
    text: "Add a private note; the agent's context shows it when the newest memories mention its subject.",
    usage: "NAME TEXT… [options]",
    flags: () => [...fieldOptions("takeNote"), jsonFlag()],
    examples: [
      ['rkat agent note ada "The pond freezes in January" --title pond', "shown when the pond is mentioned"],
      ["rkat agent note ada - < recipe.md", "a whole file"],
    ],
    run: takeNote,
  }),
  operation("agent context NAME", "readAgentContext", {
    examples: [
      ["rkat agent context ada", "all of it"],
      ["rkat agent context ada --immediate 5", "only the newest five word for word"],
    ],
    view: ({ prompt, immediate }, { io, arg }) => {
      if (immediate.length === 0)
        io.stderr.write(`${createPaint(io.stderr, io.env).dim(strangerText(arg("name") ?? ""))}\n`);
      return io.stdout.isTerminal ? withoutControls(prompt) : prompt;
    },
  }),
  operation("agent status NAME", "readAgentStatus", {
    examples: [["rkat agent status ada", "in a chat, @memory-status does the same"]],
    view: agentStatusLines,
  }),
  operation("agent history NAME", "readAgentHistory", {
    examples: [["rkat agent history ada --limit 3", "those of the last three compactions"]],
    view: historyLines,
  }),
  operation<"readAgentReceipt", { readonly json?: boolean; readonly all?: boolean }>(
    "agent receipt NAME",
    "readAgentReceipt",
    {
      flags: () => [new Option("--all", "list every specific")],
      examples: [
        ["rkat agent receipt ada", "of the last compaction"],
        ["rkat agent receipt ada --seq 194 --all", "of the one that the history gives this seq"],
      ],
      view: agentReceiptLines,
    },
  ),
  command("agent export NAME", {
    text: "Print an agent's whole log, one entry per line: every memory, note and summary, oldest first.",
    flags: () => [
      ...fieldOptions("exportAgent"),
      new Option("--json", "instead, one page of it as agent/export answers it"),
    ],
    examples: [["rkat agent export ada | jq -r .body.content", "everything it remembers"]],
    run: onOpened(exportAgent),
  }),
  operation("agent list", "listAgents", {
    examples: [["rkat agent list", "how much each remembers, and since when"]],
    view: ({ agents }, { paint }) => {
      if (agents.length === 0) return "No agents found.";
      // Names come last: some scripts are wider than their letters are many, and nothing after them stays aligned.
      return table(
        paint,
        ["MEMORIES", "CHANGED", "SINCE", "AGENT"],
        agents.map(({ agent, count, created_at, updated_at }) => [
          grouped(count).padStart("MEMORIES".length),
          ageSince(updated_at),
          ageSince(created_at),
          agent,
        ]),
      );
    },
  }),
  command("agent compact NAME", {
    text:
      "Compact an agent's memories now, whether or not it is due: memories that left the immediate window become the " +
      "short-term summary, and the one before goes into the long-term summary.",
    flags: () => [jsonFlag()],
    examples: [["rkat agent compact ada", "in a chat, @compact-memories does the same"]],
    notes: [["Exit codes", "0 done, or nothing to do · 30 it failed, and both summaries are as they were"]],
    run: onOpened((call) =>
      compactAgent(call, { agent: call.arg("name") ?? "", ...call.flags, signal: call.io.interrupt }),
    ),
  }),
];

/** Prints an agent's log: all of it from a seq on, or one page as it is answered. */
async function exportAgent({
  io,
  opened,
  flags,
  arg,
}: OpenedCall<{ readonly json?: boolean; readonly after?: number }>): Promise<void> {
  const input = { agent: arg("name"), ...fieldsOf("exportAgent", flags) };
  let after: number | undefined = flags.after ?? 0;
  while (after !== undefined) {
    const page: OperationOutput<"exportAgent"> = await opened.runtime.dispatch("exportAgent", { ...input, after });
    if (flags.json) return writeJson(io, page);
    for (const entry of page.entries) io.stdout.write(`${jsonText(entry)}\n`);
    after = page.next_after;
  }
}
