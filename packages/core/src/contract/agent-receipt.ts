import { Receipt } from "./compaction.ts";
import { z } from "./schema.ts";

const count = z.number().int().nonnegative();
const share = z.number().min(0).max(1);

/** The receipts of both summaries of a compaction. */
export const TierReceipts = z.object({ recent: Receipt, longterm: Receipt.optional() });
export type TierReceipts = z.infer<typeof TierReceipts>;

/** A receipt in numbers. */
export const ReceiptCounts = z.object({
  total: count.describe("specifics of what it sums up"),
  in_summary: count.describe("of them, those it says"),
  in_tail: count.describe("of them, those the other summary or a memory that is still shown says"),
  recoverable: count.describe("of them, those only the log and memory have"),
  lost: count.describe("of them, those that can be found nowhere any more"),
  invented: count.describe("things it said that nothing it sums up says"),
  unverified: count.describe("sentences of it whose claims nothing proved"),
});

/** How a long-term summary stands to what it was made of: the two summaries before it, or, made anew, the waterfall. */
export const LongtermQuality = z.object({
  sources: count.describe("specifics of what it was made of"),
  kept: count.describe("of them, those it says"),
  attainable: count.describe("of them, those that sentences of what it was made of say in the same room"),
  invented: count.describe("sentences that say what none of its sources says and were not cut"),
  shrinkage: z.number().nonnegative().describe("its length over that of what it was made of"),
  quality: share.describe(
    "what is kept of what could be, multiplied over all steps since it was last held against the short-term summaries",
  ),
});
export type LongtermQuality = z.infer<typeof LongtermQuality>;

/** What came of holding a long-term summary against the waterfall: every short-term summary there was. */
export const Remaking = z.object({
  outcome: z
    .enum(["remade", "not_needed", "not_better", "failed"])
    .describe(
      "remade: it was made anew of them and that one stands; not_needed: it keeps what can be kept of them; " +
        "not_better: made anew it would keep no more; failed: it could not be made anew",
    ),
  quality_before: share.describe("the quality that had it held against them"),
  summaries: count.describe("short-term summaries it was held against"),
  specifics: count.describe("specifics of theirs"),
  kept_before: count.describe("of them, those it said before"),
  kept_remade: count.optional().describe("of them, those it says when made anew"),
  steps: count.describe("calls of the model that it took"),
  reason: z.string().optional().describe("why it failed"),
});
export type Remaking = z.infer<typeof Remaking>;
