import type { CommandEntry, OptionEntry } from "./command-tree.ts";

/** What a server's own help says: servers read their flags themselves, and their help is where those are written. */
export function readUsage(usage: string): Pick<CommandEntry, "description" | "usage" | "options" | "extras"> {
  const [head = "", rest = ""] = usage.split(/^Options:\n/m);
  const [options = "", examples = ""] = rest.split(/^Examples:\n/m);
  return {
    description: head
      .replace(/^Usage: .*\n+/, "")
      .replace(/(?<!\s)\s*\n/g, " ")
      .trim(),
    usage: "[options]",
    options: [...options.matchAll(OPTION_LINE)].map(optionOf),
    extras: { examples: examples.split("\n").flatMap((line) => (line === "" ? [] : [[line.trim(), ""] as const])) },
  };
}

const OPTION_LINE = /^ {2}(?:(-\w), )?(--[\w-]+)(?: ([A-Z]+))? {2,}(\S.*)$/gm;

function optionOf([, short, long = "", value, description = ""]: RegExpMatchArray): OptionEntry {
  return {
    short,
    long,
    value: value?.toLowerCase(),
    isValueOptional: false,
    isRepeated: description.includes("may be repeated"),
    description,
    choices: [],
    fallback: undefined,
    group: "Options",
  };
}
