/** A flag of a server: what `parseArgs` needs, and its line of the help. One without a description is not in the help. */
export interface ServerFlag {
  readonly type: "string" | "boolean";
  readonly short?: string;
  readonly multiple?: true;
  readonly value?: string;
  readonly description?: string;
}

/** The help of a server, from which its command and its program write theirs. */
export interface ServerHelp {
  readonly description: string;
  readonly realm: string;
  readonly flags: Readonly<Record<string, ServerFlag>>;
  readonly examples: readonly (readonly [command: string, meaning: string])[];
}

const text = (value: string, description: string) => ({ type: "string", value, description }) as const;
const texts = (value: string, description: string) =>
  ({ ...text(value, `${description}; may be repeated`), multiple: true }) as const;
const flag = (description: string) => ({ type: "boolean", description }) as const;
const unlisted = { type: "boolean" } as const;
const unlistedText = { type: "string" } as const;

export const SERVER_FLAGS = {
  realm: { ...text("ID", "work in this realm"), short: "r" },
  isolated: flag("work in a fresh realm of its own"),
  instance: text("ID", "a name for this server, which clients can read"),
  store: text("PLACE", "open this state folder of a program, or this database: postgres://USER@HOST/DATABASE"),
  "state-root": text("PATH", "where realms are stored, instead of .rkat/realms"),
  "context-root": text("PATH", "the project's folder, instead of the current one"),
  "user-config-root": text("PATH", "where .rkat/config.toml is looked up, instead of the home folder"),
  trust: flag("trust this project for this run only; RKAT_TRUST=1 does the same"),
  "no-agents-md": flag("do not read AGENTS.md or CLAUDE.md"),
  "realm-backend": text("KIND", "jsonl or sqlite; accepted and ignored"),
  version: { ...flag("show the version"), short: "V" },
  help: { ...flag("show this help"), short: "h" },
} as const;

export const HTTP_FLAGS = {
  tools: text("PRESET", "the most tools of sessions: none, safe (default), workspace (also files and a shell), full"),
  token: text(
    "TOKEN",
    "the token that clients send as Authorization: Bearer TOKEN; RKAT_TOKEN hides it from other users",
  ),
  "allowed-host": texts("NAME", "a further name clients may reach it by, such as that of a proxy"),
  "allow-origin": texts("ORIGIN", "a further origin whose pages may use it, such as https://app.example"),
  grace: text("DURATION", "how long running turns may continue after a signal to stop, by default 30s"),
  log: text("FORM", "one line per request on stderr: text (default), json or off; RKAT_LOG does the same"),
} as const;

export const REST_FLAGS = {
  host: text("ADDRESS", "where to listen, instead of [rest] host or 127.0.0.1; beyond loopback a token is needed"),
  port: text("N", "instead of [rest] port or 8080; 0 takes any free one"),
  ...HTTP_FLAGS,
  app: text("FILE", "serve the runtime that this module exports, such as ./agent.ts"),
  watch: flag("with --app: load the module again when its files change, between two turns"),
  "no-console": flag("serve no console at /, and a plain page of the operations at /docs"),
  "expose-paths": flag("show clients the paths of stored data"),
  json: flag('print {"url": …} on stdout once it listens'),
} as const;

const FRESH = "a fresh realm of its own";
const PROJECT = "that of the project in the current folder";

/** The help of `rkat-rest` and of `rkat serve`, under the name it was called by. */
export function restHelp(command: string, purpose: "cli" | "server"): ServerHelp {
  return {
    description:
      "Serves sessions over HTTP: a console for browsers at /, REST, events as server-sent events, and an OpenAPI document at /openapi.json. A turn continues when its client leaves; read its events or the session to see how it ended.",
    realm: purpose === "cli" ? PROJECT : FRESH,
    flags: REST_FLAGS,
    examples: [
      [command, "at 127.0.0.1:8080"],
      [`${command} --port 0 --json`, "at any free port, which it prints"],
      [`${command} --tools workspace`, "sessions may use files and a shell"],
      [`${command} --app ./agent.ts --watch`, "a runtime of your own, while you write it"],
      [`RKAT_TOKEN=$(openssl rand -hex 32) ${command} --host 0.0.0.0`, "for other machines"],
      [
        `curl http://127.0.0.1:8080/sessions -H "Content-Type: application/json" -d '{"prompt":"Hello!","model":"offline"}'`,
        "ask the built-in model",
      ],
      [`curl -N http://127.0.0.1:8080/sessions/SESSION_ID/events -H "Last-Event-ID: 0"`, "the events of a session"],
    ],
  };
}

export const CONSOLE_FLAGS = {
  ...REST_FLAGS,
  port: text("N", "listen at this port instead of any free one"),
  host: text("ADDRESS", "where to listen, instead of 127.0.0.1"),
  log: text("FORM", "one line per request on stderr: text, json or off (default)"),
  "no-console": unlisted,
  json: flag('print {"url": …} on stdout instead of the address alone'),
  "no-open": flag("open no browser"),
} as const;

export const CONSOLE_HELP: ServerHelp = {
  description:
    "Shows the project's sessions, or those of a state folder or database (PLACE), in a browser: serves the console on a free port, prints its address, and opens it at a terminal with a display. Unless --token or RKAT_TOKEN is given, it makes a token for this run; the address holds it, and the page takes it out.",
  realm: PROJECT,
  flags: CONSOLE_FLAGS,
  examples: [
    ["rkat console", "in the browser of this machine"],
    ["rkat console .state", "what a program keeps in this folder"],
    ["rkat console --port 8080 --no-open", "at an address to open yourself"],
    ["rkat console --tools workspace", "sessions may use files and a shell"],
    ["rkat console --app ./agent.ts", "the sessions of a runtime of your own"],
  ],
};

export const RPC_FLAGS = {
  tcp: unlistedText,
  "allow-remote": unlisted,
  "live-ws": unlistedText,
  "live-webrtc": unlisted,
  "live-tool-timeout-ms": unlistedText,
  "live-ws-scheme": unlistedText,
} as const;

export function rpcHelp(command: string): ServerHelp {
  return {
    description: `Serves sessions over JSON-RPC 2.0, one object per line, on stdin and stdout. Without --realm they are in ${FRESH}.`,
    realm: FRESH,
    flags: RPC_FLAGS,
    examples: [[`${command} --realm team`, "sessions that outlive the server"]],
  };
}

/** Where a server of MCP over HTTP listens by default. */
export const MCP_ADDRESS = { host: "127.0.0.1", port: 8_081 } as const;

export const MCP_HTTP_FLAGS = {
  port: text("PORT", `the port, by default ${MCP_ADDRESS.port}; 0 takes a free one`),
  host: text("HOST", `the address, by default ${MCP_ADDRESS.host}`),
  ...HTTP_FLAGS,
} as const;

export const MCP_FLAGS = {
  "memory-only": flag("offer only the tools of memory: nothing that runs a turn"),
  "all-tools": flag("list all tools; without it, tools/list names the most used, and the others are called by name"),
  http: flag("serve streamable HTTP at /mcp instead; only then it takes the flags that follow"),
  ...MCP_HTTP_FLAGS,
} as const;

export function mcpHelp(command: string): ServerHelp {
  return {
    description: "Serves sessions and their memory to MCP clients, on stdin and stdout unless --http is given.",
    realm: "that of the folder",
    flags: MCP_FLAGS,
    examples: [[`${command} --memory-only`, "a memory for any MCP client"]],
  };
}

export function acpHelp(command: string): ServerHelp {
  return {
    description: "Serves sessions to editors over the Agent Client Protocol, on stdin and stdout; an editor starts it.",
    realm: "that of each session's folder",
    flags: {},
    examples: [[command, "as an editor starts it"]],
  };
}

export function usageText(command: string, { description, realm, flags, examples }: ServerHelp): string {
  const without = { ...SERVER_FLAGS.realm, description: `work in this realm; without one, in ${realm}` };
  const rows = Object.entries({ ...flags, ...SERVER_FLAGS, realm: without }).flatMap(
    ([name, { short, value, description: meaning }]: [string, ServerFlag]) => {
      const term = `${short === undefined ? "" : `-${short}, `}--${name}${value === undefined ? "" : ` ${value}`}`;
      return meaning === undefined ? [] : [[term, meaning] as const];
    },
  );
  const width = Math.max(...rows.map(([term]) => term.length));
  return [
    `Usage: ${command} [options]`,
    "",
    description,
    "",
    "Options:",
    ...rows.map(([term, meaning]) => `  ${term.padEnd(width)}  ${meaning}`),
    "",
    "Examples:",
    ...examples.map(([line]) => `  ${line}`),
    "",
  ].join("\n");
}
