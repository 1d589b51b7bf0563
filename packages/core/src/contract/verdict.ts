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
  const fate = invented_cut ? "were cut from the summary" : "are in the summary";
  const told: readonly (readonly [count: number, one: string, many: string])[] = [
    [lost, "fact is lost", "facts are lost"],
    [
      recoverable,
      "fact is no longer shown to the model and can be found again",
      "facts are no longer shown to the model and can be found again",
    ],
    [invented.length, `invented fact ${fate.replace("were", "was").replace("are", "is")}`, `invented facts ${fate}`],
    [doubtful.length, "sentence of the summary could not be checked", "sentences of the summary could not be checked"],
  ];
  const sentences = told.flatMap(([count, one, many]) => {
    return count === 0 ? [] : [`${count.toLocaleString("en")} ${count === 1 ? one : many}.`];
  });
  return [...(lost === 0 ? ["Nothing lost."] : []), ...sentences].join(" ");
}

export function withVerdict<T extends Told>(receipt: T): T & { readonly verdict: string } {
  return { ...receipt, verdict: verdictOf(receipt) };
}
