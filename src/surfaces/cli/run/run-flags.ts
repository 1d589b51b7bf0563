import { type Command, Option } from "commander";
import { fieldFlags } from "../field-flags.ts";
import { type Pair, pairs } from "../flag-values.ts";
import type { StdinMode } from "./prompt.ts";

/** The flags of `rkat run` that are looked at one by one; those that are fields of a session are handed on. */
export interface RunFlags {
  readonly model?: string;
  readonly system?: string;
  readonly maxTokens?: number;
  readonly param: readonly Pair[];
  readonly paramsJson?: object;
  readonly tools?: string;
  readonly yolo?: boolean;
  readonly memory?: boolean;
  readonly allowTool: readonly string[];
  readonly blockTool: readonly string[];
  readonly output: "text" | "json";
  readonly events?: boolean;
  readonly schema?: string;
  /** Undefined: as suits the output. */
  readonly stream?: boolean;
  readonly verbose?: boolean;
  readonly stdin: StdinMode;
  /** Which session to go on with; undefined for a new one. */
  readonly resume?: string;
  readonly compactThreshold?: number;
}

/** Declares the flags; what each may hold is checked while the command line is parsed. */
export function addRunFlags(command: Command, own: readonly Option[]): void {
  const fields = Map.groupBy(fieldFlags("createSession"), ({ path: [field] }) => field);
  const groups: Readonly<Record<string, readonly (Option | string)[]>> = {
    Model: ["model", "provider", "system_prompt", "additional_instructions", paramFlag(), "provider_params"],
    "Budgets (the turn ends gracefully, its text is kept)": ["budget_limits", "max_turns", "max_tokens"],
    Tools: ["tool_preset", yoloFlag(), "enable_memory", "tool_filter"],
    Output: [...formatFlags(), "output_schema", ...streamFlags()],
  };
  // What is safe comes first where one chooses.
  for (const { option } of fields.get("tool_preset") ?? []) option.choices(["safe", "workspace", "full", "none"]);
  const named = Object.values(groups).flat();
  const rest = [...fields.keys()].filter((field) => !named.includes(field));
  for (const [group, members] of Object.entries({ ...groups, "Input and session": [...own, ...rest] })) {
    for (const one of members) {
      const options = typeof one === "string" ? (fields.get(one) ?? []).map(({ option }) => option) : [one];
      for (const option of options) command.addOption(option.helpGroup(group));
    }
  }
}

function paramFlag(): Option {
  return pairs("--param <key=value>", "a parameter for the provider, JSON or text; may be repeated");
}

function yoloFlag(): Option {
  return new Option("--yolo", "the same as --tools full").conflicts("tools");
}

function formatFlags(): readonly Option[] {
  return [
    new Option("-o, --output <format>", "text, the default, or json").choices(["text", "json"]).default("text"),
    new Option("--json", "the same as --output json").implies({ output: "json" }),
    new Option("--events", "one JSON event a line as they happen, the result last").implies({ output: "json" }),
  ];
}

function streamFlags(): readonly Option[] {
  return [
    new Option("-s, --stream", "print text as it arrives; the default on a terminal"),
    new Option("--no-stream", "print the text when the turn is over"),
    new Option("-v, --verbose", "tell every event on stderr"),
  ];
}

/** How what is piped in is taken. */
export function stdinFlag(): Option {
  const meaning = "auto, the default: a pipe or file becomes context · blob: always read · off: never";
  return new Option("--stdin <mode>", meaning).choices(["auto", "blob", "off"]).default("auto");
}

/** Which session to go on with. */
export function resumeFlag(): Option {
  return new Option(
    "--resume [session]",
    "go on with a session: the last one, or the one named as in rkat help session",
  );
}
