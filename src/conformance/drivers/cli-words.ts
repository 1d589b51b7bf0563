import type { OperationName } from "../../contract/operations.ts";
import { type Fields, isFields } from "./driver.ts";

/** An operation's input as the words of the command line (contract §7, §15). */
export function wordsOf(operation: OperationName, input: Fields): readonly string[] {
  const spell = WORDS[operation];
  const left = { ...input };
  const take: Take = (field) => {
    const value = left[field];
    delete left[field];
    return value;
  };
  const words = spell(take);
  const stray = Object.keys(left).find((field) => left[field] !== undefined);
  if (stray !== undefined) throw new Error(`the command line has no flag for ${stray} of ${operation}`);
  return words;
}

/** Takes a field out of the input, so that what nobody took can be told. */
type Take = (field: string) => unknown;

const WORDS: Readonly<Record<OperationName, (take: Take) => readonly string[]>> = {
  createSession: (take) => turn(["run"], take),
  startTurn: (take) => turn(["run", `--resume=${take("session_id")}`], take),
  resumeSession: (take) => turn(["resume", text(take("session_id"))], take),
  interruptTurn: (take) => onSession("interrupt", take),
  readSession: (take) => onSession("show", take),
  listSessions: (take) => [
    ...["session", "list", "--json", ...flag("--limit", take("limit")), ...flag("--offset", take("offset"))],
    ...pairs("--label", take("labels")),
  ],
  readHistory: (take) => [...onSession("show", take), "--history"],
  archiveSession: (take) => onSession("delete", take),
  injectContext: (take) => [...onSession("inject", take), "--", text(take("text"))],
  sendExternalEvent: (take) => {
    take("kind"); // There is one kind.
    return [...onSession("event", take), "--", text(take("event_type")), JSON.stringify(take("payload"))];
  },
  forkSession: (take) => [...onSession("fork", take), ...flag("--at", take("message_index"))],
  forkReplacing: (take) => [
    ...[...onSession("fork", take), ...flag("--at", take("message_index"))],
    ...flag("--replacement", take("replacement")),
  ],
  rewriteTranscript: (take) => {
    const { start, end } = fields(take("selection"));
    const range = [...flag("--from", start), ...flag("--to", end), ...flag("--messages", take("replacement"))];
    return [...onSession("rewrite", take), ...range, ...reasons(take)];
  },
  readRevision: (take) => [
    ...[...onSession("revision", take), text(take("revision"))],
    ...[...flag("--limit", take("limit")), ...flag("--offset", take("offset"))],
  ],
  restoreRevision: (take) => [...onSession("restore", take), text(take("revision")), ...reasons(take)],
  listRewrites: (take) => onSession("rewrites", take),
  readContext: (take) => [...onSession("context", take), ...flag("--at", take("at_seq"))],
  compactSession: (take) => [
    ...onCompactions("run", take),
    ...(take("preview") === true ? ["--preview"] : []),
    ...flag("--instructions", take("instructions")),
  ],
  listCompactions: (take) => onCompactions("list", take),
  undoCompaction: (take) => [...onCompactions("undo", take), text(take("compaction_id"))],
  expandCompaction: (take) => [
    ...[...onCompactions("expand", take), text(take("compaction_id")), ...flag("--from", take("from_seq"))],
    ...[...flag("--to", take("to_seq")), ...flag("--max-tokens", take("max_tokens"))],
  ],
  pinMessage: (take) => [...onSession("pin", take), text(take("seq"))],
  unpinMessage: (take) => [...onSession("unpin", take), text(take("seq"))],
  listPins: (take) => onSession("pins", take),
  searchMemory: (take) => search("search", take),
  searchHistory: (take) => search("history", take),
  readMemoryStatus: () => ["memory", "status", "--json"],
  remember: (take) => [
    ...["agent", "remember", "--json", ...flag("--metadata", take("metadata"))],
    ...["--", text(take("agent")), text(take("content"))],
  ],
  takeNote: (take) => [
    ...["agent", "note", "--json", ...flag("--title", take("title"))],
    ...["--", text(take("agent")), text(take("content"))],
  ],
  readAgentContext: (take) => [...onAgent("context", take), ...flag("--immediate", take("immediate"))],
  compactAgent: (take) => onAgent("compact", take),
  readAgentStatus: (take) => onAgent("status", take),
  listAgents: () => ["agent", "list", "--json"],
  readEventCursor: (take) => onEvents(take),
  listEvents: (take) => onEvents(take),
  readBlob: (take) => ["blob", "get", text(take("blob_id"))],
  readCapabilities: () => ["capabilities", "--json"],
  readModels: () => ["models", "--json"],
  readConfig: () => ["config", "get", "--json", "--with-generation"],
  setConfig: (take) => changeOf("set", take("config"), take),
  patchConfig: (take) => changeOf("patch", take("patch"), take),
};

function turn(command: readonly string[], take: Take): readonly string[] {
  const budget = fields(take("budget_limits"));
  const compaction = fields(take("compaction"));
  const filter = fields(take("tool_filter"));
  return [
    ...[...command, "--events", "--stdin", "off"],
    ...[...flag("--model", take("model")), ...flag("--provider", take("provider"))],
    ...[...flag("--system", take("system_prompt")), ...flag("--max-tokens-per-turn", take("max_tokens"))],
    ...[...flag("--max-tokens", budget.max_tokens), ...flag("--max-tool-calls", budget.max_tool_calls)],
    ...[...flag("--max-duration", budget.max_duration), ...flag("--max-turns", take("max_turns"))],
    ...[...flag("--tools", take("tool_preset")), ...flag("--schema", take("output_schema"))],
    ...[...each("--allow-tool", filter.Allow), ...each("--block-tool", filter.Deny)],
    ...each("--instructions", take("additional_instructions")),
    ...pairs("--label", take("labels")),
    ...[...flag("--params-json", take("provider_params")), ...flag("--app-context", take("app_context"))],
    ...(take("enable_memory") === true ? ["--memory"] : []),
    ...flag("--compact-threshold", compaction.auto_compact_threshold),
    ...["--", text(take("prompt"))],
  ];
}

function search(command: "search" | "history", take: Take): readonly string[] {
  take("scope"); // A session that is named is the scope.
  return [
    ...["memory", command, "--json", ...flag("--limit", take("limit")), ...flag("--session", take("session_id"))],
    ...[...flag("--agent", take("agent")), ...flag("--as-of", take("as_of_seq")), "--", text(take("query"))],
  ];
}

function reasons(take: Take): readonly string[] {
  const { kind, note } = fields(take("reason"));
  return [
    ...[...flag("--reason", kind), ...flag("--note", note), ...flag("--actor", take("actor"))],
    ...flag("--expect", take("expected_parent_revision")),
  ];
}

function changeOf(command: "set" | "patch", table: unknown, take: Take): readonly string[] {
  return ["config", command, "--json", text(table), ...flag("--expected-generation", take("expected_generation"))];
}

function onSession(command: string, take: Take): readonly string[] {
  return ["session", command, text(take("session_id")), "--json"];
}

function onCompactions(command: string, take: Take): readonly string[] {
  return ["compact", command, text(take("session_id")), "--json"];
}

function onAgent(command: string, take: Take): readonly string[] {
  return ["agent", command, text(take("agent")), "--json"];
}

function onEvents(take: Take): readonly string[] {
  const { session_id } = fields(take("scope"));
  const { sequence } = fields(take("cursor"));
  return ["session", "events", text(session_id), "--json", ...flag("--after", sequence)];
}

function flag(name: string, value: unknown): readonly string[] {
  return value === undefined ? [] : [`${name}=${text(value)}`];
}

function each(name: string, values: unknown): readonly string[] {
  return Array.isArray(values) ? values.flatMap((value) => flag(name, value)) : [];
}

function pairs(name: string, values: unknown): readonly string[] {
  return Object.entries(fields(values)).flatMap(([key, value]) => flag(name, `${key}=${value}`));
}

function fields(value: unknown): Fields {
  return isFields(value) ? value : {};
}

function text(value: unknown): string {
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
