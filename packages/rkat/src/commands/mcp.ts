import { dirname, join, relative } from "node:path";
import { asRuntimeError, invalid } from "@rkat/core/contract/error";
import { withoutControls } from "@rkat/core/text/terminal-text";
import type { BroughtFile } from "@rkat/node/config/load-config";
import { makeStateFolder, readIfThere } from "@rkat/node/config/realm";
import { mcpHelp } from "@rkat/server/http/server-help";
import { Option } from "commander";
import { type Call, type CommandRow, command } from "../command-row.ts";
import { jsonFlag, repeated } from "../flags.ts";
import { counted, createPaint, interruptedExit, linesOf, writeJson, writeWarnings } from "../io.ts";
import { loadHere, readConfiguration } from "../open-runtime.ts";
import type { Invocation } from "../parts.ts";
import { quoted } from "./config.ts";
import { alone, replaceFile } from "./output-file.ts";

/** `rkat mcp`: a server for MCP clients, and the commands on MCP servers that sessions use. */
export const mcpRows: readonly CommandRow[] = [
  command("mcp", {
    text: "Serve MCP on stdin and stdout, or over HTTP; list, add and remove the MCP servers of sessions.",
    server: { help: () => mcpHelp("rkat mcp"), kind: "mcp" },
    examples: [
      ["rkat mcp --memory-only", "a memory for any MCP client"],
      ["rkat mcp list", "the servers whose tools sessions of this folder have"],
    ],
  }),
  command("mcp list", {
    text: "Test the MCP servers that sessions of this folder use, and show their tools; servers that are not trusted are not started.",
    flags: () => [jsonFlag()],
    examples: [["rkat mcp list", "the names that --allow-tool and --block-tool take"]],
    notes: [["Exit codes", "0 every server answered · 1 one of them failed · 2 the file is not usable"]],
    run: ({ invocation, flags }) => listServers(invocation, flags.json === true),
  }),
  command("mcp add SERVER [COMMAND…]", {
    text: "Add a server to .rkat/mcp.toml of this project: a command to start, or an address.",
    usage: "NAME [options] -- COMMAND…\n  rkat mcp add NAME --url URL [options]",
    flags: () => [
      new Option("--url <url>", "the server's address"),
      repeated("--env <name=value>", `a variable for the command; \${NAME} takes it from yours; may be repeated`),
      repeated(
        "--header <name=value>",
        `sent with every request; \${NAME} takes it from your environment; may be repeated`,
      ),
    ],
    examples: [
      ["rkat mcp add files -- npx -y @modelcontextprotocol/server-filesystem .", "a program"],
      [`rkat mcp add docs --url https://example.com/mcp --header 'Authorization=Bearer \${DOCS_TOKEN}'`, "an address"],
    ],
    run: async ({ invocation, flags: { url, env, header }, self }: Call<AddFlags>) => {
      const [name = "", ...words] = self.args;
      // The parser leaves some of the marks that end flags.
      const start = words.findIndex((word) => word !== "--");
      const [command, ...args] = start < 0 ? [] : words.slice(start);
      if (command === undefined && url === undefined)
        throw invalid("give the server's command after --, or its address as --url");
      const server = { name, command, args, url, env: pairs("--env", env), headers: pairs("--header", header) };
      await addServer(invocation, server);
    },
  }),
  command("mcp login SERVER", {
    text: "Log in at a server with an address, by OAuth in a browser on this machine or another; the login is stored in the realm.",
    usage: "NAME [options]",
    examples: [
      ["rkat mcp login docs", "open the address it prints; on another machine, paste where the browser ended"],
    ],
    run: ({ invocation, arg }) => logIn(invocation, arg("server") ?? ""),
  }),
  command("mcp logout SERVER", {
    text: "Delete the login at a server from the realm.",
    usage: "NAME [options]",
    examples: [
      ["rkat mcp logout docs", "its tokens are deleted here; the server may still accept them until they expire"],
    ],
    run: ({ invocation, arg }) => logOut(invocation, arg("server") ?? ""),
  }),
  command("mcp remove SERVER", {
    text: "Remove a server from .rkat/mcp.toml of this project; the rest of the file stays as it is.",
    usage: "NAME [options]",
    examples: [["rkat mcp remove files", "sessions no longer have its tools"]],
    run: ({ invocation, arg }) => removeServer(invocation, arg("server") ?? ""),
  }),
];

interface AddFlags {
  readonly json?: never;
  readonly url?: string;
  readonly env: readonly string[];
  readonly header: readonly string[];
}

function pairs(flag: string, given: readonly string[]): Readonly<Record<string, string>> {
  const read = given.map((pair) => {
    const [, name, value] = /^([^=]+)=(.*)$/s.exec(pair) ?? [];
    if (name === undefined || value === undefined) throw invalid(`${flag}: write NAME=VALUE, with a name before the =`);
    return [name, value] as const;
  });
  return Object.fromEntries(read);
}

/**
 * Keeps the words after `--` of `rkat mcp add` away from the parser. It drops one such mark for each command it has
 * come to, and would then take the flags of the server's command for its own.
 */
export function settleServerCommand(args: readonly string[]): readonly string[] {
  const end = args.indexOf("--");
  const at = args.indexOf("mcp");
  const isAdding = at >= 0 && at < end && args[at + 1] === "add";
  return isAdding ? args.toSpliced(end, 1, "--", "--", "--") : args;
}

async function addServer(invocation: Invocation, server: NewServer): Promise<void> {
  const { path } = await projectFile(invocation);
  await alone(path, async () => {
    const file = await projectFile(invocation);
    const text = withServer(file.text, server);
    await serversOf(invocation, { ...file, text });
    await writeTrusted(invocation, file, text);
    invocation.io.stdout.write(`Added ${server.name} to ${file.shown}. rkat mcp list tests it.\n`);
  });
}

/** Removes a server from the project's `.rkat/mcp.toml`; the rest of the file stays as it is. */
async function removeServer(invocation: Invocation, name: string): Promise<void> {
  const { path } = await projectFile(invocation);
  await alone(path, () => removeAlone(invocation, name));
}

async function removeAlone(invocation: Invocation, name: string): Promise<void> {
  const file = await projectFile(invocation);
  const servers = await serversOf(invocation, file);
  const index = servers.findIndex((server) => server.name === name);
  if (index < 0) {
    const known = servers.map((server) => server.name).join(", ") || "none";
    throw invalid(`${file.shown} has no server ${name}; there are: ${known}`);
  }
  const text = withoutServer(file.text, index);
  const left = await serversOf(invocation, { ...file, text });
  // Some ways to write the same table cannot be taken apart line by line.
  if (JSON.stringify(left) !== JSON.stringify(servers.toSpliced(index, 1)))
    throw invalid(`${file.shown} was not changed: remove ${name} from it by hand`);
  await writeTrusted(invocation, file, text);
  invocation.io.stdout.write(`Removed ${name} from ${file.shown}.\n`);
}

/** Trusts the file after our change, unless it was untrusted before; then it prints so. */
async function writeTrusted(invocation: Invocation, file: ServersFile, text: string): Promise<void> {
  const { brought, trust } = await loadHere(invocation);
  const before = brought.find(({ path }) => path === file.path);
  const isOurs = before === undefined || (before.state === "trusted" && before.text === file.text);
  if (isOurs) trust.remember({ path: file.path, text });
  await replaceFile(file.path, text);
  await readConfiguration(invocation);
}

interface ServersFile {
  readonly path: string;
  readonly shown: string;
  readonly text: string;
}

/** The file of the project that is read here, or the one that would be; the user's own is left alone. */
async function projectFile(invocation: Invocation): Promise<ServersFile> {
  const { projectRoot, userRoot } = invocation.place();
  const name = join(".rkat", "mcp.toml");
  const { sources } = await loadHere(invocation);
  const read = sources.find((path) => path.endsWith(name) && path !== join(userRoot, name));
  const path = read ?? join(projectRoot, name);
  return { path, shown: relative(invocation.io.cwd, path), text: (await readIfThere(path)) ?? "" };
}

/** The servers of one file alone, read as every command would read them. */
async function serversOf({ io }: Invocation, { path, shown, text }: ServersFile) {
  const folder = dirname(dirname(path));
  const readFile = async (asked: string) => (asked === path ? text : undefined);
  try {
    const { loadConfig } = await import("@rkat/node/config/load-config");
    return (await loadConfig({ cwd: folder, home: io.home, env: {}, readFile, isTrusted: true })).mcpServers;
  } catch (thrown) {
    const { message } = asRuntimeError(thrown);
    throw invalid(`${shown} was not changed: ${message}`, thrown);
  }
}

async function logIn(invocation: Invocation, name: string): Promise<void> {
  const { io, place } = invocation;
  const { server, logins } = await findAddress(invocation, name);
  const { projectRoot, stateFolder } = place();
  (await loadHere(invocation)).trust.requireState(projectRoot, stateFolder);
  await makeStateFolder(stateFolder);
  const show = (url: string): void => {
    io.stdout.write(`Open this address in a browser:\n\n${withoutControls(url)}\n\n`);
  };
  const paste = async (over: AbortSignal): Promise<string> => {
    const question = "If that browser is on another machine, paste the address it ended at: ";
    if (io.stdin.kind === "terminal") return (await import("../chat/ask-person.ts")).askLine(io, question, over);
    for await (const line of linesOf(io.stdin, "an address")) return line;
    throw new Error("nothing was pasted");
  };
  const { logInAt } = await import("@rkat/node/mcp-login");
  const isWanted = await logInAt(server, { logins, env: io.env, signal: io.interrupt, show, paste }).catch((thrown) => {
    throw invalid(`no login at ${name}: ${asRuntimeError(thrown).message}`, thrown);
  });
  if (!isWanted) return void io.stdout.write(`${name} requires no login.\n`);
  const options = { mcpServers: [server], mcpLogins: logins, env: io.env, signal: io.interrupt };
  const { servers } = await (await import("@rkat/node/open-runtime")).inspectMcpServers(options);
  const failure = servers[0]?.error;
  if (failure !== undefined) {
    logins.write(server, undefined);
    throw invalid(`no login at ${name}: it does not accept what its authorization server gave; ${failure}`);
  }
  io.stdout.write(`Logged in at ${name}: ${counted(servers[0]?.tools.length ?? 0, "tool")}.\n`);
}

async function logOut(invocation: Invocation, name: string): Promise<void> {
  const { server, logins } = await findAddress(invocation, name);
  const hadOne = logins.read(server) !== undefined;
  logins.write(server, undefined);
  invocation.io.stdout.write(hadOne ? `Logged out at ${name}.\n` : `There was no login at ${name}.\n`);
}

/** A server of this folder with an address that takes a login. */
async function findAddress(invocation: Invocation, name: string) {
  const { mcpServers, config } = await readConfiguration(invocation);
  const server = mcpServers.find((candidate) => candidate.name === name);
  if (server === undefined) {
    const known = mcpServers.map((candidate) => candidate.name).join(", ") || "none";
    throw invalid(`there is no server ${name} that is trusted; there are: ${known}`);
  }
  if (!("url" in server)) throw invalid(`${name} is a program; only a server with an address takes a login`);
  if (Object.keys(server.headers ?? {}).some((header) => header.toLowerCase() === "authorization"))
    throw invalid(`${name} has an Authorization header, which is sent instead of a login; remove it first`);
  const { openLogins } = await import("@rkat/node/open-runtime");
  const { io, place } = invocation;
  return { server, logins: await openLogins(place().stateFolder, config.encryption, io.env) };
}

/** Connects to the servers of this folder that are trusted and shows their tools, or in a sentence why there are none. */
async function listServers(invocation: Invocation, isJson: boolean): Promise<void> {
  const { io, place } = invocation;
  const { mcpServers, brought, config } = await readConfiguration(invocation);
  const { inspectMcpServers, openLogins } = await import("@rkat/node/open-runtime");
  const hasAddress = mcpServers.some((server) => "url" in server);
  const mcpLogins = hasAddress ? await openLogins(place().stateFolder, config.encryption, io.env) : undefined;
  const options = { mcpServers, mcpLogins, env: io.env, projectRoot: place().projectRoot, signal: io.interrupt };
  const { servers, warnings } = await inspectMcpServers(options);
  const isHealthy = servers.every(({ state }) => state !== "failed");
  invocation.exitWith(interruptedExit(io) ?? (isHealthy ? 0 : 1));
  const rows = [...servers, ...untrusted(brought)];
  if (isJson) return writeJson(io, { servers: rows, warnings });
  const { dim, green, red, yellow } = createPaint(io.stdout, io.env);
  if (rows.length === 0) io.stdout.write("No MCP servers. rkat mcp add NAME -- COMMAND adds one to .rkat/mcp.toml\n");
  const width = Math.max(0, ...rows.map(({ name }) => name.length));
  const marks = { connected: green("✓"), failed: red("✗"), off: dim("–"), untrusted: yellow("–") };
  for (const { name, state, tools, error } of rows) {
    const reported = state === "connected" ? counted(tools.length, "tool") : (error ?? "switched off");
    io.stdout.write(`${marks[state]} ${withoutControls(`${name.padEnd(width)}  ${reported}`)}\n`);
    for (const tool of tools) io.stdout.write(`${" ".repeat(width + 4)}${dim(withoutControls(tool))}\n`);
  }
  // The failure is printed above.
  const others = warnings.filter((sentence) => !servers.some(({ error = "\0" }) => sentence.endsWith(error)));
  writeWarnings(io, others);
}

/** Servers that were not started, since their file is not trusted. */
function untrusted(brought: readonly BroughtFile[]) {
  const requests = brought.filter(({ isObeyed }) => !isObeyed).flatMap((file) => file.requests);
  return requests.flatMap(({ server: name, text }) => {
    if (name === undefined) return [];
    return [
      { name, state: "untrusted" as const, tools: [], error: `not started, since it is not trusted: it ${text}` },
    ];
  });
}

interface NewServer {
  readonly name: string;
  readonly command?: string | undefined;
  readonly args?: readonly string[];
  readonly url?: string | undefined;
  readonly env?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
}

/** The file with one server more, at its end; the rest stays as it is, to the byte. */
function withServer(text: string, server: NewServer): string {
  const { name, command, args = [], url, env = {}, headers = {} } = server;
  const lines = [
    "[[servers]]",
    `name = ${quoted(name)}`,
    ...(command === undefined ? [] : [`command = ${quoted(command)}`]),
    ...(args.length === 0 ? [] : [`args = [${args.map(quoted).join(", ")}]`]),
    ...(url === undefined ? [] : [`url = ${quoted(url)}`]),
    ...inlineTable("env", env),
    ...inlineTable("headers", headers),
  ];
  const before = text.trim() === "" ? text : `${text.replace(/(?<!\n)\n*$/, "")}\n\n`;
  return `${before}${lines.join("\n")}\n`;
}

function inlineTable(key: string, texts: Readonly<Record<string, string>>): readonly string[] {
  const pairs = Object.entries(texts).map(([name, text]) => `${quoted(name)} = ${quoted(text)}`);
  return pairs.length === 0 ? [] : [`${key} = { ${pairs.join(", ")} }`];
}

const HEADER = /^\s*\[\[\s*servers\s*\]\]/;

/** The file without its n-th server. The comments above a server are not part of it, those inside it are. */
function withoutServer(text: string, index: number): string {
  const lines = text.split("\n");
  const starts = lines.flatMap((line, at) => (HEADER.test(line) ? [at] : []));
  const [from = lines.length, next = lines.length] = [starts[index], starts[index + 1]];
  let to = next;
  // What stands right above the next server, comments and the blank line before them, is said of that one.
  while (to > from && next < lines.length && /^\s*(?:#|$)/.test(lines[to - 1] ?? "")) to -= 1;
  const isDoubled = (lines[from - 1] ?? "").trim() === "" && (lines[to] ?? "").trim() === "";
  return lines.toSpliced(from, to - from + (isDoubled ? 1 : 0)).join("\n");
}
