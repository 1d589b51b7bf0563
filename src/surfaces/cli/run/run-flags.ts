import { type Command, Option } from "commander";
import type { JsonObject } from "../../../contract/session.ts";
import { duration, json, jsonObject, type Pair, pairs, repeated, wholeFrom } from "../flag-values.ts";
import type { StdinMode } from "./prompt.ts";

/** The flags of `rkat run`, parsed. */
export interface RunFlags {
  readonly model?: string;
  readonly provider?: string;
  readonly system?: string;
  readonly instructions: readonly string[];
  readonly param: readonly Pair[];
  readonly paramsJson?: JsonObject;
  readonly maxTokens?: number;
  readonly maxDuration?: number;
  readonly maxToolCalls?: number;
  readonly maxTurns?: number;
  readonly maxTokensPerTurn?: number;
  readonly tools?: "safe" | "workspace" | "full" | "none";
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
  readonly label: readonly Pair[];
  readonly appContext?: { readonly value: unknown };
  readonly compactThreshold?: number;
}

/** Declares the flags; what each may hold is checked while the command line is parsed. */
export function addRunFlags(command: Command, own: readonly Option[]): void {
  const groups: Readonly<Record<string, readonly Option[]>> = {
    Model: modelFlags(),
    "Budgets (the turn ends gracefully, its text is kept)": budgetFlags(),
    Tools: toolFlags(),
    Output: outputFlags(),
    "Input and session": [...own, ...sessionFlags()],
  };
  for (const [group, options] of Object.entries(groups)) {
    for (const option of options) command.addOption(option.helpGroup(group));
  }
}

function modelFlags(): readonly Option[] {
  return [
    new Option("-m, --model <name>", "such as claude-sonnet-5-5, ollama/llama3.2, offline; see rkat models"),
    new Option("-p, --provider <name>", "who serves it: anthropic, openai, gemini, self_hosted, offline"),
    new Option("--system <text>", "the system prompt"),
    repeated("--instructions <text>", "a further instruction; may be repeated"),
    pairs("--param <key=value>", "a parameter for the provider, JSON or text; may be repeated"),
    new Option("--params-json <json>", "the same as one JSON object").argParser(jsonObject('{"temperature": 0}')),
  ];
}

function budgetFlags(): readonly Option[] {
  return [
    new Option("--max-tokens <n>", "tokens of the whole session, input and output").argParser(wholeFrom(1)),
    new Option("-d, --max-duration <time>", "time for the turn, such as 30s, 5m, 1h30m").argParser(duration),
    new Option("--max-tool-calls <n>", "tool calls of the session").argParser(wholeFrom(0)),
    new Option("--max-turns <n>", "model calls in the turn").argParser(wholeFrom(1)),
    new Option("--max-tokens-per-turn <n>", "output tokens of one model call").argParser(wholeFrom(1)),
  ];
}

function toolFlags(): readonly Option[] {
  return [
    new Option(
      "-t, --tools <preset>",
      "none · safe, the default: time, tasks, memory · workspace: and files, shell · full: all there are",
    ).choices(["safe", "workspace", "full", "none"]),
    new Option("--yolo", "the same as --tools full").conflicts("tools"),
    new Option("--memory", "search of what was said before, also with -t none or where [tools] memory is false"),
    repeated("--allow-tool <name>", "offer only the tools named so; may be repeated"),
    repeated("--block-tool <name>", "do not offer this tool; may be repeated"),
  ];
}

function outputFlags(): readonly Option[] {
  return [
    new Option("-o, --output <format>", "text, the default, or json").choices(["text", "json"]).default("text"),
    new Option("--json", "the same as --output json").implies({ output: "json" }),
    new Option("--events", "one JSON event a line as they happen, the result last").implies({ output: "json" }),
    new Option("--schema <file|json>", "a JSON schema the result must match; prints the result as JSON"),
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

function sessionFlags(): readonly Option[] {
  return [
    pairs("--label <key=value>", "a label on the session; may be repeated"),
    new Option("--app-context <json>", "data that is kept with the session").argParser((text) => ({
      value: json(text),
    })),
    new Option(
      "--compact-threshold <tokens>",
      "compact a new session's context when it grows to this; without it, 80 % of the window",
    ).argParser(wholeFrom(1)),
  ];
}
