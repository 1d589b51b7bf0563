import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { answered } from "../../../test/support/entries.ts";
import type { Entry } from "../../contract/entry.ts";
import { decodeRecord, encodeRecord, findRecord, recordHead } from "./record.ts";

const texts = fc.array(fc.string({ unit: "binary", maxLength: 40 }), { minLength: 1, maxLength: 5 });
const record = fc.record({
  sessionId: fc.uuid(),
  texts,
  seq: fc.integer({ min: 1, max: 2 ** 47 }),
  span: fc.integer({ min: 1, max: 9 }),
});

function entriesOf({ texts: said, seq, span }: { texts: readonly string[]; seq: number; span: number }): Entry[] {
  return said.map((text, index) => ({
    seq: seq + index * span,
    span,
    timestamp_ms: 1_790_000_000_000,
    body: answered(text),
  }));
}

describe("a record", () => {
  it("[F4] comes back as it was written, wherever it stands", () => {
    fc.assert(
      fc.property(record, fc.uint8Array({ maxLength: 50 }), (given, before) => {
        const entries = entriesOf(given);
        const bytes = encodeRecord(given.sessionId, entries, 7);
        const buffer = Buffer.concat([before, bytes]);
        expect(findRecord(buffer, before.length)).toEqual({ kind: "record", bytes: bytes.length });
        expect(recordHead(buffer, before.length)).toEqual({ sessionId: given.sessionId, seq: given.seq, fence: 7 });
        expect(decodeRecord(buffer, before.length)).toEqual({ sessionId: given.sessionId, entries });
      }),
    );
  });

  it("[F7] with any bytes changed is no record any more", () => {
    fc.assert(
      fc.property(
        record,
        fc.array(fc.tuple(fc.nat(), fc.integer({ min: 1, max: 255 })), { minLength: 1, maxLength: 4 }),
        (given, changes) => {
          const bytes = encodeRecord(given.sessionId, entriesOf(given));
          const damaged = Buffer.from(bytes);
          for (const [at, by] of changes) damaged[at % damaged.length] = (damaged[at % damaged.length] ?? 0) ^ by;
          fc.pre(!damaged.equals(bytes));
          expect(findRecord(damaged, 0).kind).toBe("damaged");
        },
      ),
    );
  });

  it("[F7] is not seen in bytes that are none", () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 1, maxLength: 300 }), (bytes) => {
        expect(findRecord(Buffer.from(bytes), 0).kind).toBe("damaged");
      }),
    );
  });
});
