import { parseDuration } from "../../contract/input/duration.ts";
import { CreateSession } from "../../contract/session.ts";
import { originOf } from "./cross-origin.ts";
import { invalidFlag, text } from "./flags.ts";

type Preset = NonNullable<CreateSession["tool_preset"]>;

/** What every server over HTTP can be started with besides. */
export interface HttpFlags {
  readonly token: string | undefined;
  readonly allowedHosts: readonly string[];
  readonly allowedOrigins: readonly string[];
  /** The most the tools of its sessions may do. */
  readonly ceiling: Preset;
  /** How long turns may go on once it is asked to end. */
  readonly graceMs: number;
}

const repeated = { type: "string", multiple: true } as const;
export const HTTP_OPTIONS = {
  token: text,
  "allowed-host": repeated,
  "allow-origin": repeated,
  tools: text,
  grace: text,
} as const;

/** Their lines in a server's help. */
export const HTTP_USAGE = `\
  --tools PRESET           what sessions may be given: none, safe unless given, workspace (and files, shell), full
  --token TOKEN            what clients send as Authorization: Bearer TOKEN; RKAT_TOKEN keeps it out of sight
  --allowed-host NAME      a further name clients may reach it by, such as that of a proxy; may be repeated
  --allow-origin ORIGIN    a further origin whose pages may use it, such as https://app.example; may be repeated
  --grace DURATION         how long turns that run may go on once it is asked to end, 30s unless given`;

/** Anybody on this machine may ask a server that has no token. */
const CEILING_DEFAULT: Preset = "safe";
const GRACE_MS_DEFAULT = 30_000;
/** A timer of Node fires at once when asked to wait longer than this. */
const GRACE_MS_MAX = 2 ** 31 - 1;

type Values = Partial<Record<"token" | "tools" | "grace", string>> &
  Partial<Record<"allowed-host" | "allow-origin", string[]>>;

export function httpFlags(values: Values): HttpFlags {
  return {
    token: values.token,
    allowedHosts: values["allowed-host"] ?? [],
    allowedOrigins: (values["allow-origin"] ?? []).map(originOf),
    ceiling: values.tools === undefined ? CEILING_DEFAULT : presetOf(values.tools),
    graceMs: values.grace === undefined ? GRACE_MS_DEFAULT : graceOf(values.grace),
  };
}

function presetOf(given: string): Preset {
  const presets = CreateSession.shape.tool_preset.unwrap().options;
  const preset = presets.find((name) => name === given);
  if (preset !== undefined) return preset;
  throw invalidFlag(`--tools ${given}: write one of ${presets.join(", ")}`);
}

function graceOf(given: string): number {
  const ms = parseDuration(given);
  if (ms !== undefined && ms <= GRACE_MS_MAX) return ms;
  throw invalidFlag(`--grace ${given}: write a duration of at most 24 days, like 30s or 2m; 0s waits for nothing`);
}

/** What of the configuration's tools sessions do not have all the same. */
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
