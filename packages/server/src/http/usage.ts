/** The help of `rkat-rest` and of `rkat serve`, under the name it was called by. */
export function restUsage(command: string, purpose: "cli" | "server"): string {
  const realm = purpose === "cli" ? "that of the project in the current folder" : "a fresh realm of its own";
  return `Usage: ${command} [options]

Serves sessions over HTTP: a console for browsers at /, REST, events as server-sent events, and an OpenAPI document at /openapi.json.
A turn continues when its client leaves; read its events or the session to see how it ended.

Options:
  --host ADDRESS           where to listen, instead of [rest] host or 127.0.0.1; beyond loopback a token is needed
  --port N                 instead of [rest] port or 8080; 0 takes any free one
${HTTP_LINES}
  --no-console             serve no console at /, and a plain page of the operations at /docs
  --expose-paths           show clients the paths of stored data
  --json                   print {"url": …} on stdout once it listens
  --realm ID               work on this realm; without one, on ${realm}
  --isolated               work on a fresh realm of its own
  --instance ID            a name for this server, which clients can read
  --state-root PATH        where realms are stored
${PLACE_LINES}
${BACKEND_LINE}
${END_LINES}

Examples:
  ${command}
  ${command} --port 0 --json
  ${command} --tools workspace
  RKAT_TOKEN=$(openssl rand -hex 32) ${command} --host 0.0.0.0
  curl http://127.0.0.1:8080/sessions -H "Content-Type: application/json" -d '{"prompt":"Hello!","model":"offline"}'
  curl -N http://127.0.0.1:8080/sessions/SESSION_ID/events -H "Last-Event-ID: 0"
`;
}

export function consoleUsage(command: string): string {
  return `Usage: ${command} [options]

Shows the project's sessions in a browser: serves the console on a free port, prints its address, and opens it at a terminal with a display.
An address that holds a token is printed and not opened; the page takes the token out of it.

Options:
  --port N                 listen at this port instead of any free one
  --no-open                open no browser
  --json                   print {"url": …} on stdout instead of the address alone
  --host ADDRESS           where to listen, instead of 127.0.0.1; beyond loopback a token is needed
${HTTP_LINES.replace("text (default), json or off; RKAT_LOG does the same", "text, json or off (default)")}
  --realm ID               work on this realm; without one, on that of the project in the current folder
  --isolated               work on a fresh realm of its own
  --state-root PATH        where realms are stored
${PLACE_LINES}
${END_LINES}

Examples:
  ${command}
  ${command} --port 8080 --no-open
  ${command} --tools workspace
`;
}

export function rpcUsage(command: string): string {
  return `Usage: ${command} [options]

Serves sessions over JSON-RPC 2.0, one object per line, on stdin and stdout.

Options:
  --realm ID               work on this realm; without one, on a fresh realm of its own
  --isolated               ask for the fresh realm explicitly
  --instance ID            a name for this server, which clients can read
  --state-root PATH        where realms are stored
${PLACE_LINES}
${BACKEND_LINE}
${END_LINES}
`;
}

/** Where a server of MCP over HTTP listens by default. */
export const MCP_ADDRESS = { host: "127.0.0.1", port: 8_081 } as const;

export function mcpUsage(command: string): string {
  return `Usage: ${command} [options]

Serves sessions and their memory to MCP clients, on stdin and stdout unless --http is given.

Options:
  --memory-only            offer only the tools of memory: nothing that runs a turn
  --all-tools              list all tools; without it, tools/list names the most used, and the others are called by name
  --http                   serve streamable HTTP at /mcp instead
  --port PORT              with --http: the port, by default ${MCP_ADDRESS.port}; 0 takes a free one
  --host HOST              with --http: the address, by default ${MCP_ADDRESS.host}
${HTTP_LINES.replaceAll(/^( {2}\S+ \S+ +)/gm, "$1with --http: ")}
  --realm ID               work in this realm; without one, in that of the folder
  --isolated               work in a fresh realm
  --state-root PATH        where realms are stored, instead of .rkat/realms
${PLACE_LINES}
${END_LINES}
`;
}

export function acpUsage(command: string): string {
  return `Usage: ${command} [options]

Serves sessions to editors over the Agent Client Protocol, on stdin and stdout; an editor starts it.

Options:
  --realm ID               work in this realm; without one, in that of each session's folder
  --isolated               work in a fresh realm
  --state-root PATH        where realms are stored, instead of .rkat/realms
${PLACE_LINES}
${END_LINES}
`;
}

const HTTP_LINES = `\
  --tools PRESET           the most tools of sessions: none, safe (default), workspace (also files and a shell), full
  --token TOKEN            the token that clients send as Authorization: Bearer TOKEN; RKAT_TOKEN hides it from other users
  --allowed-host NAME      a further name clients may reach it by, such as that of a proxy; may be repeated
  --allow-origin ORIGIN    a further origin whose pages may use it, such as https://app.example; may be repeated
  --grace DURATION         how long running turns may continue after a signal to stop, by default 30s
  --log FORM               one line per request on stderr: text (default), json or off; RKAT_LOG does the same`;

const PLACE_LINES = `\
  --context-root PATH      the project's folder, instead of the current one
  --user-config-root PATH  where .rkat/config.toml is looked up, instead of the home folder
  --trust                  trust this project for this run only; RKAT_TRUST=1 does the same`;

const BACKEND_LINE = "  --realm-backend KIND     jsonl or sqlite; accepted and ignored";

const END_LINES = `\
  -V, --version            show the version
  -h, --help               show this help`;
