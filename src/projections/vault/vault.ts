import { join } from "node:path";
import { AgentName } from "../../contract/agent/agent.ts";
import { RuntimeError } from "../../contract/error.ts";
import type { Vault } from "../../ports/vault.ts";
import { refuseLinks } from "../file-calls.ts";
import { toMarkdown } from "./front-matter.ts";
import { foundMemories, writeMemories, writtenMemories } from "./memory-files.ts";
import { writeNumbered } from "./numbered-files.ts";
import { personsTexts } from "./persons-texts.ts";
import type { VaultParts } from "./read-markdown.ts";
import { writeSummaries } from "./summary-files.ts";
import { nodeVaultCalls, type VaultCalls } from "./vault-calls.ts";

/** A file that is left out is told of once, however often it is met. */
const TOLD_MAX = 1_000;

/** The vault in a state folder: `.rkat/agents/<name>/` with `memories/`, `notes/`, `summaries/` and a person's texts. */
export function createVault({
  folder,
  io = nodeVaultCalls,
  warn,
}: {
  readonly folder: string;
  readonly io?: VaultCalls;
  readonly warn: (sentence: string) => void;
}): Vault {
  const told = new Set<string>();
  const parts: VaultParts = {
    io,
    warn: (sentence) => {
      if (told.has(sentence) || told.size >= TOLD_MAX) return;
      told.add(sentence);
      warn(sentence);
    },
  };
  const within = async (agent: string, ...names: readonly string[]): Promise<string> => {
    const path = join(folder, ".rkat", "agents", nameOf(agent), ...names);
    await refuseLinks(io, folder, path);
    return path;
  };
  return {
    texts: async (agent) => {
      await within(agent, "notes");
      return personsTexts(parts, await within(agent));
    },
    found: async (agent) => foundMemories(parts, await within(agent, "memories")),
    written: async (agent, count) => writtenMemories(parts, await within(agent, "memories"), count),
    writeMemories: async (agent, memories) => writeMemories(parts, await within(agent, "memories"), memories),
    writeNote: async (agent, { number, title, content }) => {
      const notes = await within(agent, "notes");
      await io.makeFolder(notes);
      await writeNumbered(parts, notes, { number, text: toMarkdown({ seq: number, title }, content) });
    },
    writeSummaries: async (agent, tiers) =>
      writeSummaries(parts, await within(agent, "summaries"), { agent: nameOf(agent), tiers }),
  };
}

/** The name of the folder, which is never a path. */
function nameOf(agent: string): string {
  const { data, error } = AgentName.safeParse(agent);
  if (data !== undefined) return data;
  throw new RuntimeError("INVALID_PARAMS", `agent: ${error?.issues[0]?.message}, got ${JSON.stringify(agent)}`);
}
