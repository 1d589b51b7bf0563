import { access, type Code, leb, simple } from "./assembler.ts";

// 128-bit instructions, under the names of the specification.

const simd = (opcode: number) => simple(0xfd, ...leb(opcode));
const lane =
  (opcode: number) =>
  (vector: Code, number: number): Code => [...vector, 0xfd, opcode, number];

export const v128Load = access([0xfd, 0x00], 0);
/** The same 32 bits in every lane. */
export const v128Load32Splat = access([0xfd, 0x09], 0);
export const v128Store = (address: Code, value: Code, offset = 0): Code => [
  ...address,
  ...value,
  ...[0xfd, 0x0b, 0],
  ...leb(offset),
];
export const v128Store32 = (address: Code, value: Code, offset = 0): Code => [
  ...address,
  ...value,
  ...[0xfd, 0x5a, 0],
  ...leb(offset),
  0,
];

const constant = (bytes: ArrayBufferLike): Code => [0xfd, 0x0c, ...new Uint8Array(bytes)];
export const v128Zero: Code = constant(new ArrayBuffer(16));
export const f32x4 = (value: number): Code => constant(new Float32Array(4).fill(value).buffer);
export const i16x8 = (value: number): Code => constant(new Int16Array(8).fill(value).buffer);
export const i32x4 = (value: number): Code => constant(new Int32Array(4).fill(value).buffer);

export const v128Xor = simd(0x51);
export const i8x16CountOnes = simd(0x62);
export const i8x16NarrowI16x8S = simd(0x65);
export const i8x16Add = simd(0x6e);
export const i16x8AddPairsOfI8x16S = simd(0x7c);
export const i16x8AddPairsOfI8x16U = simd(0x7d);
export const i32x4AddPairsOfI16x8S = simd(0x7e);
export const i16x8NarrowI32x4S = simd(0x85);
export const i16x8ExtendLowI8x16S = simd(0x87);
export const i16x8ExtendHighI8x16S = simd(0x88);
export const i16x8Add = simd(0x8e);
export const i32x4ShiftLeft = simd(0xab);
export const i32x4Add = simd(0xae);
export const i32x4Sub = simd(0xb1);
export const i32x4Mul = simd(0xb5);
export const i32x4DotI16x8S = simd(0xba);
/** Sums of two products of signed bytes with bytes below 128. */
export const i16x8RelaxedDotI8x16I7x16S = simd(0x112);
/** Adds to each lane of the third operand four products of signed bytes with bytes below 128. */
export const i32x4RelaxedDotI8x16I7x16AddS = simd(0x113);
export const i64x2Lane = lane(0x1d);
export const i32x4Lane = lane(0x1b);

export const f32x4Abs = simd(0xe0);
export const f32x4Sqrt = simd(0xe3);
export const f32x4Add = simd(0xe4);
export const f32x4Sub = simd(0xe5);
export const f32x4Mul = simd(0xe6);
export const f32x4Div = simd(0xe7);
// One instruction on x64, where those that respect NaN and −0 are seven.
export const f32x4PseudoMin = simd(0xea);
export const f32x4PseudoMax = simd(0xeb);
export const f32x4ConvertI32x4S = simd(0xfa);

/** Selects four 32-bit lanes of a vector. */
const shuffle32 =
  (...lanes: readonly number[]) =>
  (vector: Code): Code => [
    ...vector,
    ...vector,
    ...[0xfd, 0x0d],
    ...lanes.flatMap((number) => [0, 1, 2, 3].map((byte) => number * 4 + byte)),
  ];
export const swapHalves = shuffle32(2, 3, 0, 1);
export const swapNeighbours = shuffle32(1, 0, 3, 2);
