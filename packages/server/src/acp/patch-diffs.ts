import { resolve } from "node:path";
import type { Diff } from "@agentclientprotocol/sdk";

/** What a patch does to one file. */
export interface FileDiff {
  /** The file as the patch names it. */
  readonly name: string;
  readonly kind: "add" | "change" | "delete" | "move";
  /** One for each place that changes; a file that goes has none. */
  readonly diffs: readonly Diff[];
}

const DIFFS_MAX = 200;
const FILE_LINE = /^\*\*\* (Add|Update|Delete) File: (.+)$/;
const MOVE_LINE = /^\*\*\* Move to: (.+)$/;

/**
 * The changes of a patch as an editor shows them, place by place. It reads what the model wrote, before the patch is
 * known to fit: a line that is none of a patch is passed over.
 */
export function diffsOf(patch: string, root: string): readonly FileDiff[] {
  const sections: { verb: string; name: string; moveTo?: string; hunks: string[][] }[] = [];
  for (const line of patch.split("\n")) {
    const [, verb, name] = FILE_LINE.exec(line) ?? [];
    const section = sections.at(-1);
    const [, moveTo] = MOVE_LINE.exec(line) ?? [];
    if (verb !== undefined && name !== undefined) sections.push({ verb, name: name.trim(), hunks: [[]] });
    else if (section === undefined || line.startsWith("*** End")) continue;
    else if (moveTo !== undefined) section.moveTo = moveTo.trim();
    else if (line.startsWith("@@")) section.hunks.push([]);
    else section.hunks.at(-1)?.push(line);
  }
  return sections.map(({ verb, name, moveTo, hunks }) => {
    const path = resolve(root, moveTo ?? name);
    if (verb === "Delete") return { name, kind: "delete", diffs: [] };
    const changed = hunks.filter((lines) => lines.some((line) => /^[+-]/.test(line))).slice(0, DIFFS_MAX);
    if (verb === "Add") return { name, kind: "add", diffs: [{ path, oldText: null, newText: side(changed[0], "+") }] };
    const diffs = changed.map((lines) => ({ path, oldText: side(lines, "-"), newText: side(lines, "+") }));
    return { name: moveTo ?? name, kind: moveTo === undefined ? "change" : "move", diffs };
  });
}

/** The lines of a place as they were ("-") or will be ("+"). */
function side(lines: readonly string[] = [], sign: "+" | "-"): string {
  const own = lines.filter((line) => line.startsWith(sign) || line.startsWith(" ") || line === "");
  return own.map((line) => `${line.slice(1)}\n`).join("");
}
