import type { Caller } from "../contract/caller.ts";
import { isRecallTool } from "../contract/memory.ts";
import type { SessionSettings, StartTurn, ToolFilter } from "../contract/session.ts";
import { evictedFrom } from "../core/context.ts";
import type { SessionState } from "../core/session-state.ts";
import type { Tool } from "../ports/tool.ts";

/** Where sessions have their tools from. */
export interface ToolParts {
  /** The tools a session has besides its own: by its settings, as far as they are ready, and the runtime's custom ones. */
  toolsFor(settings: SessionSettings, caller?: Caller): readonly Tool[];
  /**
   * The tool a session reads evicted output with; undefined where its settings leave it out, or where nothing is evicted
   * and nothing was.
   */
  recallOutputFor(settings: SessionSettings, wasEvicted?: boolean): Tool | undefined;
}

/** A session's own tools win over the runtime's of the same name. */
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
  const wasEvicted = evictedFrom(live.state).length > 0;
  const all = allTools(parts, settings, { own: live.tools, caller, wasEvicted });
  const isOffered = (name: string): boolean =>
    passes(settings.tool_filter, name) &&
    (overlay?.allowed_tools?.includes(name) ?? true) &&
    !(overlay?.blocked_tools?.includes(name) ?? false);
  const isWanted = ({ name, standsFor }: Tool): boolean => isOffered(name) && isOffered(standsFor?.tool ?? name);
  return new Map(all.filter(isWanted).map((tool) => [tool.name, tool]));
}

/** The tools of a session before any filter, with the one for what they gave and was evicted. */
export function allTools(
  parts: ToolParts,
  settings: SessionSettings,
  of: { readonly own: readonly Tool[]; readonly caller?: Caller | undefined; readonly wasEvicted?: boolean },
): readonly Tool[] {
  const theirs = parts.toolsFor(settings, of.caller);
  const own = of.own.filter((tool) => isWithin(tool, theirs, settings));
  const tools = [...theirs, ...own, ...clientTools(settings)];
  // What searches memory gives nothing worth evicting.
  const hasOthers = tools.some(({ name }) => !isRecallTool(name));
  // Lines that stand in the context must lead somewhere, also when no more are to come.
  const recall = hasOthers ? parts.recallOutputFor(settings, of.wasEvicted) : undefined;
  return recall === undefined ? tools : [recall, ...tools];
}

/** Whoever brings tools that stand for a session's own, or those of a server, gives it nothing it was made without. */
function isWithin({ standsFor, mcp }: Tool, theirs: readonly Tool[], { tools }: SessionSettings): boolean {
  if (mcp !== undefined) return tools.mcp !== false && theirs.length > 0;
  return standsFor === undefined || theirs.some(({ name }) => name === standsFor.tool);
}

/** The tools whose calls end a turn. */
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
