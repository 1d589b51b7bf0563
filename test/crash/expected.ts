import type { EntryBody } from "@rkat/core/contract/entry";
import { answered, created, idOf, said } from "../support/entries.ts";

export const sessionIds = [1, 2, 3, 4].map(idOf);

/** What is appended after a seq: always the same, so that whoever reads it knows what should be there. */
export function bodiesOf(sessionId: string, end: number): readonly EntryBody[] {
  if (end === 0) return [created];
  const text = `${sessionId} ${end} ${"lorem ipsum ".repeat((end * 7) % 200)}`;
  return end % 3 === 0 ? [said(text), answered(text)] : [answered(text)];
}
