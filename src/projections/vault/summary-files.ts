import { join } from "node:path";
import type { Tier } from "../../contract/agent/agent-entry.ts";
import type { VaultTiers } from "../../ports/vault.ts";
import { toMarkdown } from "./front-matter.ts";
import { readMarkdown, type VaultParts } from "./read-markdown.ts";
import { replace } from "./vault-calls.ts";

/** More short-term summaries than this are not made in a second. */
const COPIES_MAX = 1_000;

export async function writeSummaries(
  parts: VaultParts,
  folder: string,
  { agent, tiers }: { readonly agent: string; readonly tiers: VaultTiers },
): Promise<void> {
  const created_at = new Date(tiers.compacted_at_ms).toISOString();
  const textOf = ({ from, to, by, summary }: Tier): string =>
    toMarkdown({ agent, from, to, by, created_at }, `${summary.trimEnd()}\n`);
  const recent = textOf(tiers.recent);
  await parts.io.makeFolder(folder);
  await keepCopy(parts, { tier: tiers.recent, text: recent, stem: join(folder, `recent-${stampOf(created_at)}`) });
  if (tiers.longterm !== undefined) await update(parts, join(folder, "longterm.md"), textOf(tiers.longterm));
  await update(parts, join(folder, "recent.md"), recent);
}

/** YYYYMMDD-HHMMSS. */
function stampOf(iso: string): string {
  return iso.slice(0, "YYYY-MM-DDTHH:MM:SS".length).replace(/[-:]/g, "").replace("T", "-");
}

/** A range is summarised once, so a copy that has it is this one. */
async function keepCopy(
  parts: VaultParts,
  { tier, text, stem }: { readonly tier: Tier; readonly text: string; readonly stem: string },
): Promise<void> {
  for (let copy = 1; copy <= COPIES_MAX; copy += 1) {
    const path = `${stem}${copy === 1 ? "" : `-${copy}`}.md`;
    if ((await parts.io.size(path)) === undefined) return replace(parts.io, path, text);
    const fields = (await readMarkdown(parts, path))?.fields;
    if (fields?.get("from") === String(tier.from) && fields.get("to") === String(tier.to)) return;
  }
  parts.warn(`${stem}.md has ${COPIES_MAX} namesakes; another copy was not made`);
}

async function update({ io }: VaultParts, path: string, text: string): Promise<void> {
  const isThere = (await io.size(path)) !== undefined;
  if (isThere && Buffer.from(text).equals(await io.read(path))) return;
  await replace(io, path, text);
}
