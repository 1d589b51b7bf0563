import type { Entry } from "@rkat/core/contract/entry";
import { describe, expect, it } from "vitest";
import { answered } from "../../../../test/support/entries.ts";
import { fc } from "../../../../test/support/property.ts";
import { decodeRecord, encodeInPieces, encodeRecord, findRecord, openRecord, recordHead } from "./record.ts";

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

const ID = "01900000-0000-7000-8000-000000000001";

describe("a record", () => {
  it("[F4] comes back as it was written, wherever it stands", () => {
    fc.assert(
      fc.property(record, fc.uint8Array({ maxLength: 50 }), (given, before) => {
        const entries = entriesOf(given);
        const bytes = encodeRecord(given.sessionId, entries, 7);
        const buffer = Buffer.concat([before, bytes]);
        expect(findRecord(buffer, before.length)).toEqual({ kind: "record", bytes: bytes.length });
        expect(recordHead(buffer, before.length)).toEqual({
          sessionId: given.sessionId,
          seq: given.seq,
          fence: 7,
          timestamp_ms: 1_790_000_000_000,
        });
        expect(decodeRecord(buffer, before.length)).toEqual({ sessionId: given.sessionId, entries });
      }),
    );
  });

  it("[F4] of many entries is read from any seq on, whatever they say of other records", () => {
    const looksLikeRows = JSON.stringify([
      [1, { kind: "a" }],
      [2, { kind: "b" }],
    ]);
    const said = fc.array(fc.oneof(fc.string({ unit: "binary", maxLength: 40 }), fc.constant(looksLikeRows)), {
      minLength: 1,
      maxLength: 9,
    });
    const args = fc.constantFrom({}, { rows: [[{}], [1, { kind: "assistant" }], [1, { kind: "assistant" }]] });
    fc.assert(
      fc.property(
        said,
        args,
        fc.integer({ min: 1, max: 3 }),
        fc.nat(2_000),
        fc.nat(600),
        (texts, given, span, from, max) => {
          const blocks = [{ block_type: "tool_use" as const, data: { id: "1", name: "put", args: given } }];
          const entries = entriesOf({
            texts: Array.from({ length: 500 }, (_, at) => texts[at % texts.length] ?? ""),
            seq: 7,
            span,
          });
          const called = entries.map((entry, at) =>
            at === 9 ? { ...entry, body: { kind: "assistant", blocks } } : entry,
          );
          const bytes = encodeRecord(ID, called);
          const opened = openRecord(bytes, 0);
          expect(opened.end).toBe(7 + 500 * span);
          const wanted = called.filter((entry) => entry.seq + entry.span > from).slice(0, max);
          expect(opened.from(from, max)).toEqual(wanted);
        },
      ),
    );
  });

  it("[F4] [L1] is the same bytes when it is made in pieces, and may have any number of entries", async () => {
    const yields: number[] = [];
    const yieldToEventLoop = async (): Promise<void> => void yields.push(1);
    for (const count of [1, 64, 65, 70_000]) {
      const entries = entriesOf({
        texts: Array.from({ length: count }, (_, at) => `text ${at} \ud800`),
        seq: 1,
        span: 2,
      });
      yields.length = 0;
      const bytes = await encodeInPieces(ID, entries, { fence: 3, yieldToEventLoop });
      expect(bytes.equals(encodeRecord(ID, entries, 3))).toBe(true);
      expect(yields).toHaveLength(Math.ceil(count / 64));
      expect(openRecord(bytes, 0).from(count, 2)).toEqual(
        decodeRecord(bytes, 0)
          .entries.slice((count - 1) >> 1)
          .slice(0, 2),
      );
    }
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
