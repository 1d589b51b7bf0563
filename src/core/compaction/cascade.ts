import type { Message } from "../../contract/message.ts";
import { cleanSummary } from "../agent/clean-summary.ts";
import { LONGTERM_HEADING, RECENT_HEADING, summaryPrompt } from "../agent/tier-text.ts";
import { addUsage } from "../session-state.ts";
import { cutText, excerptOf } from "../transcript-text.ts";
import { grammarFaults } from "./grammar.ts";
import { isSummary, summaryText } from "./shown-messages.ts";
import {
  askForText,
  promptOf,
  type RequestParts,
  requestOf,
  roomFor,
  type Summarised,
  type Summarising,
  type SummaryRequest,
  summaryTokensMax,
} from "./summarise.ts";

interface Cascading extends Omit<Summarising, "discarded" | "curator"> {
  /** Of what is shown, what is discarded now; an earlier summary is not among it. */
  readonly leaving: readonly Message[];
}

/** The sections share what a summary may take. */
const SECTION_SHARE = 1 / 2;

/**
 * Writes the two sections of a summary: the long-term one out of both that stand, then the recent one out of what is
 * discarded now. The first time there is only the recent one. When one of them fails, there is neither.
 */
export async function summariseByCascade(work: Cascading): Promise<Summarised> {
  const earlier = work.shown.find(isSummary);
  const longterm = earlier && (await askForText(longtermWanted(work, earlier)));
  if (longterm?.ok === false) return longterm;
  const recent = await askForText(recentWanted(work));
  if (recent.ok) return joined(longterm, recent);
  if (longterm === undefined) return recent;
  const usage = recent.usage === undefined ? longterm.usage : addUsage(longterm.usage, recent.usage);
  return { ...recent, usage };
}

/** The requests that takes, in their order. */
export function cascadeRequests(work: RequestParts & Pick<Cascading, "leaving">): readonly SummaryRequest[] {
  const earlier = work.shown.find(isSummary);
  return [...(earlier === undefined ? [] : [longtermRequest(work, earlier)]), recentRequest(work)];
}

type Earlier = Parameters<typeof summaryText>[0];

function longtermWanted(work: Cascading, earlier: Earlier) {
  return {
    ...work,
    shown: [earlier],
    share: SECTION_SHARE,
    request: () => longtermRequest(work, earlier),
    read: (answer: string) => cleanSummary(sectionText(answer)),
  };
}

const BYTES_PER_TOKEN = 4;

/** In the words an agent's memories are summarised with, and without instructions: they are for what is discarded now. */
function longtermRequest(work: RequestParts, earlier: Earlier): SummaryRequest {
  const { longterm, recent } = readSections(summaryText(earlier));
  const memories = [longterm, recent].filter((section) => section !== "");
  const { asking } = work;
  const room = roomFor(
    asking,
    summaryTokensMax({ ...work, share: SECTION_SHARE }),
    promptOf(summaryPrompt([]), asking),
  );
  const bytesMax = Math.floor((room.tokensLeft * BYTES_PER_TOKEN) / Math.max(1, memories.length));
  const prompt = summaryPrompt(memories.map((memory) => cutText(memory, bytesMax)));
  return { messages: [promptOf(prompt, asking)], maxOutputTokens: room.maxOutputTokens };
}

function recentWanted(work: Cascading) {
  return {
    ...work,
    shown: leavingOf(work),
    share: recentShare(work),
    request: () => recentRequest(work),
    read: sectionText,
  };
}

function recentRequest(work: RequestParts & Pick<Cascading, "leaving">): SummaryRequest {
  return requestOf({ ...work, shown: readable(leavingOf(work), work), share: recentShare(work) });
}

function recentShare({ shown }: Pick<Cascading, "shown">): number {
  return shown.some(isSummary) ? SECTION_SHARE : 1;
}

/** What is discarded now, after the system message. */
function leavingOf({ shown, leaving }: Pick<Cascading, "shown" | "leaving">): readonly Message[] {
  const [first] = shown;
  return first?.role === "system" ? [first, ...leaving] : leaving;
}

/** Taken out of their context messages may not be a conversation any more, such as exchanges of a turn that goes on. */
function readable(messages: readonly Message[], { compactor }: Pick<Cascading, "compactor">): readonly Message[] {
  const prepared = compactor.prepareForSummarization(messages);
  if (grammarFaults(prepared).length === 0) return messages;
  const systems = messages.filter(({ role }) => role === "system");
  const said = prepared.filter(({ role }) => role !== "system");
  const content = excerptOf(said, Number.MAX_SAFE_INTEGER);
  const created_at = said.at(-1)?.created_at ?? "";
  return content === "" ? systems : [...systems, { role: "user", content, created_at }];
}

type Written = Extract<Summarised, { ok: true }>;

function joined(longterm: Written | undefined, recent: Written): Written {
  const parts = longterm === undefined ? [recent] : [longterm, recent];
  const sections: Sections = { longterm: longterm?.summary ?? "", recent: recent.summary };
  return {
    ok: true,
    summary: writeSections(sections),
    // What a model wrote is held against its source, also when the other section is extracted.
    by: parts.some(({ by }) => by === "model") ? "model" : "extractive",
    tokens: parts.reduce((sum, { tokens }) => sum + tokens, 0),
    usage: parts.map(({ usage }) => usage).reduce(addUsage),
    notes: [...new Set(parts.flatMap(({ notes }) => notes))],
    isOfDiscarded: true,
  };
}

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
