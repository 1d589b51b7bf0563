import { type ParseArgsOptionsConfig, parseArgs } from "node:util";
import { RuntimeError } from "../../contract/error.ts";
import { backendNote } from "./realm.ts";

/** What every server can be started with. */
export interface ServerFlags {
  readonly realm: string | undefined;
  readonly isolated: boolean | undefined;
  readonly instance: string | undefined;
  readonly stateRoot: string | undefined;
  readonly contextRoot: string | undefined;
  readonly userConfigRoot: string | undefined;
  /** Whoever starts it vouches for what the project's files want. */
  readonly trust: boolean | undefined;
  readonly wants: "serve" | "help" | "version";
  /** Sentences for whoever started it: what was accepted and changes nothing. */
  readonly notes: readonly string[];
}

export const text = { type: "string" } as const;
export const flag = { type: "boolean" } as const;

export const SERVER_OPTIONS = {
  realm: { type: "string", short: "r" },
  isolated: flag,
  instance: text,
  "realm-backend": text,
  "state-root": text,
  "context-root": text,
  "user-config-root": text,
  trust: flag,
  help: { type: "boolean", short: "h" },
  version: { type: "boolean", short: "V" },
} as const;

type Values = ReturnType<typeof parseArgs<{ readonly options: typeof SERVER_OPTIONS }>>["values"];

/** What flags say that every server has. */
export function serverFlags(values: Values): ServerFlags {
  const backend = backendNote(values["realm-backend"]);
  return {
    realm: values.realm,
    isolated: values.isolated,
    instance: values.instance,
    stateRoot: values["state-root"],
    contextRoot: values["context-root"],
    userConfigRoot: values["user-config-root"],
    trust: values.trust,
    wants: values.help === true ? "help" : values.version === true ? "version" : "serve",
    notes: backend === undefined ? [] : [backend],
  };
}

/** Reads flags; throws INVALID_PARAMS, in a sentence, for what is unknown or wrong. */
export function readFlags<const T extends ParseArgsOptionsConfig>(args: readonly string[], options: T) {
  try {
    return parseArgs({ args: [...args], options, strict: true, allowPositionals: false }).values;
  } catch (cause) {
    const [sentence = "the flags cannot be read"] = (cause instanceof Error ? cause.message : "").split(". ");
    throw invalidFlag(`${sentence}; see --help`, cause);
  }
}

const PORT_MAX = 65_535;

export function portOf(given: string): number {
  if (/^\d{1,5}$/.test(given) && Number(given) <= PORT_MAX) return Number(given);
  throw invalidFlag(`--port ${given}: write a number from 0 to ${PORT_MAX}`);
}

export function invalidFlag(message: string, cause?: unknown): RuntimeError {
  return new RuntimeError("INVALID_PARAMS", message, { cause });
}
