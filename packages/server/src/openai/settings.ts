import { invalid } from "@rkat/core/contract/error";
import { defined } from "@rkat/core/contract/json";
import type { ClientTool } from "@rkat/core/contract/message";
import type { CreateSession, JsonObject, ToolFilter } from "@rkat/core/contract/session";
import type { FunctionTool, OwnTools, ToolChoice, Tools } from "@rkat/core/contract/wire/openai";
import type { CallContext } from "@rkat/core/runtime/dispatch";
import type { RestRequest } from "../http/router.ts";
import { labelsOf } from "./response-echo.ts";
import type { OpenAiSettings, Place } from "./turn-route.ts";

/** The settings of a request, from either endpoint. */
export interface Asks {
  readonly model: string | undefined;
  readonly instructions: string | undefined;
  readonly maxTokens: number | undefined;
  readonly schema: JsonObject | undefined;
  readonly params: Readonly<Record<string, unknown>>;
  readonly tools: Tools;
  readonly metadata: Readonly<Record<string, string>> | null | undefined;
  readonly toolChoice: ToolChoice;
  /** Whether an answer may have several calls; false is passed to the provider. */
  readonly isParallel: boolean | null | undefined;
}

const PRESETS = ["none", "memory", "safe", "workspace", "full"] as const;
type Preset = (typeof PRESETS)[number];

export function creation(asks: Asks, request: RestRequest, { settings }: Pick<Place, "settings">) {
  const { instructions, maxTokens, schema } = asks;
  return {
    ...everyTurn(asks),
    ...defined({ system_prompt: instructions, max_tokens: maxTokens, output_schema: schema }),
    ...ownTools(asks, request, settings),
    memory_scope: settings.memory,
    labels: { surface: "openai", ...labelsOf(asks.metadata) },
  };
}

/** The settings of a further turn: each request has all of them, and a missing one is unset. */
export function continuation(asks: Asks, request: RestRequest, { settings }: Pick<Place, "settings">) {
  const { instructions = null, maxTokens = null, schema = null } = asks;
  return {
    ...everyTurn(asks),
    clear_provider_params: true,
    change_settings: {
      system_prompt: instructions,
      max_tokens: maxTokens,
      output_schema: schema,
      ...ownTools(asks, request, settings),
    },
  };
}

function everyTurn({ model, params: given, tools, toolChoice, isParallel }: Asks) {
  const client_tools = toolChoice === "none" ? [] : clientTools(tools);
  // Providers refuse it where there is nothing to call.
  const isApart = isParallel === false && client_tools.length > 0;
  const params = isApart ? { ...given, parallel_tool_calls: false } : given;
  return {
    ...(model === undefined ? {} : { model }),
    ...(Object.keys(params).length === 0 ? {} : { provider_params: params }),
    client_tools,
  };
}

/**
 * How the turn is called: with the memory of this server where the request has neither tools nor a word about them, and
 * with what its first model call must do. Throws INVALID_PARAMS for a function that the request does not have.
 */
export function callOf(asks: Asks, { headers }: RestRequest, { settings }: Pick<Place, "settings">): TurnCall {
  const isSilent =
    (asks.tools ?? []).length === 0 && asks.toolChoice !== "none" && headers["x-rkat-tools"] === undefined;
  return { ...firstChoice(asks), ...(isSilent && settings.tools === "memory" ? { offersMemory: true } : {}) };
}

function firstChoice({ tools, toolChoice: asked }: Pick<Asks, "tools" | "toolChoice">): TurnCall {
  if (asked === undefined || asked === null || asked === "auto" || asked === "none") return {};
  const names = clientTools(tools).map(({ name }) => name);
  if (names.length === 0)
    throw invalid("tool_choice: there is no function to call; give some in tools, or leave it out");
  if (asked === "required") return { toolChoice: asked };
  const { name } = asked;
  if (names.includes(name)) return { toolChoice: { name } };
  throw invalid(`tool_choice: no function of tools is called ${name}; write one of ${names.slice(0, 20).join(", ")}`);
}

export type TurnCall = Pick<CallContext, "toolChoice" | "offersMemory">;

export function clientTools(tools: Tools): readonly ClientTool[] {
  return (tools ?? [])
    .filter((tool): tool is FunctionTool => tool.type === "function")
    .map(({ name, description, parameters }) => ({
      name,
      description: description ?? "",
      input_schema: parameters ?? { type: "object", properties: {} },
    }));
}

type OwnToolFields = Pick<CreateSession, "tool_preset" | "enable_memory"> & { readonly tool_filter: ToolFilter };

/**
 * The tools of this server's that a session is offered: those of the header, else of a tool of the type mcp, else as
 * configured. Memory of the configuration is offered by `callOf`.
 */
function ownTools({ tools, toolChoice }: Asks, { headers }: RestRequest, settings: OpenAiSettings): OwnToolFields {
  const asked = tools?.find((tool): tool is OwnTools => tool.type === "mcp");
  const inHeader = presetIn(headers["x-rkat-tools"]);
  const given = settings.tools === "memory" ? "none" : settings.tools;
  const configured = given === "none" && asked !== undefined ? "safe" : given;
  const preset = toolChoice === "none" ? "none" : (inHeader ?? configured);
  const allowed = Array.isArray(asked?.allowed_tools) ? asked.allowed_tools : asked?.allowed_tools?.tool_names;
  const tool_filter: ToolFilter =
    allowed === undefined ? "All" : { Allow: [...allowed, ...clientTools(tools).map(({ name }) => name)] };
  if (preset === "memory") return { tool_preset: "none", enable_memory: true, tool_filter };
  return { tool_preset: preset, tool_filter };
}

function presetIn(given: string | readonly string[] | undefined): Preset | undefined {
  if (given === undefined) return undefined;
  const preset = PRESETS.find((name) => name === given);
  if (preset !== undefined) return preset;
  throw invalid(`x-rkat-tools: write one of ${PRESETS.join(", ")}`);
}
