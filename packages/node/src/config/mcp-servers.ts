import { join } from "node:path";
import { describeProblems } from "@rkat/core/config/config-problems";
import { McpFile } from "@rkat/core/config/mcp-schema";
import { RuntimeError } from "@rkat/core/contract/error";
import type { McpServerConfig } from "@rkat/core/ports/mcp-server";
import { type ConfigPlaces, type FoundFile, findUpwards, parseToml, readIfThere } from "./config-file.ts";
import type { BroughtFile, Trust } from "./trust.ts";

const FILE = join(".rkat", "mcp.toml");

export interface LoadedMcpServers {
  readonly servers: readonly McpServerConfig[];
  /** The files they come from, the weaker first. */
  readonly files: readonly string[];
  /** The project's file, when it is not the user's own and has servers. */
  readonly brought: BroughtFile | undefined;
}

/** Reads the servers of the user and, where they are trusted, of the project; of two with one name the project's holds. */
export async function loadMcpServers(places: ConfigPlaces, trust: Trust): Promise<LoadedMcpServers> {
  const { home, readFile } = places;
  // In the home folder the file is the user's, which is read anyway.
  const project = await findUpwards(places, (folder) => (folder === home ? [] : [FILE]));
  const own = await readIfThere(join(home, FILE), readFile);
  const theirs = project && trust.servers(project, parseServers(project));
  const named = [...(own === undefined ? [] : parseServers(own)), ...(theirs?.admitted ?? [])];
  const servers = new Map(named.map((server) => [server.name, server]));
  const files = [own, project].flatMap((file) => file?.path ?? []);
  return { servers: [...servers.values()], files, brought: theirs?.brought };
}

function parseServers(file: FoundFile): readonly McpServerConfig[] {
  const raw = parseToml(file.text, file.path);
  const parsed = McpFile.safeParse(raw);
  if (parsed.success) return parsed.data.servers;
  const problems = describeProblems(parsed.error, { raw, schema: McpFile, sourceOf: () => file.path });
  throw new RuntimeError("INVALID_PARAMS", problems[0] ?? `${file.path} is invalid`, { details: { problems } });
}
