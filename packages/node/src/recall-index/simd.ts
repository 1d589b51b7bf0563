import type { Code, Local } from "../wasm/assembler.ts";
import * as wasm from "../wasm/assembler.ts";
import * as simd from "../wasm/vectors.ts";

/** How a scanner's memory is laid out: what is fixed first, then what grows with the number of ids. */
export interface ScanLayout {
  /** Bytes of a row that are multiplied, a multiple of 16. */
  readonly rowBytes: number;
  readonly stride: number;
  readonly signatureBytes: number;
  readonly query: number;
  readonly signature: number;
  /** Limit and count that carry over from one block of ids to the next, then how many rows are at each distance. */
  readonly tally: number;
  readonly list: number;
  readonly out: number;
  readonly rows: number;
  /** A byte an id. */
  readonly states: number;
  readonly present: number;
  readonly signatures: number;
  readonly bytes: number;
}

/** Ids a call of `candidates` may cover: so many pairs have room. */
export const SCAN_IDS_MAX = 16_384;
/** Rows a call of `dots` may cover. */
export const SCAN_ROWS_MAX = 1_024;
/** Behind the numbers of a row stand its scale, its id and its checksum. */
const ROW_TAIL_BYTES = 16;

export function layoutFor(dimensions: number, ids: number): ScanLayout {
  const rowBytes = roundUp(dimensions, 16);
  const signatureBytes = roundUp(dimensions, 128) / 8;
  const stride = rowBytes + ROW_TAIL_BYTES;
  let end = 0;
  const place = (bytes: number): number => {
    const start = end;
    end += roundUp(bytes, 16);
    return start;
  };
  return {
    rowBytes,
    stride,
    signatureBytes,
    query: place(rowBytes * 2),
    signature: place(signatureBytes),
    tally: place(8 + (signatureBytes * 8 + 1) * 4),
    list: place(SCAN_IDS_MAX * 8),
    out: place(SCAN_ROWS_MAX * 4),
    rows: place(SCAN_ROWS_MAX * stride),
    states: place(ids),
    present: place(ids),
    signatures: place(ids * signatureBytes),
    bytes: end,
  };
}

/** The two loops that take the time of a search, over one block of memory that they and the caller share. */
export interface Scanner {
  readonly buffer: ArrayBuffer;
  /** Products of a query with rows of 8-bit numbers, one 32-bit number a row at `out`. */
  dots(rows: number, count: number): void;
  /**
   * Ids and distances of rows whose signatures are nearest, as pairs at `list`; how many pairs. Of the ids from `first` up
   * to `last` those with all `bits` in both of their bytes; beyond `want`, only those as near as the last of them.
   */
  candidates(first: number, last: number, bits: number, want: number): number;
}

function roundUp(value: number, step: number): number {
  return Math.ceil(value / step) * step;
}

const { get, set, i32 } = wasm;

/** The loops in WASM, made for one layout: addresses and lengths are constants in them. */
export function createScanner(layout: ScanLayout): Scanner {
  const sources = [dotsSource(layout), candidatesSource(layout)];
  const scan = wasm.instantiate<Omit<Scanner, "buffer">>(sources, layout.bytes);
  if (scan === undefined) throw new Error("this engine has no SIMD, which every supported Node has");
  return { ...scan.functions, buffer: scan.buffer };
}

const local = (number: number): Local => ({ number });

/**
 * A row is widened to 16 bits and multiplied with the query; products of eight pairs are added to four sums. There are two
 * fours, so that an addition need not wait for the one before it.
 */
function dotsSource({ rowBytes, stride, query, out }: ScanLayout) {
  const [row, count, target, at, asked] = [local(0), local(1), local(2), local(3), local(4)];
  const [low, high, sixteen] = [local(5), local(6), local(7)];
  const addProducts = (sums: Local, widened: Code, offset: number): Code =>
    set(sums, simd.i32x4Add(get(sums), simd.i32x4DotI16x8S(widened, simd.v128Load(get(asked), offset))));
  const lane = (number: number): Code => simd.i32x4Lane(get(low), number);
  const total = wasm.i32Add(wasm.i32Add(lane(0), lane(1)), wasm.i32Add(lane(2), lane(3)));
  return {
    name: "dots",
    parameters: 2,
    returns: false,
    locals: [wasm.I32, wasm.I32, wasm.I32, wasm.V128, wasm.V128, wasm.V128],
    body: [
      ...set(target, i32(out)),
      ...wasm.loopWhile(get(count), [
        ...set(low, simd.v128Zero),
        ...set(high, simd.v128Zero),
        ...set(at, get(row)),
        ...set(asked, i32(query)),
        ...wasm.loopWhile(wasm.i32LessU(get(asked), i32(query + rowBytes * 2)), [
          ...set(sixteen, simd.v128Load(get(at))),
          ...addProducts(low, simd.i16x8ExtendLowI8x16S(get(sixteen)), 0),
          ...addProducts(high, simd.i16x8ExtendHighI8x16S(get(sixteen)), 16),
          ...set(at, wasm.i32Add(get(at), i32(16))),
          ...set(asked, wasm.i32Add(get(asked), i32(32))),
        ]),
        ...set(low, simd.i32x4Add(get(low), get(high))),
        ...wasm.i32Store(get(target), total),
        ...set(target, wasm.i32Add(get(target), i32(4))),
        ...set(row, wasm.i32Add(get(row), i32(stride))),
        ...set(count, wasm.i32Sub(get(count), i32(1))),
      ]),
    ],
  };
}

/** Rows are counted by their distance, so the limit can fall as soon as enough nearer ones are known. */
function candidatesSource(layout: ScanLayout) {
  const { signatureBytes, signature, signatures, tally, list, states, present } = layout;
  const [id, last, bits, want] = [local(0), local(1), local(2), local(3)];
  const [at, pair, limit, within, away] = [local(4), local(5), local(6), local(7), local(8)];
  const sums = local(9);
  const asked = Array.from({ length: signatureBytes / 16 }, (_, word) => local(10 + word));
  const countAt = (distance: Local): Code => wasm.i32Add(i32(tally + 8), wasm.i32Shl(get(distance), i32(2)));
  const atLimit = wasm.i32Load(countAt(limit));
  const isAllowed = wasm.i32Equal(
    wasm.i32And(wasm.i32And(wasm.i32LoadByte(get(id), states), wasm.i32LoadByte(get(id), present)), get(bits)),
    get(bits),
  );
  const keep: Code = [
    ...wasm.i32Store(get(pair), get(id)),
    ...wasm.i32Store(get(pair), get(away), 4),
    ...set(pair, wasm.i32Add(get(pair), i32(8))),
    ...wasm.i32Store(countAt(away), wasm.i32Add(wasm.i32Load(countAt(away)), i32(1))),
    ...set(within, wasm.i32Add(get(within), i32(1))),
    ...wasm.loopWhile(wasm.i32GreaterOrEqualS(wasm.i32Sub(get(within), atLimit), get(want)), [
      ...set(within, wasm.i32Sub(get(within), atLimit)),
      ...set(limit, wasm.i32Sub(get(limit), i32(1))),
    ]),
  ];
  return {
    name: "candidates",
    parameters: 4,
    returns: true,
    locals: [...Array.from({ length: 5 }, () => wasm.I32), wasm.V128, ...asked.map(() => wasm.V128)],
    body: [
      ...asked.flatMap((word, index) => set(word, simd.v128Load(i32(signature), index * 16))),
      ...set(at, wasm.i32Add(i32(signatures), wasm.i32Mul(get(id), i32(signatureBytes)))),
      ...set(pair, i32(list)),
      ...set(limit, wasm.i32Load(i32(tally))),
      ...set(within, wasm.i32Load(i32(tally), 4)),
      ...wasm.loopWhile(wasm.i32LessU(get(id), get(last)), [
        ...set(sums, onesOf(at, asked)),
        ...set(away, sumOf(sums)),
        // Few rows are near enough; only those are asked whether they may be seen at all.
        ...wasm.when(wasm.i32LessOrEqualU(get(away), get(limit)), wasm.when(isAllowed, keep)),
        ...set(id, wasm.i32Add(get(id), i32(1))),
        ...set(at, wasm.i32Add(get(at), i32(signatureBytes))),
      ]),
      ...wasm.i32Store(i32(tally), get(limit)),
      ...wasm.i32Store(i32(tally), get(within), 4),
      ...wasm.i32Sub(get(pair), i32(list)),
      ...i32(3),
      // Shift right: a pair has eight bytes.
      0x76,
    ],
  };
}

/** A byte holds the ones of at most 31 words. */
const WORDS_PER_BYTE_SUM = 31;

/** How many bits differ from the query's, as eight 16-bit sums. */
function onesOf(at: Local, asked: readonly Local[]): Code {
  const groups: Code[] = [];
  for (let from = 0; from < asked.length; from += WORDS_PER_BYTE_SUM) {
    const ones = asked
      .slice(from, from + WORDS_PER_BYTE_SUM)
      .map((word, index) => simd.i8x16CountOnes(simd.v128Xor(simd.v128Load(get(at), (from + index) * 16), get(word))));
    groups.push(simd.i16x8AddPairsOfI8x16U(ones.reduce((sum, next) => simd.i8x16Add(sum, next))));
  }
  return groups.reduce((sum, next) => simd.i16x8Add(sum, next));
}

/** Eight 16-bit sums as one: the two halves are added, then one product adds up the four that are left. */
function sumOf(sums: Local): Code {
  const halves = wasm.i64Add(simd.i64x2Lane(get(sums), 0), simd.i64x2Lane(get(sums), 1));
  return wasm.i32FromI64(wasm.i64ShiftRightU(wasm.i64Mul(halves, wasm.i64(0x0001000100010001n)), wasm.i64(48n)));
}
