import type { Caller } from "../contract/caller.ts";
import { isRecallTool } from "../contract/memory.ts";
import type { SessionSettings, StartTurn, ToolFilter } from "../contract/session.ts";
import type { Tool } from "../ports/tool.ts";
import { evictedFrom } from "../state/context.ts";
import type { SessionState } from "../state/session-state.ts";

export interface ToolParts {
  /** The tools of a session besides its own: by its settings, as far as available, and the runtime's custom tools. */
  toolsFor(settings: SessionSettings, caller?: Caller): readonly Tool[];
  /** The names of a session's MCP servers, as far as it may have them here. */
  mcpServersOf(settings: SessionSettings): readonly string[];
  /** The tool to read evicted output; undefined if the settings exclude it, or nothing was or can be evicted. */
  recallOutputFor(settings: SessionSettings, wasEvicted?: boolean): Tool | undefined;
}

/** A session's tools take precedence over the runtime's. */
export function chooseTools(
  parts: ToolParts,
  live: {
    readonly tools: readonly Tool[];
    readonly state: Pick<SessionState, "settings" | "shownBy" | "pins" | "shown">;
  },
  overlay?: StartTurn["flow_tool_overlay"],
  caller?: Caller,
): ReadonlyMap<string, Tool> {
  const { settings } = live.state;
  const leftOut = live.state.shownBy.at(-1)?.body.work_state?.left_out ?? 0;
  const wasEvicted = leftOut > 0 || evictedFrom(live.state).length > 0;
  const all = allTools(parts, settings, { own: live.tools, caller, wasEvicted });
  const isOffered = (name: string): boolean =>
    passes(settings.tool_filter, name) &&
    (overlay?.allowed_tools?.includes(name) ?? true) &&
    !(overlay?.blocked_tools?.includes(name) ?? false);
  const isWanted = ({ name, standsFor }: Tool): boolean => isOffered(name) && isOffered(standsFor?.tool ?? name);
  return new Map(all.filter(isWanted).map((tool) => [tool.name, tool]));
}

/** The tools of a session before any filter, with the one to read evicted output. */
export function allTools(
  parts: ToolParts,
  settings: SessionSettings,
  of: { readonly own: readonly Tool[]; readonly caller?: Caller | undefined; readonly wasEvicted?: boolean },
): readonly Tool[] {
  const theirs = parts.toolsFor(settings, of.caller);
  const own = of.own.filter((tool) => isWithin(tool, theirs, settings));
  const tools = [...theirs, ...own, ...clientTools(settings)];
  // The output of memory tools is not worth evicting.
  const hasOthers = tools.some(({ name }) => !isRecallTool(name));
  // References in the context must stay readable, even if no more are made.
  const recall = hasOthers ? parts.recallOutputFor(settings, of.wasEvicted) : undefined;
  return recall === undefined ? tools : [recall, ...tools];
}

/** Tools that replace a session's or a server's give it nothing it was created without. */
function isWithin({ standsFor, mcp }: Tool, theirs: readonly Tool[], { tools }: SessionSettings): boolean {
  if (mcp !== undefined) return tools.mcp !== false && theirs.length > 0;
  return standsFor === undefined || theirs.some(({ name }) => name === standsFor.tool);
}

/** Tools whose calls end the turn. */
export function clientTools({ client_tools = [] }: Pick<SessionSettings, "client_tools">): readonly Tool[] {
  return client_tools.map(({ name, description, input_schema }) => ({
    name,
    description,
    inputSchema: input_schema,
    isClients: true,
    execute: () => {
      throw new Error(`whoever asked for the turn runs ${name}`);
    },
  }));
}

function passes(filter: ToolFilter, name: string): boolean {
  if (filter === "All") return true;
  return "Allow" in filter ? filter.Allow.includes(name) : !filter.Deny.includes(name);
}
