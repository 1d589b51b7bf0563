import type { Receipt } from "@rkat/core/contract/compaction";
import { withVerdict } from "@rkat/core/contract/describe-event";
import { describe, expect, it } from "vitest";
import { createPaint } from "../io.ts";
import { receiptLines } from "./receipt-lines.ts";

const paint = createPaint({ isTerminal: false, columns: undefined, write: () => {} }, {});

const path = (n: number, status: Receipt["items"][number]["status"]) =>
  ({ kind: "path", text: `src/file${n}.ts`, seq: n, status }) as const;

const receipt = withVerdict<Receipt>({
  total: 1_208,
  in_summary: 1_206,
  in_tail: 0,
  pinned: 0,
  recoverable: 0,
  found_by_search: 0,
  lost: 2,
  items: [
    { kind: "ask", text: `tell\u001b[31m me ${"why ".repeat(60)}`, seq: 40, status: "lost" },
    path(2, "lost"),
    ...[3, 4, 5, 6, 7, 8, 9, 10].map((n) => path(n, "in_summary")),
  ],
  invented: [{ kind: "number", text: "9999", sentence: "The port is 9999." }],
  invented_cut: true,
  pruned: [{ seq: 12, tool_use_id: "call-1", tokens: 3_200 }],
});

describe("the receipt as a person reads it", () => {
  it("[R2] counts in its verdict what could not be checked, and lists some of it", () => {
    const claims = ["one", "two", "three", "four", "five", "six"].map((word) => `The user\u001b[31m approved ${word}.`);
    const rest = { ...receipt, lost: 0, total: 0, items: [], invented: [], pruned: [] };
    const claiming = withVerdict<Receipt>({ ...rest, unverified: [...claims, "Said."], doubtful: claims });
    expect(receiptLines(claiming, { paint, columns: 40, isWhole: false, allHint: "--all" })).toEqual([
      "Receipt",
      "   Nothing lost. 6 sentences of the summary could not be checked.",
      "   0 facts: 1,206 in view (1,206 in the summary), 0 recoverable, 0 lost",
      "",
      "Not checked: sentences that contradict a message, or that no message contains",
      ...["one", "two", "three", "four", "five"].map((word) => `   The user[31m approved ${word}.`),
      "   … and 1 more (--all)",
    ]);
  });

  it("[C15] lists what is lost first and in full, then the rest by kind", () => {
    expect(receiptLines(receipt, { paint, columns: 40, isWhole: false, allHint: "--all" })).toEqual([
      "Receipt",
      "   2 facts are lost. 1 invented fact was cut from the summary.",
      "   1,208 facts: 1,206 in view (1,206 in the summary), 0 recoverable, 2 lost",
      "",
      "Lost: neither in the context nor found again",
      `   ask   seq 40  tell[31m me ${"why ".repeat(60).trim()}`,
      "   path  seq 2   src/file2.ts",
      "",
      "Invented: no message contains it; its sentences were cut from the summary",
      "   number  9999",
      "      cut: The port is 9999.",
      "",
      "Tool results that stand as a reference; the log has them whole",
      "   seq 12  call-1  3,200 tokens",
      "",
      "Paths  8 in view",
      ...[3, 4, 5, 6, 7, 8].map((n) => `   in view  seq ${n}  src/file${n}.ts`),
      "   … and 2 more (--all)",
      "",
      "1,198 further facts are counted above and listed nowhere",
    ]);
  });

  it("lists every one when all are asked for", () => {
    const whole = receiptLines(receipt, { paint, columns: 40, isWhole: true, allHint: "--all" });
    expect(whole.filter((line) => line.includes("--all"))).toEqual([]);
    expect(whole.filter((line) => line.includes("in view  seq"))).toHaveLength(8);
  });
});
