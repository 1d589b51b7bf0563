import { createPlainFunctions } from "./plain.ts";
import { instantiateSimd } from "./simd.ts";

/** Where a look over signatures finds what it needs, as addresses, and where it leaves what it found. */
interface SignatureScan {
  /** Ids from `first` up to, not including, `last`. */
  readonly first: number;
  readonly last: number;
  /** All bits a row must have in both of its bytes. */
  readonly bits: number;
  /** How many candidates are wanted: of the rest, only those as near as the last of them are told. */
  readonly want: number;
}

/** The two loops that take the time of a search, over one block of memory that they and the caller share. */
export interface Scanner {
  readonly kind: "simd" | "plain";
  readonly buffer: ArrayBuffer;
  /** Products of a query with rows of 8-bit numbers, one 32-bit number a row at `out`. */
  dots(rows: number, count: number): void;
  /** Ids and distances of rows whose signatures are nearest, as pairs at `list`; how many pairs. */
  candidates(scan: SignatureScan): number;
}

/** How a scanner's memory is laid out: what is fixed first, then what grows with the number of ids. */
export interface ScanLayout {
  /** Bytes of a row that are multiplied, a multiple of 16. */
  readonly rowBytes: number;
  /** From one row to the next. */
  readonly stride: number;
  /** A multiple of 16. */
  readonly signatureBytes: number;
  /** The query, as 16-bit numbers. */
  readonly query: number;
  readonly signature: number;
  /** Limit and count that go on from one block of ids to the next, then how many rows are at each distance. */
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

/** SIMD where the engine has it, and the same in plain loops elsewhere. */
export function createScanner(layout: ScanLayout, kind: Scanner["kind"] = "simd"): Scanner {
  const simd = kind === "simd" ? instantiateSimd(layout) : undefined;
  const buffer = simd?.buffer ?? new ArrayBuffer(layout.bytes);
  const { dots, candidates } = simd ?? createPlainFunctions(layout, buffer);
  return {
    kind: simd === undefined ? "plain" : "simd",
    buffer,
    dots,
    candidates: ({ first, last, bits, want }) => candidates(first, last, bits, want),
  };
}

/** What both kinds offer, with plain numbers: a call into WASM takes nothing else. */
export interface ScanFunctions {
  dots(rows: number, count: number): void;
  candidates(first: number, last: number, bits: number, want: number): number;
}

function roundUp(value: number, step: number): number {
  return Math.ceil(value / step) * step;
}
