import { LONGTERM_HEADING, RECENT_HEADING } from "../../agent/tier-prompts.ts";

/** The strategy by which a summary has two sections, the older of which takes in the newer one each time. */
export const CASCADE = "cascade";

/** What the summary of a session that compacts by cascade says; a section that is empty is not there. */
export interface Sections {
  /** Everything before the recent past. */
  readonly longterm: string;
  /** What the last compaction took out. */
  readonly recent: string;
}

export function writeSections({ longterm, recent }: Sections): string {
  return [titled(LONGTERM_HEADING, sectionText(longterm)), titled(RECENT_HEADING, sectionText(recent))]
    .filter((section) => section !== "")
    .join("\n\n");
}

/** Reads a summary back; one without the headings, of another strategy or a curator, speaks for the recent past. */
export function readSections(summary: string): Sections {
  const lines = summary.trim().split("\n");
  const rest = (from: number): string => lines.slice(from).join("\n").trim();
  if (isHeading(lines[0], RECENT_HEADING)) return { longterm: "", recent: rest(1) };
  if (!isHeading(lines[0], LONGTERM_HEADING)) return { longterm: "", recent: rest(0) };
  const at = lines.findIndex((line) => isHeading(line, RECENT_HEADING));
  if (at < 0) return { longterm: rest(1), recent: "" };
  return { longterm: lines.slice(1, at).join("\n").trim(), recent: rest(at + 1) };
}

const FENCE = /^\s*(?:```|~~~)/u;

/** A text as it can stand in a section: a heading of ours would end it, and code without an end would not let it end. */
export function sectionText(text: string): string {
  const lines = text
    .split("\n")
    .filter((line) => !isHeading(line, LONGTERM_HEADING) && !isHeading(line, RECENT_HEADING));
  const said = lines.join("\n").trim();
  const isInFence = said.split("\n").filter((line) => FENCE.test(line)).length % 2 === 1;
  return isInFence ? `${said}\n\`\`\`` : said;
}

/** A summary with something cut from its sections; empty when nothing is left of one, whose past nobody would tell. */
export function cutInSections(summary: string, cut: (text: string) => string): string {
  const before = readSections(summary);
  const after = { longterm: sectionText(cut(before.longterm)), recent: sectionText(cut(before.recent)) };
  const isEmptied = (before.longterm !== "" && after.longterm === "") || (before.recent !== "" && after.recent === "");
  return isEmptied ? "" : writeSections(after);
}

function isHeading(line: string | undefined, heading: string): boolean {
  return line?.trim() === heading;
}

function titled(heading: string, text: string): string {
  return text === "" ? "" : `${heading}\n${text}`;
}
