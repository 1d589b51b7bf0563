import type { ScanLayout } from "./layout.ts";
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
