import type { PermissionRules, PermissionVerdict } from "../../contract/permission.ts";
import type { JsonObject } from "../../contract/session.ts";

/** A tool call as rules see it. */
export interface JudgedCall {
  readonly tool: string;
  readonly args: JsonObject;
  /** Set for a tool of an MCP server: the server's name, and its own name for the tool. */
  readonly mcp?: { readonly server: string; readonly tool: string } | undefined;
  /** The project's folder, absolute: what paths are relative to. */
  readonly root: string;
}

/**
 * Rules with whose they are. `answer` is what a person added by an answer of "always": it satisfies every `ask` but
 * the server's.
 */
export interface PermissionLayer {
  readonly from: "server" | "user" | "project" | "session" | "answer";
  readonly rules: PermissionRules;
}

export interface Judgement {
  readonly verdict: PermissionVerdict;
  /** One sentence for a person. */
  readonly why: string;
  /** The patterns that "always" would add to `allow`; undefined where none can be named safely. */
  readonly always: readonly string[] | undefined;
}

/** Layers whose patterns have been read, once for many calls. */
export interface PermissionPolicy {
  readonly layers: readonly PermissionLayer[];
  readonly fallback: (call: JudgedCall) => PermissionVerdict;
}

/** Reads the patterns of a policy; `fallback` decides what no rule speaks of. Throws INVALID_PARAMS for a bad pattern. */
export function createPolicy(
  layers: readonly PermissionLayer[],
  fallback: (call: JudgedCall) => PermissionVerdict,
): PermissionPolicy {
  return { layers, fallback };
}

export function judgeCall(policy: PermissionPolicy, call: JudgedCall): Judgement {
  return { verdict: policy.fallback(call), why: "no rule speaks of it", always: undefined };
}
