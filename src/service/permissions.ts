import { type Caller, hasScope, requireScope } from "../contract/caller.ts";
import { invalid, RuntimeError } from "../contract/error.ts";
import type { PermissionRules } from "../contract/permission.ts";
import type { JsonObject, SessionSettings } from "../contract/session.ts";
import type { Judged, Permit } from "../core/approval.ts";
import type { PermissionLayer, PermissionPolicy } from "../core/permission/judge.ts";
import type { ReadLink } from "../core/permission/paths.ts";
import { decidesProgram, isHarmlessForPrograms } from "../core/permission/shell-command.ts";
import type { SessionState } from "../core/session-state.ts";
import type { Tool } from "../ports/tool.ts";
import type { Service } from "./dispatch.ts";

const ALLOWED: Judged = { verdict: "allow", why: "" };
/** What changes something outside of the session. */
const HANDS: readonly string[] = ["shell", "apply_patch"];

/** What the calls of a session's tools are judged by: the layers everybody has, its own rules, and people's words. */
export function createPermits(of: {
  readonly layers: readonly PermissionLayer[];
  /** The project's folder, which paths are relative to. */
  readonly root: string;
  /** What runs command lines, where it was configured. */
  readonly shellProgram: string | undefined;
  /** Follows symbolic links of the files that calls name. */
  readonly readLink: ReadLink;
  /** What the skills allow that a session has loaded. */
  readonly allowedBySkills?: (state: SessionState) => Promise<readonly string[]>;
}): (state: SessionState, tools: ReadonlyMap<string, Tool>) => Permit {
  const { root, shellProgram, readLink } = of;
  return (state, tools) => {
    const { permissions, sub_agent } = state.settings;
    const allowed = [...(sub_agent?.rules ?? []), ...state.allowed];
    const rules: readonly PermissionLayer[] = [
      ...of.layers,
      ...(permissions === undefined ? [] : [{ from: "session" as const, rules: permissions }]),
      ...(allowed.length === 0 ? [] : [{ from: "answer" as const, rules: { allow: allowed } }]),
    ];
    const asksOtherwise = rules.some((layer) => layer.rules.otherwise === "ask");
    // Read when the first call is made: most turns make none.
    const policies = new Map<string, PermissionPolicy>();
    return async ({ name, args }) => {
      const tool = tools.get(name);
      // Nobody is asked about what cannot run.
      if (tool === undefined) return ALLOWED;
      // Whoever made the tool wants a person asked, which no text can answer.
      const isMadeToAsk = await needsApproval(tool, args);
      // A skill may have been loaded a moment ago.
      const allow = isMadeToAsk ? [] : ((await of.allowedBySkills?.(state)) ?? []);
      const judge = async (called: string, calledWith: JsonObject, fallback: "allow" | "ask"): Promise<Judged> => {
        if (rules.length === 0 && fallback === "allow") return ALLOWED;
        // The parser of command lines is loaded where there are rules.
        const { createPolicy, judgeCall } = await import("../core/permission/judge.ts");
        const layers =
          allow.length === 0 ? rules : [...rules, { from: "skill" as const, rules: { allow: [...allow] } }];
        const key = JSON.stringify([fallback, allow]);
        const policy = policies.get(key) ?? createPolicy(layers, () => fallback, shellProgram);
        policies.set(key, policy);
        const judged = judgeCall(policy, { tool: called, args: calledWith, root, readLink, mcp: tool.mcp });
        if (fallback === "allow" || judged.verdict !== "ask") return judged;
        return { ...judged, why: `${name} is made to ask before it runs`, always: judged.always ?? [called] };
      };
      const { standsFor = { tool: name, args: () => args } } = tool;
      const isAsked = (asksOtherwise && HANDS.includes(standsFor.tool)) || isMadeToAsk;
      const judged = await judge(standsFor.tool, standsFor.args(args), isAsked ? "ask" : "allow");
      if (standsFor.tool === name || judged.verdict === "deny") return judged;
      // Rules that speak of it by its own name are heard, too.
      const byName = await judge(name, args, "allow");
      return judged.verdict === "ask" && byName.verdict !== "deny" ? judged : byName;
    };
  };
}

async function needsApproval(tool: Tool | undefined, args: JsonObject): Promise<boolean> {
  const { needsApproval: needed = false } = tool ?? {};
  return typeof needed === "function" ? await needed(structuredClone(args)) : needed;
}

const ANSWERER: Caller = { name: "an answer", scopes: new Set(["admin"]), labels: {} };

/** Adds what people allow for the project to its configuration, where it satisfies what asks. */
export function createProjectAnswers({
  readConfig,
  patchConfig,
}: Pick<Service, "readConfig" | "patchConfig">): (rules: readonly string[]) => Promise<void> {
  return async (rules) => {
    const { config, generation } = await readConfig({}, {});
    const { answered = [] } = Object(Object(config).permissions) as { answered?: readonly string[] }; // As its schema says.
    const patch = { permissions: { answered: [...new Set([...answered, ...rules])] } };
    // Whoever may answer may have it remembered.
    await patchConfig({ patch, expected_generation: generation }, { caller: ANSWERER });
  };
}

/** The rules of a session with those of a turn: who may not allow can only ask for more, and take nothing away. */
export function rulesFor(
  had: SessionSettings["permissions"],
  given: SessionSettings["permissions"],
  caller: Caller | undefined,
): SessionSettings["permissions"] {
  if (had === undefined || given === undefined || hasScope(caller, "approve")) return given;
  const joined = (kind: "allow" | "ask" | "deny") => [...new Set([...(had[kind] ?? []), ...(given[kind] ?? [])])];
  const otherwise = had.otherwise === "ask" ? "ask" : given.otherwise;
  const rules = { allow: joined("allow"), ask: joined("ask"), deny: joined("deny") };
  return { ...rules, ...(otherwise === undefined ? {} : { otherwise }) };
}

/** Whoever chooses what commands start answers questions before they are asked. */
export function requireMayPrepare(shellEnv: Readonly<Record<string, string>> = {}, caller: Caller | undefined): void {
  for (const name of Object.keys(shellEnv)) {
    if (!/^[A-Za-z_]\w*$/.test(name)) throw invalid(`shell_env: ${JSON.stringify(name)} is no name of a variable`);
    if (isHarmlessForPrograms(name)) continue;
    requireScope(caller, decidesProgram(name) ? "admin" : "approve", `shell_env.${name}`);
    if (decidesProgram(name) && Object.keys(caller?.labels ?? {}).length > 0)
      throw new RuntimeError(
        "PERMISSION_DENIED",
        `shell_env.${name} decides which program runs, and this token has labels`,
      );
  }
}

/** Whoever gives a session rules that allow, answers questions before they are asked. */
export function requireMayAllow(permissions: PermissionRules | undefined, caller: Caller | undefined): void {
  if ((permissions?.allow ?? []).length > 0) requireScope(caller, "approve", "permissions.allow");
}
