import type { Message } from "../../contract/message.ts";
import { cleanSummary } from "../agent/clean-summary.ts";
import { summaryPrompt } from "../agent/tier-text.ts";
import { addUsage } from "../cost.ts";
import { cutText, excerptOf } from "../transcript-text.ts";
import { grammarFaults } from "./grammar.ts";
import { isSummary, readSections, type Sections, sectionText, summaryText, writeSections } from "./shown-messages.ts";
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
  /** The messages discarded now, without an earlier summary. */
  readonly leaving: readonly Message[];
}

const SECTION_SHARE = 1 / 2;

/**
 * Writes the two sections of a summary: the long-term one from both existing sections, then the recent one from the
 * discarded messages. The first time only the recent one. If either fails, both do.
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

/** The requests for both sections, in order. */
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

/** Uses the prompt of agent memories, without instructions: those apply to the discarded messages. */
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

function leavingOf({ shown, leaving }: Pick<Cascading, "shown" | "leaving">): readonly Message[] {
  const [first] = shown;
  return first?.role === "system" ? [first, ...leaving] : leaving;
}

/** Out of context the messages may not form a valid conversation, such as exchanges of a turn in progress. */
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
    // A model's text is checked against its source, even if the other section is extractive.
    by: parts.some(({ by }) => by === "model") ? "model" : "extractive",
    tokens: parts.reduce((sum, { tokens }) => sum + tokens, 0),
    usage: parts.map(({ usage }) => usage).reduce(addUsage),
    notes: [...new Set(parts.flatMap(({ notes }) => notes))],
    isOfDiscarded: true,
  };
}
