import type { EntryBody } from "../contract/entry.ts";
import type { AgentsMdFile } from "../ports/agents-md.ts";
import type { Hash, Placed } from "../state/context.ts";
import { agentsMdIn } from "../turn/skills.ts";

/** What a notice says it is about that holds the text of an AGENTS.md. */
const KIND = "agents_md";

interface Held {
  readonly shown: readonly Placed[];
  readonly heldNotices: readonly Placed[];
  readonly pins: ReadonlySet<number>;
}

/**
 * The entries that bring a session to what the files say now: a new version for each that changed, and no pin for
 * versions that no longer hold. None if nothing changed.
 */
export function agentsMdEntries(
  files: readonly AgentsMdFile[],
  { shown, heldNotices, pins }: Held,
  { hash, redact, created_at }: { readonly hash: Hash; redact(text: string): string; readonly created_at: string },
): readonly EntryBody[] {
  const known = [...shown, ...heldNotices].flatMap(({ seq, message }) => {
    const stamp = agentsMdIn(message);
    return stamp === undefined ? [] : [{ ...stamp, seq }];
  });
  const loaded = known.filter(({ seq }) => pins.has(seq));
  const holding = new Set<number>();
  const notices = files.flatMap(({ key, text }): readonly EntryBody[] => {
    const newest = loaded.findLast((one) => one.key === key);
    const sha256 = text === undefined ? newest?.sha256 : hash(text);
    if (newest !== undefined && newest.sha256 === sha256) holding.add(newest.seq);
    if (text === undefined || newest?.sha256 === sha256 || sha256 === undefined) return [];
    const version = Math.max(0, ...known.filter((one) => one.key === key).map((one) => one.version)) + 1;
    const earlier = version === 1 ? "" : `, version ${version}, which replaces the earlier one`;
    const body = redact(`Instructions of the user for this project, from ${key}${earlier}:\n\n${text}`);
    const message = {
      role: "system_notice" as const,
      kind: KIND,
      body,
      agents_md: { key, version, sha256 },
      created_at,
    };
    return [{ kind: "notice", message }];
  });
  const over = loaded.filter(({ seq }) => !holding.has(seq));
  return [...over.map(({ seq }): EntryBody => ({ kind: "pinned", seq, pinned: false })), ...notices];
}
