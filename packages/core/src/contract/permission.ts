import { Scope } from "./caller.ts";
import { cliFlag } from "./input.ts";
import { z } from "./schema.ts";

/** What the server of a running call asks the user. */
const ServerQuestion = z.object({
  server: z.string().describe("the MCP server that asks"),
  message: z.string().describe("the server's text, which is data: rkat does not vouch for it"),
  schema: z.record(z.string(), z.unknown()).describe("the JSON schema of the answer, an object of plain fields"),
});
export type ServerQuestion = z.infer<typeof ServerQuestion>;

/** A call that waits for approval, or for the answer to a question of its server. */
export const AskedCall = z.object({
  id: z.string().describe("the call's id"),
  name: z.string().describe("the tool it calls"),
  args: z.record(z.string(), z.unknown()).describe("the arguments of the call"),
  why: z.string().describe("why it needs approval"),
  always: z
    .array(z.string())
    .optional()
    .describe("the rules that allowing it for the session or the project would add; absent if none is safe"),
  question: ServerQuestion.optional().describe("only for a call that runs: what its MCP server asks the user"),
});
export type AskedCall = z.infer<typeof AskedCall>;

export const approval_id = z.string().describe("the id of the approval request");

const Decision = z.enum(["allow", "deny", "cancel"]);

/** For how long an answer counts. */
export const Remember = z.enum(["once", "session", "project"]);
export type Remember = z.infer<typeof Remember>;

/** A person's word on calls; the fields of its entry, its event and its operation. */
export const Answer = {
  decision: Decision.describe(
    "whether the calls may run; a server's question is answered, declined or dismissed by it",
  ),
  calls: z.array(z.string()).describe("the ids of the answered calls"),
  remember: Remember.describe("how long it holds: once, or for calls like these in the session or the project"),
  rules: z.array(z.string()).optional().describe("the rules it adds"),
  reason: z.string().optional().describe("why not; the model sees it"),
  by: z.string().optional().describe("who answered: the name of a token, or timeout"),
};

/** Inputs of a turn that the settings do not contain: another process needs them to continue it. */
export const TurnInputs = {
  overlay: z
    .object({ allowed_tools: z.array(z.string()).optional(), blocked_tools: z.array(z.string()).optional() })
    .optional()
    .describe("the tools it was restricted to"),
  caller: z
    .object({
      name: z.string(),
      scopes: z.array(Scope),
      labels: z.record(z.string(), z.string()),
      max_cost_per_day: z.number().optional(),
    })
    .optional()
    .describe("who asked for the turn: its tools see no more than that"),
};

/** What continues a turn that waits. */
const Progress = z.object({
  turns: z.number().describe("model calls made before"),
  elapsed_ms: z.number().describe("time it has taken, without the wait"),
  seq_before: z.number().describe("the seq before its first entry"),
  tool_calls_before: z.number().describe("tool calls of the session before it"),
  ...TurnInputs,
  hooks: z
    .array(
      z.object({
        id: z.string().describe("the call's id"),
        args: z.record(z.string(), z.unknown()).optional().describe("what hooks have made of its arguments"),
        refusal: z.string().optional().describe("what the model sees of a call that a hook refused"),
      }),
    )
    .optional()
    .describe("what hooks decided about calls of the answer; they are not asked again"),
});
export type Progress = z.infer<typeof Progress>;

/** The fields that answer a server's question. */
export const content = z.record(z.string(), z.unknown());

export const AskedEntry = {
  approval_id,
  calls: z.array(AskedCall),
  /** What continues the calls whose servers ask; it may be the servers' own, so clients do not see it. */
  resuming: z.array(z.object({ id: z.string(), value: z.record(z.string(), z.unknown()) })).optional(),
  /** Later answers are refused, and the call counts as denied. */
  expires_at_ms: z.number(),
  progress: Progress,
};

/** What becomes of a tool call: it runs, needs approval, or is refused. */
export const PermissionVerdict = z.enum(["allow", "ask", "deny"], { error: "write allow, ask or deny" });
export type PermissionVerdict = z.infer<typeof PermissionVerdict>;

const PATTERN_CHARS_MAX = 1_000;
const PATTERNS_MAX = 1_000;

/** One pattern of a rule, read. A star in a text stands for any signs; a star after a backslash is a star. */
export type PermissionPattern =
  | { readonly kind: "tool"; readonly tool: string }
  | { readonly kind: "shell"; readonly words: readonly string[] }
  | { readonly kind: "route"; readonly from: string; readonly to: string }
  | { readonly kind: "path"; readonly tool: string; readonly path: string }
  | { readonly kind: "mcp"; readonly server: string; readonly tool: string; readonly fingerprint?: string };

/** Reads a pattern; a text in its place says what is wrong with it and what to write. */
export function readPattern(text: string): PermissionPattern | string {
  const shown = JSON.stringify(text.slice(0, 80));
  if (text.length > PATTERN_CHARS_MAX) return `${shown}… is too long; write at most ${PATTERN_CHARS_MAX} signs`;
  const open = text.indexOf("(");
  const name = (open < 0 ? text : text.slice(0, open)).trim();
  if (/^(?:bash|sh)$/i.test(name)) return `${shown} names no tool of rkat; write shell or shell(git *)`;
  if (!/^[\w.*-]+$/.test(name)) {
    return `${shown} is no pattern; write the name of a tool, shell(git *), apply_patch(src/**), mcp(server) or *`;
  }
  if (name === "comms") {
    const [from = "", to = "", ...more] = text
      .trimEnd()
      .slice(open + 1, -1)
      .split(">")
      .map((end) => end.trim());
    const isWhole = open >= 0 && text.trimEnd().endsWith(")") && more.length === 0;
    if (!isWhole || !/^\S+$/u.test(from) || !/^\S+$/u.test(to))
      return `${shown} does not name who writes to whom; write comms(ada > bob), comms(* > bob) or comms(* > *)`;
    return { kind: "route", from, to };
  }
  if (open < 0) {
    return name === "mcp"
      ? `${shown} names no server; write mcp(server), mcp(server:tool) or mcp(*)`
      : { kind: "tool", tool: name };
  }
  const inside = text.trimEnd().endsWith(")")
    ? text
        .trimEnd()
        .slice(open + 1, -1)
        .trim()
    : "";
  if (inside === "")
    return `${shown} says nothing in its parentheses; write it like ${EXAMPLES[name] ?? `${name}(src/**)`}`;
  if (name === "shell") return readShell(inside, shown);
  if (name !== "mcp") {
    if (inside.startsWith("~")) return `${shown} begins with ~, which is not known here; write the folder out`;
    return /^\*{1,2}$/.test(inside) ? { kind: "tool", tool: name } : { kind: "path", tool: name, path: inside };
  }
  const [, server = "", tool = "*"] = /^([^:]*)(?::(.*))?$/s.exec(inside) ?? [];
  if (server === "" || tool === "") return `${shown} names no server or no tool; write mcp(server) or mcp(server:tool)`;
  const [, named = tool, fingerprint] = FINGERPRINTED.exec(tool) ?? [];
  return { kind: "mcp", server, tool: named, ...(fingerprint === undefined ? {} : { fingerprint }) };
}

/** What an answer allows is a tool of an MCP server as it was described then. */
const FINGERPRINTED = /^(.*)#([0-9a-f]{32})$/s;

const EXAMPLES: Readonly<Record<string, string>> = { shell: "shell(git *)", mcp: "mcp(server:tool)" };

function readShell(text: string, shown: string): PermissionPattern | string {
  const words = splitWords(text);
  if (words === undefined) return `${shown} has a quote that does not end; close it, or write a backslash before it`;
  return words.length === 1 && words[0] === "*" ? { kind: "tool", tool: "shell" } : { kind: "shell", words };
}

/** The words of a command's pattern; quotes hold one together, and a star in them is a star. Undefined for an open quote. */
function splitWords(text: string): readonly string[] | undefined {
  const words: string[] = [];
  let word: string | undefined;
  let quote = "";
  for (let at = 0; at < text.length; at += 1) {
    const sign = text.charAt(at);
    if (sign === "\\") {
      at += 1;
      word = `${word ?? ""}\\${text.charAt(at)}`;
    } else if (sign === quote) {
      quote = "";
    } else if (quote !== "") {
      word = `${word ?? ""}${/[*\\]/.test(sign) ? "\\" : ""}${sign}`;
    } else if (sign === "'" || sign === '"') {
      quote = sign;
      word ??= "";
    } else if (!/\s/.test(sign)) {
      word = `${word ?? ""}${sign}`;
    } else if (word !== undefined) {
      words.push(word);
      word = undefined;
    }
  }
  if (quote !== "") return undefined;
  return word === undefined ? words : [...words, word];
}

const Pattern = z.string({ error: "write a text, like shell(git *)" }).superRefine((text, issues) => {
  const read = readPattern(text);
  if (typeof read === "string") issues.addIssue({ code: "custom", message: read });
});

const patterns = (what: string) => {
  const error = 'write a list of patterns, like ["shell(git *)"]';
  return z
    .array(Pattern, { error })
    .max(PATTERNS_MAX, { error: `write at most ${PATTERNS_MAX} patterns` })
    .optional()
    .describe(what);
};

/** Which tool calls are allowed, asked about or denied; docs/permissions.md has the patterns and who wins. */
export const PermissionRules = z.strictObject(
  {
    allow: cliFlag("--allow <rule>", patterns("calls that run without approval")),
    ask: cliFlag("--ask <rule>", patterns("calls that need approval")),
    deny: cliFlag("--deny <rule>", patterns("calls that are refused; these rules win over the others")),
    otherwise: z
      .enum(["allow", "ask"], { error: "write allow or ask" })
      .optional()
      .describe("what happens to shell and patch calls without a matching rule; by default, allow"),
  },
  {
    // A rule that is misspelt and ignored would be found missing after the damage.
    error: (issue) =>
      issue.code === "unrecognized_keys"
        ? `${issue.keys.join(", ")} is no kind of rule; write allow, ask or deny`
        : 'write an object of rules, like {"allow": ["shell(git *)"]}',
  },
);
/** The schema's output, for reading. */
export type PermissionRules = {
  readonly [K in Exclude<keyof z.infer<typeof PermissionRules>, "otherwise">]?: readonly string[] | undefined;
} & { readonly otherwise?: "allow" | "ask" | undefined };
