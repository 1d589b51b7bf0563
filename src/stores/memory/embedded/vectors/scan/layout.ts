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

/** What both kinds offer, with plain numbers: a call into WASM takes nothing else. */
export interface ScanFunctions {
  dots(rows: number, count: number): void;
  candidates(first: number, last: number, bits: number, want: number): number;
}

function roundUp(value: number, step: number): number {
  return Math.ceil(value / step) * step;
}
