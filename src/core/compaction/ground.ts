import type { EntryBodyOf } from "../../contract/entry.ts";
import { messageOf } from "../../contract/error.ts";
import { type Judgement, Usage } from "../../contract/event.ts";
import type { Message } from "../../contract/message.ts";
import type { Verdict, Verdicts } from "../../ports/judge.ts";
import { addUsage } from "../cost.ts";
import { type Checked, checkSummary, cutInvented, type Invented } from "../grounding/groundedness.ts";
import { type Asking, waitFor } from "../model-call.ts";
import { createModelJudge } from "./model-judge.ts";
import type { Compacting } from "./prepare.ts";
import { CASCADE, cutInSections } from "./shown-messages.ts";
import type { Summarised } from "./summarise.ts";

/** A written summary, or none because none is needed. */
export type Written = Omit<Extract<Summarised, { ok: true }>, "by"> & {
  readonly by: EntryBodyOf<"compacted">["summary_by"];
};

/** A summary without invented content, and that content; its usage includes the judge's. */
export interface Grounded extends Written {
  readonly invented: readonly Invented[];
  readonly inventedCut: boolean;
  readonly unverified: readonly string[];
  readonly judged?: Judgement;
}

interface Grounding {
  readonly compacting: Pick<Compacting, "cutInvented" | "judge" | "strategy" | "reading">;
  readonly asking: Asking;
  readonly source: readonly Message[];
}

/** Checks a summary against its source: specifics exactly, claims by the judge if there is one. */
export async function ground(
  { compacting, asking, source }: Grounding,
  written: Written,
): Promise<Grounded | { readonly ok: false; readonly error: string; readonly usage: Usage }> {
  const { summary, by } = written;
  // Extracted sentences invent nothing; a curator's additions are reported and kept.
  if (by === "extractive" || by === "none") return ungrounded(written);
  const checked = await check({ compacting, asking, source }, summary);
  if ("fault" in checked) return { ok: false, error: checked.fault, usage: written.usage };
  const { invented, unverified: claims } = checked;
  const { contradicted, unverified, judged, notes } = await judgeClaims({ compacting, asking, source }, claims);
  const usage = judged === undefined ? written.usage : addUsage(written.usage, judged.usage);
  const told = {
    ...written,
    usage,
    notes: [...written.notes, ...notes],
    ...(judged === undefined ? {} : { judged }),
  };
  const opposed = contradicted.map((sentence): Invented => ({ kind: "claim", text: sentence, sentence }));
  const all = [...invented, ...opposed];
  const isCut = compacting.cutInvented && by === "model" && all.length > 0;
  if (!isCut) return { ...told, invented: all, inventedCut: false, unverified };
  const cut = (found: readonly Invented[]): string => {
    const from = (text: string): string => cutInvented(text, found);
    return compacting.strategy === CASCADE ? cutInSections(summary, from) : from(summary);
  };
  const kept = cut(all);
  if (kept.trim() !== "") return { ...told, ...left(kept, unverified), invented: all, inventedCut: true };
  // A manipulated judge must not prevent the session from ever compacting.
  const exact = opposed.length === 0 ? "" : cut(invented);
  if (exact.trim() === "") return { ok: false, error: "nothing in the summary is said by its source", usage };
  return {
    ...told,
    ...left(exact, claims),
    notes: [...told.notes, "the judge left nothing of the summary, so what it said was not followed"],
    invented,
    inventedCut: invented.length > 0,
  };
}

async function check(
  { compacting, asking, source }: Grounding,
  summary: string,
): Promise<Checked | { readonly fault: string }> {
  try {
    const given = { summary, source };
    return await (compacting.reading?.("check", given, asking.signal) ??
      checkSummary(summary, source, asking.clock.breathe));
  } catch (thrown) {
    return { fault: messageOf(thrown) };
  }
}

export function ungrounded(written: Written): Grounded {
  return { ...written, invented: [], inventedCut: false, unverified: [] };
}

/** Sentences that were cut need no proof. */
function left(summary: string, unverified: readonly string[]): Pick<Grounded, "summary" | "unverified"> {
  return { summary, unverified: unverified.filter((sentence) => summary.includes(sentence)) };
}

interface JudgedClaims {
  readonly contradicted: readonly string[];
  readonly unverified: readonly string[];
  readonly judged?: Judgement;
  readonly notes: readonly string[];
}

/** A custom judge may return anything, and its usage counts in the budget. */
function readVerdicts(answer: Verdicts | undefined): Verdicts {
  const isSound = Array.isArray(answer?.verdicts) && Usage.safeParse(answer.usage).success;
  if (answer === undefined || !isSound || typeof (answer.note ?? "") !== "string") {
    throw new TypeError("it gave no list of verdicts with their usage");
  }
  return answer;
}

async function judgeClaims(grounding: Grounding, claims: readonly string[]): Promise<JudgedClaims> {
  const { compacting, asking, source } = grounding;
  if (compacting.judge === undefined || claims.length === 0) return { contradicted: [], unverified: claims, notes: [] };
  const isOwn = compacting.judge !== "model";
  const judge = compacting.judge === "model" ? createModelJudge(asking) : compacting.judge;
  let answer: Verdicts;
  try {
    // A custom judge receives copies: its changes must not reach the session.
    const given = isOwn ? structuredClone(source) : source;
    answer = readVerdicts(await waitFor(asking, (signal) => judge.judge(claims, given, signal)));
  } catch (thrown) {
    return { contradicted: [], unverified: claims, notes: [`the judge failed: ${messageOf(thrown)}`] };
  }
  const { verdicts, usage, note } = answer;
  const having = (verdict: Verdict): readonly string[] => claims.filter((_, at) => verdicts[at] === verdict);
  const [supported, contradicted] = [having("supported"), having("contradicted")];
  // A custom judge may return anything; sentences in neither list are undecided.
  const decided = new Set([...supported, ...contradicted]);
  const unverified = claims.filter((claim) => !decided.has(claim));
  return {
    contradicted,
    unverified,
    judged: {
      supported: supported.length,
      contradicted: contradicted.length,
      unverified: unverified.length,
      usage,
    },
    notes: note === undefined ? [] : [note],
  };
}
