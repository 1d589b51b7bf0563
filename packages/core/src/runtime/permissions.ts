import { type Caller, hasScope, requireScope } from "../contract/caller.ts";
import { invalid, RuntimeError } from "../contract/error.ts";
import type { PermissionRules } from "../contract/permission.ts";
import type { JsonObject, SessionSettings } from "../contract/session.ts";
import type { JudgedCall, PermissionLayer, PermissionPolicy } from "../permission/judge.ts";
import type { ReadLink } from "../permission/paths.ts";
import { decidesProgram, isHarmlessForPrograms } from "../permission/shell-command.ts";
import type { Tool } from "../ports/tool.ts";
import type { SessionState } from "../state/session-state.ts";
import type { Judged, Permit } from "../turn/approval.ts";
import type { Service } from "./dispatch.ts";

/** The two ends of a message between sessions: of each its names. */
export type Route = NonNullable<JudgedCall["route"]>;

/** Whether a `deny` of the configuration, or of one of these sessions, forbids a message. */
export type RouteRules = (route: Route, sessions: readonly Pick<SessionSettings, "permissions">[]) => Promise<boolean>;

export function createRouteRules(layers: readonly PermissionLayer[]): RouteRules {
  return async (route, sessions) => {
    const rules = [...layers.map((layer) => layer.rules), ...sessions.map(({ permissions }) => permissions)];
    const deny = rules.flatMap((one) => one?.deny ?? []).filter((pattern) => pattern.trimStart().startsWith("comms"));
    if (deny.length === 0) return false;
    const { createPolicy, judgeCall } = await import("../permission/judge.ts");
    const policy = createPolicy([{ from: "session", rules: { deny } }], () => "allow");
    return judgeCall(policy, { tool: "", args: {}, root: "", route }).verdict === "deny";
  };
}

const ALLOWED: Judged = { verdict: "allow", why: "" };
/** Operations with effects outside of the session. */
const HANDS: readonly string[] = ["shell", "apply_patch"];

/** The rules for tool calls of a session: the common layers, its own rules, and approvals. */
export function createPermits(of: {
  readonly layers: readonly PermissionLayer[];
  /** The project folder; paths are relative to it. */
  readonly root: string;
  readonly shellProgram: string | undefined;
  /** Resolves symbolic links in the files that calls name. */
  readonly readLink: ReadLink;
  /** The rules of the skills that a session has loaded. */
  readonly allowedBySkills?: (state: SessionState) => Promise<readonly string[]>;
  /** From whom to whom a session would write. */
  readonly routeOf?: (sessionId: string, to: string) => Promise<Route | undefined>;
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
    // Read with the first call: most turns make none.
    const policies = new Map<string, PermissionPolicy>();
    return async ({ name, args }) => {
      const tool = tools.get(name);
      // A call that cannot run needs no approval.
      if (tool === undefined) return ALLOWED;
      // The tool requires approval by a person, which no rule replaces.
      const isMadeToAsk = await needsApproval(tool, args);
      // A skill may just have been loaded.
      const allow = isMadeToAsk ? [] : ((await of.allowedBySkills?.(state)) ?? []);
      const judge = async (called: string, calledWith: JsonObject, fallback: "allow" | "ask"): Promise<Judged> => {
        if (rules.length === 0 && fallback === "allow") return ALLOWED;
        // The shell parser is loaded only if there are rules.
        const { createPolicy, judgeCall } = await import("../permission/judge.ts");
        const layers =
          allow.length === 0 ? rules : [...rules, { from: "skill" as const, rules: { allow: [...allow] } }];
        const key = JSON.stringify([fallback, allow]);
        const policy = policies.get(key) ?? createPolicy(layers, () => fallback, shellProgram);
        policies.set(key, policy);
        const to = name.startsWith("send_") && state.settings.comms !== undefined ? args.peer_id : undefined;
        const route = typeof to === "string" ? await of.routeOf?.(state.sessionId, to) : undefined;
        const judged = judgeCall(policy, { tool: called, args: calledWith, root, readLink, mcp: tool.mcp, route });
        if (fallback === "allow" || judged.verdict !== "ask") return judged;
        return { ...judged, why: `${name} is made to ask before it runs`, always: judged.always ?? [called] };
      };
      const { standsFor = { tool: name, args: () => args } } = tool;
      const isAsked = (asksOtherwise && HANDS.includes(standsFor.tool)) || isMadeToAsk;
      const judged = await judge(standsFor.tool, standsFor.args(args), isAsked ? "ask" : "allow");
      if (standsFor.tool === name || judged.verdict === "deny") return judged;
      // Rules may name the tool by its own name, too.
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

/** Adds approvals for the project to its configuration. */
export function createProjectAnswers({
  readConfig,
  patchConfig,
}: Pick<Service, "readConfig" | "patchConfig">): (rules: readonly string[]) => Promise<void> {
  return async (rules) => {
    const { config, generation } = await readConfig({}, {});
    const { answered = [] } = Object(Object(config).permissions) as { answered?: readonly string[] }; // By its schema.
    const patch = { permissions: { answered: [...new Set([...answered, ...rules])] } };
    // A caller that may answer may also store the answer.
    await patchConfig({ patch, expected_generation: generation }, { caller: ANSWERER });
  };
}

/** The session's rules with the turn's: a caller that may not allow can only restrict. */
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

/** Choosing the shell decides what commands do, so it needs the same scope as approving. */
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

/** Rules that allow calls answer approvals in advance. */
export function requireMayAllow(permissions: PermissionRules | undefined, caller: Caller | undefined): void {
  if ((permissions?.allow ?? []).length > 0) requireScope(caller, "approve", "permissions.allow");
}
