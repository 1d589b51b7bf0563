import { existsSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import type { Io } from "../io.ts";
import { SKILL } from "./skill.ts";

/** A value that a configuration gets: under the last of the keys, or as one more item of the list there. */
export interface Edit {
  readonly keys: readonly string[];
  readonly value: object;
  readonly isItem?: true;
}

/** One file that a client reads. No part of its path below `root` may be a link. */
export interface ClientFile {
  readonly root: string;
  readonly path: string;
  readonly content:
    | { readonly kind: "json"; readonly edits: readonly Edit[] }
    | { readonly kind: "toml"; readonly words: readonly string[] }
    | { readonly kind: "text"; readonly text: string };
}

interface Asked {
  readonly scope: "user" | "project";
  readonly projectRoot: string;
  readonly io: Io;
  readonly isMac: boolean;
  /** The words that start this program. */
  readonly self: readonly string[];
}

/** What tells a server and a hook of ours from others of the same name. */
export const SERVER_WORDS = ["mcp", "--memory-only"] as const;
export const HOOK_WORD = "connect-hook";
export const SERVER_NAME = "rkat";
const HOOK_TIMEOUT_S = 60;

/** The clients that can be connected, with the files that each of them reads. */
export const CLIENTS = {
  "claude-code": (asked) => {
    const { CLAUDE_CONFIG_DIR: own } = asked.io.env;
    // SessionStart comes after a compaction, too, when the boundary is in the transcript.
    const hooks = [hook(asked, "PreCompact"), hook(asked, "SessionStart", "compact"), hook(asked, "SessionEnd")];
    return [
      server(asked, [join(own ?? "", ".claude.json"), ".mcp.json"], "mcpServers", { type: "stdio", ...program(asked) }),
      json(asked, [join(own ?? ".claude", "settings.json"), ".claude/settings.json"], hooks),
      skill(asked, own ?? ".claude", ".claude"),
    ];
  },
  codex: (asked) => {
    const own = asked.io.env.CODEX_HOME ?? ".codex";
    const hooks = [hook(asked, "PreCompact"), hook(asked, "PostCompact"), hook(asked, "SessionEnd")];
    const content = { kind: "toml", words: words(asked, SERVER_WORDS) } as const;
    return [
      { ...place(asked, join(own, "config.toml"), ".codex/config.toml"), content },
      json(asked, [join(own, "hooks.json"), ".codex/hooks.json"], hooks),
      skill(asked, ".agents", ".agents"),
    ];
  },
  opencode: (asked) => {
    const folder = configHome(asked, "opencode");
    const paths = ["opencode.json", "opencode.jsonc"].map((name) => [join(folder, name), name] as const);
    const found = paths.find(([user, own]) => existsSync(place(asked, user, own).path)) ?? [
      `${folder}/opencode.json`,
      "opencode.json",
    ];
    const value = { type: "local", command: words(asked, SERVER_WORDS), enabled: true };
    return [server(asked, found, "mcp", value), skill(asked, folder, ".opencode")];
  },
  cursor: (asked) => [
    server(asked, [".cursor/mcp.json", ".cursor/mcp.json"], "mcpServers", program(asked)),
    skill(asked, ".cursor", ".cursor"),
  ],
  vscode: (asked) => {
    const folder = asked.isMac ? "Library/Application Support/Code/User" : configHome(asked, "Code/User");
    const value = { type: "stdio", ...program(asked) };
    return [
      server(asked, [join(folder, "mcp.json"), ".vscode/mcp.json"], "servers", value),
      skill(asked, ".copilot", ".github"),
    ];
  },
  zed: (asked) => {
    const value = { source: "custom", ...program(asked), env: {} };
    return [server(asked, [configHome(asked, "zed/settings.json"), ".zed/settings.json"], "context_servers", value)];
  },
} as const satisfies Readonly<Record<string, (asked: Asked) => readonly ClientFile[]>>;

export type ClientName = keyof typeof CLIENTS;

/** A path of the user, from the home folder on, and one of the project. */
type Paths = readonly [user: string, project: string];

function place({ scope, projectRoot, io: { home } }: Asked, user: string, project: string) {
  if (scope === "project") return { root: projectRoot, path: join(projectRoot, project) };
  const path = resolve(home, user);
  return { root: path.startsWith(`${home}/`) ? home : dirname(path), path };
}

function json(asked: Asked, paths: Paths, edits: readonly Edit[]): ClientFile {
  return { ...place(asked, ...paths), content: { kind: "json", edits } };
}

function server(asked: Asked, paths: Paths, key: string, value: object): ClientFile {
  return json(asked, paths, [{ keys: [key, SERVER_NAME], value }]);
}

function skill(asked: Asked, ...folders: Paths): ClientFile {
  const [user, project] = folders.map((folder) => join(folder, "skills", "rkat-memory", "SKILL.md"));
  return { ...place(asked, user ?? "", project ?? ""), content: { kind: "text", text: SKILL } };
}

function configHome({ io }: Asked, name: string): string {
  return join(io.env.XDG_CONFIG_HOME || ".config", name);
}

/** A file that a project shares must not name a path of this machine. */
function words({ scope, self }: Asked, rest: readonly string[]): readonly string[] {
  return [...(scope === "project" ? ["rkat"] : self), ...rest];
}

function program(asked: Asked) {
  const [command, ...args] = words(asked, SERVER_WORDS);
  return { command, args };
}

function hook(asked: Asked, event: string, matcher?: string): Edit {
  const quoted = (word: string) => (/^[\w./:@%+=-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`);
  const hooks = [
    { type: "command", command: words(asked, [HOOK_WORD]).map(quoted).join(" "), timeout: HOOK_TIMEOUT_S },
  ];
  return { keys: ["hooks", event], value: matcher === undefined ? { hooks } : { matcher, hooks }, isItem: true };
}
