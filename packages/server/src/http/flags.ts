import { type ParseArgsOptionsConfig, parseArgs } from "node:util";
import { invalid } from "@rkat/core/contract/error";
import { parseDuration } from "@rkat/core/contract/input";
import { CreateSession } from "@rkat/core/contract/session";
import { backendNote } from "@rkat/node/config/realm";
import { originOf } from "./guard.ts";
import { LOG_FORMS, type LogForm } from "./journal.ts";
import type { HTTP_FLAGS, SERVER_FLAGS } from "./server-help.ts";

export interface ServerFlags {
  readonly realm: string | undefined;
  readonly isolated: boolean | undefined;
  readonly instance: string | undefined;
  readonly stateRoot: string | undefined;
  readonly store: string | undefined;
  readonly contextRoot: string | undefined;
  readonly userConfigRoot: string | undefined;
  readonly trust: boolean | undefined;
  readonly agentsMd: "project" | "none";
  readonly wants: "serve" | "help" | "version";
  /** Notes to print: flags that were accepted and have no effect. */
  readonly notes: readonly string[];
}

type Values = ReturnType<typeof parseArgs<{ readonly options: typeof SERVER_FLAGS }>>["values"];

export function serverFlags(values: Values): ServerFlags {
  const backend = backendNote(values["realm-backend"]);
  return {
    realm: values.realm,
    isolated: values.isolated,
    instance: values.instance,
    stateRoot: values["state-root"],
    store: values.store,
    contextRoot: values["context-root"],
    userConfigRoot: values["user-config-root"],
    trust: values.trust,
    agentsMd: values["no-agents-md"] === true ? "none" : "project",
    wants: values.help === true ? "help" : values.version === true ? "version" : "serve",
    notes: backend === undefined ? [] : [backend],
  };
}

/** Reads flags; throws INVALID_PARAMS, in a sentence, for what is unknown or wrong. */
export function readFlags<const T extends ParseArgsOptionsConfig>(args: readonly string[], options: T) {
  return readWords(args, options, false).values;
}

/** The same for a command that may take words besides. */
export function readWords<const T extends ParseArgsOptionsConfig>(
  args: readonly string[],
  options: T,
  allowPositionals = true,
) {
  try {
    return parseArgs({ args: [...args], options, strict: true, allowPositionals });
  } catch (cause) {
    const [sentence = "the flags cannot be read"] = (cause instanceof Error ? cause.message : "").split(". ");
    throw invalid(`${sentence}; see --help`, cause);
  }
}

const PORT_MAX = 65_535;

export function portOf(given: string): number {
  if (/^\d{1,5}$/.test(given) && Number(given) <= PORT_MAX) return Number(given);
  throw invalid(`--port ${given}: write a number from 0 to ${PORT_MAX}`);
}

type Preset = NonNullable<CreateSession["tool_preset"]>;

export interface HttpFlags {
  readonly token: string | undefined;
  readonly allowedHosts: readonly string[];
  readonly allowedOrigins: readonly string[];
  readonly ceiling: Preset;
  readonly graceMs: number;
  /** The form of the request log on stderr; undefined: as RKAT_LOG says. */
  readonly logForm: LogForm | undefined;
}

/** Without a token any process on this machine may send requests. */
const CEILING_DEFAULT: Preset = "safe";
const GRACE_MS_DEFAULT = 30_000;
/** A timer of Node fires at once when asked to wait longer than this. */
const GRACE_MS_MAX = 2 ** 31 - 1;

type HttpValues = ReturnType<typeof parseArgs<{ readonly options: typeof HTTP_FLAGS }>>["values"];

export function httpFlags(values: HttpValues): HttpFlags {
  return {
    token: values.token,
    allowedHosts: values["allowed-host"] ?? [],
    allowedOrigins: (values["allow-origin"] ?? []).map(originOf),
    ceiling: values.tools === undefined ? CEILING_DEFAULT : presetOf(values.tools),
    graceMs: values.grace === undefined ? GRACE_MS_DEFAULT : graceOf(values.grace),
    logForm: values.log === undefined ? undefined : logFormOf("--log", values.log),
  };
}

/** The form of the log; throws INVALID_PARAMS, with the name of the flag or variable, for an unknown form. */
export function logFormOf(name: string, given: string): LogForm {
  const form = LOG_FORMS.find((known) => known === given);
  if (form !== undefined) return form;
  throw invalid(`${name} ${given}: write one of ${LOG_FORMS.join(", ")}`);
}

function presetOf(given: string): Preset {
  const presets = CreateSession.shape.tool_preset.unwrap().options;
  const preset = presets.find((name) => name === given);
  if (preset !== undefined) return preset;
  throw invalid(`--tools ${given}: write one of ${presets.join(", ")}`);
}

function graceOf(given: string): number {
  const ms = parseDuration(given);
  if (ms !== undefined && ms <= GRACE_MS_MAX) return ms;
  throw invalid(`--grace ${given}: write a duration of at most 24 days, like 30s or 2m; 0s waits for nothing`);
}

/** Notes on configured tools that the ceiling removes. */
export function ceilingNotes(
  ceiling: Preset,
  tools: { readonly builtins_enabled: boolean; readonly shell_enabled: boolean },
): readonly string[] {
  if (ceiling === "workspace" || ceiling === "full") return [];
  const asked = (["builtins_enabled", "shell_enabled"] as const).filter((key) => tools[key]);
  const without = "its sessions have no shell and no file tools";
  return asked.map(
    (key) => `tools.${key} is true, but ${without}: a server over HTTP needs --tools workspace for them`,
  );
}
