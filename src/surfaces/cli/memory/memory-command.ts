import type { Command, Option } from "commander";
import { addFieldFlags } from "../field-flags.ts";
import { wholeFrom } from "../flag-values.ts";
import { describeHelp, holdCommands } from "../help.ts";
import { withMemory } from "../open-runtime.ts";
import type { Invocation } from "../parts.ts";
import { SELECTOR_HINT } from "../sessions/selector.ts";
import { showMemoryStatus } from "./memory-status.ts";
import { type SearchFlags, searchAndShow } from "./search-memory.ts";

/** Declares `rkat memory`: finding again what was said in the sessions of this folder. */
export function addMemoryCommand(program: Command, invocation: Invocation): void {
  const memory = holdCommands(program.command("memory"))
    .summary("search what was said, in any session of this folder")
    .description("Searches what was said in the sessions of this folder, by words and by meaning; no model is asked.");
  addSearches(memory, invocation);
  const status = memory
    .command("status")
    .summary("say what memory holds and how it searches")
    .description("Says what memory holds, what is still to be taken in, and whether it searches by meaning, too.")
    .option("--json", "as JSON")
    .action((flags: { readonly json?: boolean }) =>
      withMemory(invocation, (opened) => showMemoryStatus(invocation.io, opened, flags)),
    );
  describeHelp(status, { examples: [["rkat memory status", "how much, how fresh, and by what it searches"]] });
  describeHelp(memory, {
    examples: [
      ['rkat memory search "the staging host"', "what compactions took out of a context"],
      ['rkat memory history "the staging host"', "everything that was said"],
      ["rkat memory status", "what there is to search"],
    ],
    notes: [["A session is named by", SELECTOR_HINT]],
  });
}

function addSearches(parent: Command, invocation: Invocation): void {
  const search = parent
    .command("search")
    .summary("search what compactions took out")
    .description("Searches what compactions took out of the contexts of this folder's sessions, the best hit first.");
  describeHelp(onQuery(search, invocation, "discarded"), {
    examples: [
      ["rkat memory search which port does staging use", "quotes are not needed"],
      ["rkat memory search heron --session last --limit 1", "the best of one session"],
      ["rkat memory search heron --session last --as-of 40", "as it stood when seq 40 was said"],
    ],
    notes: NOTES,
  });
  const history = parent
    .command("history")
    .summary("search everything that was said")
    .description("Searches everything that was said in this folder's sessions, compacted or not, the best hit first.");
  describeHelp(onQuery(history, invocation, "everything"), {
    examples: [
      ["rkat memory history heron", "also what is still in a context"],
      ["rkat memory history heron --agent ada", "everything an agent remembers"],
      ["rkat memory history heron --json | jq '.results[].session_id'", "for scripts"],
    ],
    notes: NOTES,
  });
}

const NOTES = [
  ["A hit tells", "its score from 0 to 1, when, in which session, at which turn and seq, and who said it"],
  ["A session is named by", SELECTOR_HINT],
  ["Exit codes", "0 also when nothing is found · 2 wrong input · 10 no such session · 40 without memory-store"],
] as const;

function onQuery(command: Command, invocation: Invocation, reach: "discarded" | "everything"): Command {
  const flags = { limit: (limit: Option) => limit.argParser(wholeFrom(1)) };
  return addFieldFlags(command.argument("<query...>").usage("QUERY… [options]"), "searchMemory", flags)
    .option("--all", "show every hit whole, not some lines of it")
    .option("--json", "as JSON")
    .action((words: readonly string[], flags: SearchFlags) =>
      withMemory(invocation, (opened) =>
        searchAndShow(invocation.io, opened, { query: words.join(" "), reach, ...flags }),
      ),
    );
}
