import { type Command, Option } from "commander";
import { addFieldFlags, jsonFlag } from "../flags.ts";
import { describeHelp, holdCommands } from "../help.ts";
import { withSessions } from "../open-runtime.ts";
import type { Invocation } from "../parts.ts";
import { compactAgent, type NoteFlags, type RememberFlags, remember, takeNote } from "./agent-changes.ts";
import { type AgentReceiptFlags, showAgentReceipt } from "./agent-receipt.ts";
import {
  type AgentExportFlags,
  type ContextFlags,
  exportAgent,
  listAgents,
  nameArgument,
  showAgentContext,
  showAgentHistory,
  showAgentStatus,
} from "./agent-views.ts";

/** Declares `rkat agent`: what agents remember, for as long as they live. */
export function addAgentCommand(program: Command, invocation: Invocation): void {
  const agent = holdCommands(program.command("agent"))
    .alias("agents")
    .summary("give agents memories, see and compact what they remember")
    .description(
      "Gives the agents of this folder memories, and shows what they remember: the newest word for word, those " +
        "before in a short-term summary, all older ones in a long-term summary. Nothing is deleted.",
    );
  addAdditions(agent, invocation);
  addReads(agent, invocation);
  addCompact(agent, invocation);
  describeHelp(agent, {
    examples: [
      ['rkat agent remember ada "I saw a heron"', "an agent is there as soon as it remembers something"],
      ["rkat chat --agent ada", "talk to it; it remembers what is said"],
      ["rkat agent status ada", "how much it remembers, and how"],
      ["rkat agent receipt ada", "what its last compaction kept, and what not"],
      ["rkat agent list", "which there are"],
    ],
    notes: [NAMED, ["Exit codes", ...EXIT_CODES]],
  });
}

const NAMED = [
  "An agent is named by",
  'letters, digits, "_" and "-", beginning with a letter or digit; upper and lower case differ',
] as const;
const EXIT_CODES = [
  "0 done, or nothing to do · 2 wrong input · 30 a compaction failed · 31 the store failed",
  "40 without session-store",
] as const;

function addAdditions(parent: Command, invocation: Invocation): void {
  const add = parent
    .command("remember")
    .summary("add a memory, or a memory a line of stdin")
    .description(
      "Adds a memory to an agent's; from a pipe, each line is one. A compaction that is due with it is made before " +
        "the command ends, and told on stderr.",
    )
    .addArgument(nameArgument())
    .argument("[text...]")
    .usage("NAME TEXT… [options]");
  addFieldFlags(add, "remember")
    .addOption(new Option("--json", "as JSON; of several memories, what came of the last"))
    .action((agent: string, words: readonly string[], flags: RememberFlags) =>
      remember(invocation, { agent, words, ...flags }),
    );
  describeHelp(add, {
    examples: [
      ["rkat agent remember ada I saw a heron", "quotes are not needed"],
      ['rkat agent remember ada "It flew away" --metadata \'{"place": "pond"}\'', "with facts about it"],
      ["rkat agent remember ada < diary.txt", "each line that is not empty"],
      ["rkat agent remember ada -- -3 degrees today", "what begins with a dash"],
    ],
    notes: [["From stdin", "with - for the text, or without one: each line that is not empty is a memory"]],
  });
  const note = parent
    .command("note")
    .summary("keep a private note")
    .description("Keeps a private note of an agent, which its context shows when the newest memories speak of it.")
    .addArgument(nameArgument())
    .argument("[text...]")
    .usage("NAME TEXT… [options]");
  addFieldFlags(note, "takeNote")
    .addOption(jsonFlag())
    .action((agent: string, words: readonly string[], flags: NoteFlags) =>
      takeNote(invocation, { agent, words, ...flags }),
    );
  describeHelp(note, {
    examples: [
      ['rkat agent note ada "The pond freezes in January" --title pond', "shown when the pond is spoken of"],
      ["rkat agent note ada - < recipe.md", "all of a file"],
    ],
  });
}

function addReads(parent: Command, invocation: Invocation): void {
  const { io } = invocation;
  const context = parent
    .command("context")
    .summary("print what an agent is shown of its life")
    .description(
      "Prints what an agent is shown of its life, as the prompt a model reads: who it is, notes, both summaries, then " +
        "the newest memories.",
    )
    .addArgument(nameArgument())
    .usage("NAME [options]");
  addFieldFlags(context, "readAgentContext")
    .addOption(jsonFlag())
    .action((agent: string, flags: ContextFlags) =>
      withSessions(invocation, (opened) => showAgentContext(io, opened, { agent, ...flags })),
    );
  describeHelp(context, {
    examples: [
      ["rkat agent context ada", "all of it"],
      ["rkat agent context ada --immediate 5", "only the newest five word for word"],
    ],
  });
  const status = parent
    .command("status")
    .summary("say what an agent remembers, and how")
    .description("Says what an agent remembers: counts, tiers, the last compaction and the next, then both summaries.")
    .addArgument(nameArgument())
    .usage("NAME [options]")
    .addOption(jsonFlag())
    .action((agent: string, flags: { readonly json?: boolean }) =>
      withSessions(invocation, (opened) => showAgentStatus(io, opened, { agent, ...flags })),
    );
  describeHelp(status, { examples: [["rkat agent status ada", "in a chat, @memory-status does the same"]] });
  const history = parent
    .command("history")
    .summary("show every summary an agent ever had")
    .description("Shows the summaries that an agent's memories were compacted into, newest first.")
    .addArgument(nameArgument())
    .usage("NAME [options]");
  addFieldFlags(history, "readAgentHistory")
    .addOption(jsonFlag())
    .action((agent: string, flags: ContextFlags) =>
      withSessions(invocation, (opened) => showAgentHistory(io, opened, { agent, ...flags })),
    );
  describeHelp(history, { examples: [["rkat agent history ada --limit 3", "those of the last three compactions"]] });
  const receipt = parent
    .command("receipt")
    .summary("show what a compaction kept, moved out of sight or lost")
    .description(
      "Shows a compaction of an agent: both summaries, where every specific of what they sum up is now, what was invented " +
        "and cut, and how good the long-term summary is.",
    )
    .addArgument(nameArgument())
    .usage("NAME [options]");
  addFieldFlags(receipt, "readAgentReceipt")
    .option("--all", "list every specific")
    .addOption(jsonFlag())
    .action((agent: string, flags: AgentReceiptFlags) =>
      withSessions(invocation, (opened) => showAgentReceipt(io, opened, { agent, ...flags })),
    );
  describeHelp(receipt, {
    examples: [
      ["rkat agent receipt ada", "of the last compaction"],
      ["rkat agent receipt ada --seq 194 --all", "of the one that the history gives this seq"],
    ],
  });
  const whole = parent
    .command("export")
    .summary("print everything an agent was ever given, an entry a line")
    .description("Prints an agent's whole log, an entry a line: every memory, note and summary, oldest first.")
    .addArgument(nameArgument())
    .usage("NAME [options]");
  addFieldFlags(whole, "exportAgent")
    .addOption(new Option("--json", "instead, one page of it as agent/export answers it"))
    .action((agent: string, flags: AgentExportFlags) =>
      withSessions(invocation, (opened) => exportAgent(io, opened, { agent, ...flags })),
    );
  describeHelp(whole, {
    examples: [["rkat agent export ada | jq -r .body.content", "what it remembers, to the last word"]],
  });
  const list = parent
    .command("list")
    .summary("list the agents of this folder")
    .description("Lists the agents of this folder, by name.")
    .addOption(jsonFlag())
    .action((flags: { readonly json?: boolean }) =>
      withSessions(invocation, (opened) => listAgents(io, opened, flags)),
    );
  describeHelp(list, { examples: [["rkat agent list", "how much each remembers, and since when"]] });
}

function addCompact(parent: Command, invocation: Invocation): void {
  const compact = parent
    .command("compact")
    .summary("compact an agent's memories now")
    .description(
      "Compacts an agent's memories now, whether or not it is due: what has left the immediate window becomes the " +
        "short-term summary, and the one before goes into the long-term summary.",
    )
    .addArgument(nameArgument())
    .usage("NAME [options]")
    .addOption(jsonFlag())
    .action((agent: string, flags: { readonly json?: boolean }) =>
      withSessions(invocation, (opened) =>
        compactAgent(invocation, opened, { agent, ...flags, signal: invocation.io.interrupt }),
      ),
    );
  describeHelp(compact, {
    examples: [["rkat agent compact ada", "in a chat, @compact-memories does the same"]],
    notes: [["Exit codes", "0 done, or nothing to do · 30 it failed, and both summaries are as they were"]],
  });
}
