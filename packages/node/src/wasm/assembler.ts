export type Code = readonly number[];

/** Value types of the binary format. */
export const I32 = 0x7f;
export const V128 = 0x7b;

export interface Local {
  readonly number: number;
}

export interface FunctionSource {
  readonly name: string;
  readonly parameters: number;
  readonly returns: boolean;
  /** Types of the locals after the parameters. */
  readonly locals: readonly number[];
  readonly body: Code;
}

/** A function without a result, whose body uses its locals by name. */
export function defineLoop<Name extends string>(
  name: string,
  names: { readonly parameters: readonly Name[]; readonly i32: readonly Name[]; readonly v128: readonly Name[] },
  body: (local: Readonly<Record<Name, Local>>, vectors: (count: number) => readonly Local[]) => Code,
): FunctionSource {
  const { parameters, i32, v128 } = names;
  const types = [...i32.map(() => I32), ...v128.map(() => V128)];
  const all = [...parameters, ...i32, ...v128].map((key, number) => [key, { number }]);
  const vectors = (count: number) =>
    Array.from({ length: count }, () => ({ number: parameters.length + types.push(V128) - 1 }));
  // `as`: a local for every name of `all`.
  const code = body(Object.fromEntries(all) as Record<Name, Local>, vectors);
  return { name, parameters: parameters.length, returns: false, locals: types, body: code };
}

/** A module with an imported memory and exported functions. */
function assemble(functions: readonly FunctionSource[]): Uint8Array<ArrayBuffer> {
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

// Node's types omit it, and the browser's would add a window.
declare const WebAssembly: {
  validate(code: Uint8Array): boolean;
  Memory: new (size: { readonly initial: number }) => Memory;
  Module: new (code: Uint8Array) => object;
  Instance: new (module: object, imports: object) => { readonly exports: unknown };
};

const PAGE_BYTES = 65_536;

interface Memory {
  readonly buffer: ArrayBuffer;
}

/** Instantiates a module, with its own memory unless one is given; undefined if the engine does not know an instruction. */
export function instantiate<Functions>(
  functions: readonly FunctionSource[],
  bytes: number,
  memory: Memory = new WebAssembly.Memory({ initial: Math.ceil(bytes / PAGE_BYTES) }),
): { readonly functions: Functions; readonly memory: Memory; readonly buffer: ArrayBuffer } | undefined {
  const code = assemble(functions);
  if (!WebAssembly.validate(code)) return undefined;
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(code), { host: { memory } });
  // `as`: what the sources name and type.
  return { functions: exports as Functions, memory, buffer: memory.buffer };
}

function text(value: string): Code {
  const bytes = new TextEncoder().encode(value);
  return [...leb(bytes.length), ...bytes];
}

export function leb(value: number): Code {
  const bytes: number[] = [];
  let rest = value;
  do {
    const more = rest > 0x7f;
    bytes.push((rest & 0x7f) | (more ? 0x80 : 0));
    rest = Math.floor(rest / 128);
  } while (rest > 0);
  return bytes;
}

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

/** An instruction after its operands. */
export const simple =
  (...opcode: Code) =>
  (...operands: readonly Code[]): Code => [...operands.flat(), ...opcode];
/** A load or store: address, offset and alignment as a power of two. */
export const access =
  (opcode: Code, align: number) =>
  (address: Code, offset = 0): Code => [...address, ...opcode, align, ...leb(offset)];

export const get = ({ number }: Local): Code => [0x20, ...leb(number)];
export const set = ({ number }: Local, value: Code): Code => [...value, 0x21, ...leb(number)];
// Addresses of the upper half are negative in the format.
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
export const i32Store = (address: Code, value: Code, offset = 0): Code => [
  ...address,
  ...value,
  0x36,
  2,
  ...leb(offset),
];

export const loopWhile = (condition: Code, body: Code): Code => [
  ...[0x02, 0x40, 0x03, 0x40],
  ...condition,
  ...[0x45, 0x0d, 0x01],
  ...body,
  ...[0x0c, 0x00, 0x0b, 0x0b],
];
/** A do-while loop: one branch per iteration. */
export const repeatWhile = (body: Code, condition: Code): Code => [0x03, 0x40, ...body, ...condition, 0x0d, 0x00, 0x0b];
export const when = (condition: Code, body: Code): Code => [...condition, 0x04, 0x40, ...body, 0x0b];
