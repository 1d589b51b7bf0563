import { crc32 } from "node:zlib";

/** Where bytes lie in a file, and their checksum: what is not what was written there is never believed. */
export interface Place {
  readonly offset: number;
  readonly bytes: number;
  readonly sum: number;
}

/** Of a leaf the values, small ones beside their keys; of a branch its nodes, or where they lie. */
type Part = Buffer | Place | Node;

interface Node {
  readonly kind: "leaf" | "branch";
  readonly keys: Buffer[];
  readonly parts: Part[];
}

type Child = Node | Place;

/** A node as it lies in the file, and where each of its keys begins: a search decodes none but those it compares. */
interface Written {
  readonly bytes: Buffer;
  readonly starts: Uint32Array;
}

/** Undefined: a tree without a key. */
export type Tree = Child | undefined;

/** Reads what lies somewhere, checked. */
export interface TreeReader {
  bytes(place: Place): Buffer;
  /** Nodes as they were read before, by where they lie: what is written once is never changed. */
  readonly known: Map<number, Written>;
}

/** Takes bytes that are to be written; says where they will lie. */
export type Put = (bytes: Buffer) => Place;

const NODE_BYTES_MAX = 8_192;
/** Larger values lie by themselves, so that a change beside them does not write them again. */
const BESIDE_BYTES_MAX = 1_024;
const KNOWN_NODES_MAX = 512;

export function placeOf(offset: number, bytes: Buffer): Place {
  return { offset, bytes: bytes.length, sum: crc32(bytes) };
}

function isPlace(part: Part): part is Place {
  return "sum" in part;
}

export function getFrom(tree: Tree, key: Buffer, reader: TreeReader): Buffer | undefined {
  const part = partOf(tree, key, reader);
  return part && readValue(part, reader);
}

/** Whether the key is there, without reading its value. */
export function hasIn(tree: Tree, key: Buffer, reader: TreeReader): boolean {
  return partOf(tree, key, reader) !== undefined;
}

function partOf(tree: Tree, key: Buffer, reader: TreeReader): Part | undefined {
  for (let child = tree; child !== undefined; ) {
    if (isPlace(child)) {
      const written = writtenAt(child, reader);
      const part = partIn(written, key);
      if (isLeaf(written)) return part;
      // Of a branch every part is the place of a node.
      child = part as Place | undefined;
    } else {
      const { kind, keys, parts }: Node = child;
      const at = positionOf(keys, key);
      if (kind === "leaf") return keys[at]?.equals(key) ? parts[at] : undefined;
      child = childAt(child, branchAt(keys, key));
    }
  }
  return undefined;
}

function isLeaf({ bytes }: Written): boolean {
  return bytes[0] === LEAF;
}

function partIn(node: Written, key: Buffer): Part | undefined {
  const { bytes, starts } = node;
  let [low, high] = [0, starts.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (compareAt(bytes, starts[middle] ?? 0, key) <= 0) low = middle + 1;
    else high = middle;
  }
  // A branch's part goes up to the next one's key, and the first begins before its own.
  const at = starts[isLeaf(node) ? low - 1 : Math.max(0, low - 1)];
  if (at === undefined || (isLeaf(node) && compareAt(bytes, at, key) !== 0)) return undefined;
  return readPart(bytes, at + KEY_HEAD_BYTES + bytes.readUInt16LE(at));
}

function compareAt(bytes: Buffer, at: number, key: Buffer): number {
  const keyBytes = bytes.readUInt16LE(at);
  const length = Math.min(keyBytes, key.length);
  for (let index = 0; index < length; index += 1) {
    const difference = (bytes[at + KEY_HEAD_BYTES + index] ?? 0) - (key[index] ?? 0);
    if (difference !== 0) return difference;
  }
  return keyBytes - key.length;
}

export interface Range {
  readonly start?: Buffer | undefined;
  /** Not part of it. */
  readonly end?: Buffer | undefined;
}

/** Every key of a range in order, with its value read. */
export function* rangeOf(
  tree: Tree,
  range: Range,
  reader: TreeReader,
): Generator<{ readonly key: Buffer; readonly value: Buffer }> {
  if (tree === undefined) return;
  const node = load(tree, reader);
  const { start, end } = range;
  const isBefore = (key: Buffer | undefined) => key !== undefined && (end === undefined || key.compare(end) < 0);
  if (node.kind === "branch") {
    const first = start === undefined ? 0 : branchAt(node.keys, start);
    for (let at = first; at === first || isBefore(node.keys[at]); at += 1) {
      if (at >= node.parts.length) return;
      yield* rangeOf(childAt(node, at), range, reader);
    }
    return;
  }
  for (let at = start === undefined ? 0 : positionOf(node.keys, start); isBefore(node.keys[at]); at += 1) {
    const [key, value] = [node.keys[at], node.parts[at]];
    const read = value && readValue(value, reader);
    if (key !== undefined && read !== undefined) yield { key, value: read };
  }
}

/** The tree with a value at a key. Nodes that are not written yet are changed in place. */
export function putInto(tree: Tree, key: Buffer, value: Buffer, reader: TreeReader): Node {
  const nodes = insert(
    tree === undefined ? { kind: "leaf", keys: [], parts: [] } : own(tree, reader),
    key,
    value,
    reader,
  );
  const [only] = nodes;
  return only !== undefined && nodes.length === 1
    ? only
    : { kind: "branch", keys: nodes.map(firstKey), parts: [...nodes] };
}

export function removeFrom(tree: Tree, key: Buffer, reader: TreeReader): Tree {
  if (tree === undefined || !hasIn(tree, key, reader)) return tree;
  const left = without(own(tree, reader), key, reader);
  // A branch with one part is that part.
  let root: Tree = left;
  while (root !== undefined && !isPlace(root) && root.kind === "branch" && root.parts.length === 1)
    root = childAt(root, 0);
  return root;
}

/** Writes what is not written yet, the lowest first. */
export function writeTree(tree: Tree, put: Put, reader: TreeReader): Place | undefined {
  if (tree === undefined || isPlace(tree)) return tree;
  const writePart = (part: Part): Part => {
    if (Buffer.isBuffer(part)) return part.length <= BESIDE_BYTES_MAX ? part : put(part);
    return writeTree(part, put, reader) ?? part;
  };
  const bytes = encode({ kind: tree.kind, keys: tree.keys, parts: tree.parts.map(writePart) });
  const place = put(bytes);
  remember(reader, place.offset, toWritten(bytes));
  return place;
}

/** Writes the keys of another tree, which come in order, into nodes that are full. */
export function* packTree(
  rows: Iterable<{ readonly key: Buffer; readonly value: Buffer }>,
  put: Put,
): Generator<undefined, Place | undefined> {
  let level = yield* packed(
    "leaf",
    (function* () {
      for (const { key, value } of rows) yield { key, part: value.length <= BESIDE_BYTES_MAX ? value : put(value) };
    })(),
    put,
  );
  while (level.length > 1) level = yield* packed("branch", level, put);
  return level[0]?.part;
}

/** Checks that what lies behind `from` is what was written, down to the values. */
export function checkTree(tree: Tree, from: number, reader: TreeReader): void {
  if (tree === undefined || (isPlace(tree) && tree.offset < from)) return;
  const { kind, parts } = load(tree, reader);
  for (const part of parts) {
    if (Buffer.isBuffer(part)) continue;
    if (kind === "branch") checkTree(part, from, reader);
    else if (isPlace(part) && part.offset >= from) reader.bytes(part);
  }
}

/** Yields after every part. */
function* packed(
  kind: Node["kind"],
  parts: Iterable<{ readonly key: Buffer; readonly part: Part }>,
  put: Put,
): Generator<undefined, { readonly key: Buffer; readonly part: Place }[]> {
  const nodes: { key: Buffer; part: Place }[] = [];
  let node: Node = { kind, keys: [], parts: [] };
  let bytes = 0;
  const flush = (): void => {
    const [key] = node.keys;
    if (key !== undefined) nodes.push({ key, part: put(encode(node)) });
    node = { kind, keys: [], parts: [] };
    bytes = 0;
  };
  for (const { key, part } of parts) {
    bytes += partBytes(key, part);
    if (bytes > NODE_BYTES_MAX && node.keys.length > 1) {
      flush();
      bytes = partBytes(key, part);
    }
    node.keys.push(key);
    node.parts.push(part);
    yield;
  }
  flush();
  return nodes;
}

function insert(node: Node, key: Buffer, value: Buffer, reader: TreeReader): readonly Node[] {
  const { keys } = node;
  let at: number;
  if (node.kind === "branch") {
    at = branchAt(keys, key);
    const child = childAt(node, at);
    const parts = child === undefined ? [] : insert(own(child, reader), key, value, reader);
    node.parts.splice(at, 1, ...parts);
    keys.splice(at, 1, ...parts.map(firstKey));
  } else {
    at = positionOf(keys, key);
    const isThere = keys[at]?.equals(key) ?? false;
    keys.splice(at, isThere ? 1 : 0, key);
    node.parts.splice(at, isThere ? 1 : 0, value);
  }
  return split(node, at >= keys.length - 2);
}

/** Two nodes for one that is too large. Keys that come in order leave full nodes behind. */
function split(node: Node, isAtEnd: boolean): readonly Node[] {
  const sizes = node.keys.map((key, at) => partBytes(key, node.parts[at]));
  const total = sizes.reduce((sum, bytes) => sum + bytes, 0);
  if (total <= NODE_BYTES_MAX || node.keys.length < 4) return [node];
  let at = node.keys.length - 2;
  if (!isAtEnd) {
    at = 0;
    for (let sum = 0; sum < total / 2; at += 1) sum += sizes[at] ?? 0;
    at = Math.min(Math.max(at, 2), node.keys.length - 2);
  }
  const keys = node.keys.splice(at);
  const right: Node = { kind: node.kind, keys, parts: node.parts.splice(at) };
  return [node, ...split(right, isAtEnd)];
}

/** Undefined when nothing is left. */
function without(node: Node, key: Buffer, reader: TreeReader): Node | undefined {
  if (node.kind === "leaf") {
    const at = positionOf(node.keys, key);
    node.keys.splice(at, 1);
    node.parts.splice(at, 1);
    return node.keys.length === 0 ? undefined : node;
  }
  const at = branchAt(node.keys, key);
  const child = childAt(node, at);
  const left = child && without(own(child, reader), key, reader);
  node.parts.splice(at, 1, ...(left === undefined ? [] : [left]));
  node.keys.splice(at, 1, ...(left === undefined ? [] : [firstKey(left)]));
  return node.keys.length === 0 ? undefined : node;
}

/** A node that may be changed: one that lies in the file is copied. */
function own(child: Child, reader: TreeReader): Node {
  return load(child, reader);
}

function load(child: Child, reader: TreeReader): Node {
  return isPlace(child) ? decode(writtenAt(child, reader)) : child;
}

function writtenAt(place: Place, reader: TreeReader): Written {
  const known = reader.known.get(place.offset);
  if (known !== undefined) return known;
  const written = toWritten(reader.bytes(place));
  remember(reader, place.offset, written);
  return written;
}

/** Those that were read last stay: it forgets the one that came first. */
function remember({ known }: TreeReader, offset: number, written: Written): void {
  for (const eldest of known.keys()) {
    if (known.size < KNOWN_NODES_MAX) break;
    known.delete(eldest);
  }
  known.set(offset, written);
}

function readValue(value: Part, reader: TreeReader): Buffer | undefined {
  if (Buffer.isBuffer(value)) return value;
  return isPlace(value) ? reader.bytes(value) : undefined;
}

function childAt({ parts }: Node, at: number): Tree {
  const part = parts[at];
  return Buffer.isBuffer(part) ? undefined : part;
}

function firstKey({ keys }: Node): Buffer {
  return keys[0] ?? Buffer.alloc(0);
}

function positionOf(keys: readonly Buffer[], key: Buffer): number {
  let [low, high] = [0, keys.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((keys[middle] ?? key).compare(key) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The part of a branch a key belongs to: the last that does not begin behind it. */
function branchAt(keys: readonly Buffer[], key: Buffer): number {
  const at = positionOf(keys, key);
  return keys[at]?.equals(key) ? at : Math.max(0, at - 1);
}

const KEY_HEAD_BYTES = 2;
const PLACE_BYTES = 14;
const SIZE_BYTES = 4;
const LEAF = 1;
const BRANCH = 2;
/** In place of a value's size, which is never as large: it lies elsewhere. */
const ELSEWHERE = 0xffffffff;

function partBytes(key: Buffer, part: Part | undefined): number {
  const value = Buffer.isBuffer(part) && part.length <= BESIDE_BYTES_MAX ? part.length : PLACE_BYTES;
  return KEY_HEAD_BYTES + key.length + SIZE_BYTES + value;
}

function encode(node: Node): Buffer {
  const total = node.keys.reduce((sum, key, at) => sum + partBytes(key, node.parts[at]), 1);
  const bytes = Buffer.allocUnsafe(total);
  let at = bytes.writeUInt8(node.kind === "leaf" ? LEAF : BRANCH, 0);
  for (const [index, key] of node.keys.entries()) {
    at = bytes.writeUInt16LE(key.length, at);
    at += key.copy(bytes, at);
    const part = node.parts[index];
    if (Buffer.isBuffer(part)) {
      at = bytes.writeUInt32LE(part.length, at);
      at += part.copy(bytes, at);
    } else if (part !== undefined && isPlace(part)) {
      at = bytes.writeUInt32LE(ELSEWHERE, at);
      at = writePlace(bytes, at, part);
    }
  }
  return bytes.subarray(0, at);
}

/** Its checksum was right, so it is what `encode` made. */
function toWritten(bytes: Buffer): Written {
  const starts: number[] = [];
  for (let at = 1; at < bytes.length; ) {
    starts.push(at);
    at += KEY_HEAD_BYTES + bytes.readUInt16LE(at);
    const size = bytes.readUInt32LE(at);
    at += SIZE_BYTES + (size === ELSEWHERE ? PLACE_BYTES : size);
  }
  return { bytes, starts: Uint32Array.from(starts) };
}

function decode(written: Written): Node {
  const { bytes, starts } = written;
  const keys: Buffer[] = [];
  const parts: Part[] = [];
  for (const start of starts) {
    const end = start + KEY_HEAD_BYTES + bytes.readUInt16LE(start);
    keys.push(bytes.subarray(start + KEY_HEAD_BYTES, end));
    parts.push(readPart(bytes, end));
  }
  return { kind: isLeaf(written) ? "leaf" : "branch", keys, parts };
}

function readPart(bytes: Buffer, at: number): Buffer | Place {
  const size = bytes.readUInt32LE(at);
  const from = at + SIZE_BYTES;
  return size === ELSEWHERE ? readPlace(bytes, from) : bytes.subarray(from, from + size);
}

function writePlace(bytes: Buffer, at: number, { offset, bytes: length, sum }: Place): number {
  bytes.writeUIntLE(offset, at, 6);
  bytes.writeUInt32LE(length, at + 6);
  return bytes.writeUInt32LE(sum, at + 10);
}

function readPlace(bytes: Buffer, at: number): Place {
  return { offset: bytes.readUIntLE(at, 6), bytes: bytes.readUInt32LE(at + 6), sum: bytes.readUInt32LE(at + 10) };
}
