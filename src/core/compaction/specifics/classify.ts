import type { SpecificStatus } from "../../../contract/compaction.ts";
import type { Clock } from "../../../ports/clock.ts";
import { indexTexts } from "./occurrence.ts";
import type { Specific } from "./specifics.ts";
import { piecesOf } from "./texts.ts";

/** One line of a loss receipt. */
export interface ReceiptItem extends Specific {
  readonly status: SpecificStatus;
}

/** Where a specific may have stayed after a compaction. */
interface Places {
  readonly summary: string;
  readonly tail: readonly string[];
  readonly pinned: readonly string[];
  /** Whether a search finds the specific again; asked one at a time, and only for what stands nowhere else. */
  recover(specific: Specific): Promise<boolean>;
  readonly breathe: Clock["breathe"];
}

/** Says for each specific where it is now: the first place that holds it. */
export async function classify(specifics: readonly Specific[], places: Places): Promise<readonly ReceiptItem[]> {
  const { breathe } = places;
  const held = [
    ["in_summary", await indexTexts(piecesOf(places.summary), breathe)],
    ["in_tail", await indexTexts(places.tail, breathe)],
    ["pinned", await indexTexts(places.pinned, breathe)],
  ] as const;
  const items: ReceiptItem[] = [];
  for (const specific of specifics) {
    await breathe();
    const place = held.find(([, index]) => index.has(specific))?.[0];
    const status = place ?? ((await places.recover(specific)) ? "recoverable" : "lost");
    items.push({ ...specific, status });
  }
  return items;
}
