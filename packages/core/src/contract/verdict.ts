import type { Receipt, SpecificStatus } from "./compaction.ts";

/** The three classes of facts for people; the wire tells where a fact is in view. */
export const CLASS_OF: Readonly<Record<SpecificStatus, "in view" | "recoverable" | "lost">> = {
  in_summary: "in view",
  in_tail: "in view",
  pinned: "in view",
  recoverable: "recoverable",
  lost: "lost",
};

type Told = Pick<Receipt, "recoverable" | "lost" | "invented" | "invented_cut" | "doubtful">;

/** What a receipt comes to, in the words of every surface. */
export function verdictOf({ recoverable, lost, invented, invented_cut, doubtful = [] }: Told): string {
  const told = (count: number, [thing, one, many]: readonly string[], rest: string): string =>
    count === 0 ? "" : `${count.toLocaleString("en")} ${thing}${count === 1 ? ` ${one}` : `s ${many}`} ${rest}.`;
  return [
    lost === 0 ? "Nothing lost." : told(lost, ["fact", "is", "are"], "lost"),
    told(recoverable, ["fact", "is", "are"], "no longer shown to the model and can be found again"),
    told(
      invented.length,
      ["invented fact", ...(invented_cut ? ["was cut", "were cut"] : ["is", "are"])],
      invented_cut ? "from the summary" : "in the summary",
    ),
    told(doubtful.length, ["sentence", "of", "of"], "the summary could not be checked"),
  ]
    .filter((sentence) => sentence !== "")
    .join(" ");
}

export function withVerdict<T extends Told>(receipt: T): T & { readonly verdict: string } {
  return { ...receipt, verdict: verdictOf(receipt) };
}
