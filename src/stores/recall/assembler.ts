/** Bytes of WASM code. */
export type Code = readonly number[];

/** Types of values, as the binary format writes them. */
export const I32 = 0x7f;
export const V128 = 0x7b;

/** A local variable of a function, by its number. */
export interface Local {
  readonly number: number;
}

interface FunctionSource {
  readonly name: string;
  /** All of them 32-bit numbers. */
  readonly parameters: number;
  readonly returns: boolean;
  /** Types of the locals behind the parameters. */
  readonly locals: readonly number[];
  readonly body: Code;
}

/** A module that takes its memory from outside and offers functions. */
export function assemble(functions: readonly FunctionSource[]): Uint8Array<ArrayBuffer> {
  const section = (id: number, items: readonly Code[]): Code => {
    const content = [...leb(items.length), ...items.flat()];
    return [id, ...leb(content.length), ...content];
  };
  const types = functions.map(({ parameters, returns }) => [
    0x60,
    ...leb(parameters),
    ...Array.from({ length: parameters }, () => I32),
    ...(returns ? [1, I32] : [0]),
  ]);
  const bodies = functions.map(({ locals, body }) => {
    const content = [...leb(locals.length), ...locals.flatMap((type) => [1, type]), ...body, 0x0b];
    return [...leb(content.length), ...content];
  });
  const memory = [...text("host"), ...text("memory"), 0x02, 0x00, 0x01];
  return Uint8Array.from([
    ...[0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00],
    ...section(1, types),
    ...section(2, [memory]),
    ...section(
      3,
      functions.map((_, index) => leb(index)),
    ),
    ...section(
      7,
      functions.map(({ name }, index) => [...text(name), 0x00, ...leb(index)]),
    ),
    ...section(10, bodies),
  ]);
}

function text(value: string): Code {
  const bytes = new TextEncoder().encode(value);
  return [...leb(bytes.length), ...bytes];
}

function leb(value: number): Code {
  const bytes: number[] = [];
  let rest = value;
  do {
    const more = rest > 0x7f;
    bytes.push((rest & 0x7f) | (more ? 0x80 : 0));
    rest = Math.floor(rest / 128);
  } while (rest > 0);
  return bytes;
}

/** A constant, which the format writes with its sign. */
function signedLeb(value: bigint): Code {
  const bytes: number[] = [];
  let rest = value;
  for (;;) {
    const low = Number(rest & 0x7fn);
    rest >>= 7n;
    const isLast = (rest === 0n && (low & 0x40) === 0) || (rest === -1n && (low & 0x40) !== 0);
    bytes.push(isLast ? low : low | 0x80);
    if (isLast) return bytes;
  }
}

const simple =
  (...opcode: Code) =>
  (...operands: readonly Code[]): Code => [...operands.flat(), ...opcode];
const simd = (opcode: number) => simple(0xfd, ...leb(opcode));
const access =
  (opcode: Code, align: number) =>
  (address: Code, offset = 0): Code => [...address, ...opcode, align, ...leb(offset)];

export const get = ({ number }: Local): Code => [0x20, ...leb(number)];
export const set = ({ number }: Local, value: Code): Code => [...value, 0x21, ...leb(number)];
// Addresses of the upper half are negative numbers to the format.
export const i32 = (value: number): Code => [0x41, ...signedLeb(BigInt.asIntN(32, BigInt(value)))];
export const i64 = (value: bigint): Code => [0x42, ...signedLeb(value)];

export const i32Add = simple(0x6a);
export const i32Sub = simple(0x6b);
export const i32Mul = simple(0x6c);
export const i32And = simple(0x71);
export const i32Shl = simple(0x74);
export const i32Equal = simple(0x46);
export const i32LessU = simple(0x49);
export const i32LessOrEqualU = simple(0x4d);
export const i32GreaterOrEqualS = simple(0x4e);
export const i64Add = simple(0x7c);
export const i64Mul = simple(0x7e);
export const i64ShiftRightU = simple(0x88);
export const i32FromI64 = simple(0xa7);

export const i32Load = access([0x28], 2);
export const i32LoadByte = access([0x2d], 0);
export const v128Load = access([0xfd, 0x00], 0);
export const i32Store = (address: Code, value: Code, offset = 0): Code => [
  ...address,
  ...value,
  0x36,
  2,
  ...leb(offset),
];

export const v128Zero: Code = [0xfd, 0x0c, ...Array.from({ length: 16 }, () => 0)];
export const v128Xor = simd(0x51);
export const i8x16CountOnes = simd(0x62);
export const i8x16Add = simd(0x6e);
export const i16x8AddPairsOfI8x16U = simd(0x7d);
export const i16x8Add = simd(0x8e);
export const i16x8ExtendLowI8x16S = simd(0x87);
export const i16x8ExtendHighI8x16S = simd(0x88);
export const i32x4Add = simd(0xae);
export const i32x4DotI16x8S = simd(0xba);
export const i64x2Lane = (vector: Code, lane: number): Code => [...vector, 0xfd, 0x1d, lane];
export const i32x4Lane = (vector: Code, lane: number): Code => [...vector, 0xfd, 0x1b, lane];

/** Runs the body as long as the condition holds. */
export const loopWhile = (condition: Code, body: Code): Code => [
  ...[0x02, 0x40, 0x03, 0x40],
  ...condition,
  ...[0x45, 0x0d, 0x01],
  ...body,
  ...[0x0c, 0x00, 0x0b, 0x0b],
];
export const when = (condition: Code, body: Code): Code => [...condition, 0x04, 0x40, ...body, 0x0b];
