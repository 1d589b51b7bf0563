import { instantiateSimd, type ScanFunctions, type ScanLayout } from "./simd.ts";

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

/** The loops without SIMD: what an engine without it runs, and what the other kind is compared with. */
function createPlainFunctions(layout: ScanLayout, buffer: ArrayBuffer): ScanFunctions {
  const bytes = new Uint8Array(buffer);
  const words = new Uint32Array(buffer);
  const numbers = new Int8Array(buffer);
  const query = new Int16Array(buffer, layout.query, layout.rowBytes);
  const out = new Int32Array(buffer, layout.out);
  const tally = layout.tally / 4;
  const list = layout.list / 4;

  const dots: ScanFunctions["dots"] = (rows, count) => {
    for (let row = 0; row < count; row += 1) {
      const at = rows + row * layout.stride;
      let sum = 0;
      for (let index = 0; index < layout.rowBytes; index += 1) {
        sum += (numbers[at + index] ?? 0) * (query[index] ?? 0);
      }
      out[row] = sum;
    }
  };

  const distance = (id: number): number => {
    const row = (layout.signatures + id * layout.signatureBytes) / 4;
    const asked = layout.signature / 4;
    let sum = 0;
    for (let word = 0; word < layout.signatureBytes / 4; word += 1) {
      sum += ones((words[row + word] ?? 0) ^ (words[asked + word] ?? 0));
    }
    return sum;
  };

  const countAt = (value: number): number => words[tally + 2 + value] ?? 0;

  const candidates: ScanFunctions["candidates"] = (first, last, bits, want) => {
    let limit = words[tally] ?? 0;
    let within = words[tally + 1] ?? 0;
    let found = 0;
    for (let id = first; id < last; id += 1) {
      if (((bytes[layout.states + id] ?? 0) & (bytes[layout.present + id] ?? 0) & bits) !== bits) continue;
      const away = distance(id);
      if (away > limit) continue;
      words[list + found * 2] = id;
      words[list + found * 2 + 1] = away;
      found += 1;
      words[tally + 2 + away] = countAt(away) + 1;
      within += 1;
      while (within - countAt(limit) >= want) {
        within -= countAt(limit);
        limit -= 1;
      }
    }
    words[tally] = limit;
    words[tally + 1] = within;
    return found;
  };

  return { dots, candidates };
}

/** How many bits are set. */
function ones(word: number): number {
  const pairs = word - ((word >>> 1) & 0x55555555);
  const fours = (pairs & 0x33333333) + ((pairs >>> 2) & 0x33333333);
  return Math.imul((fours + (fours >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24;
}
