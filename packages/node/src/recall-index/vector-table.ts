import { randomUUID } from "node:crypto";
import { crc32 } from "node:zlib";
import { RuntimeError } from "@rkat/core/contract/error";
import type { NewVector, Wanted } from "@rkat/core/ports/memory";
import type { Seal } from "@rkat/core/ports/store";
import { BY_WORDS, type Catalogue, DISCARDED, LIVE } from "./catalogue.ts";
import { layoutFor } from "./simd.ts";
import type { EmbedderState, Tables } from "./tables.ts";
import {
  encodeVector,
  isSoundRow,
  maskBy,
  openVectorFiles,
  signatureOf,
  sumOfPassage,
  type VectorFiles,
  type VectorRow,
  vectorsPath,
} from "./vector-files.ts";

export interface VectorTableOptions {
  readonly tables: Tables;
  readonly catalogue: Catalogue;
  readonly folder: string;
  readonly embedderId: string;
  readonly warn: (sentence: string) => void;
  readonly seal: Seal | undefined;
}

/** The vectors of one embedder: which are there, and how they are written and repaired. */
export interface VectorTable {
  /** Takes in what is new; undefined as long as the embedder has no vector. */
  refresh(): EmbedderState | undefined;
  /** 255 where a chunk has a vector, by id. */
  present(): Uint8Array;
  /** Pages of ids whose signatures are not in memory as they are on disk. */
  readonly stale: Set<number>;
  files(state: EmbedderState): VectorFiles;
  /** Pages of ids that have vectors. */
  pages(): Iterable<number>;
  page(number: number): BitmapPage;
  /** `followed`: how far the vectors of a memory kept elsewhere are here with these. */
  put(vectors: readonly NewVector[], followed?: number): void;
  /** Vectors by the texts they were made of. */
  known(passages: readonly string[]): ReadonlyMap<string, Float32Array>;
  /** Looks at every vector of a page of ids, and of those beside it: what is damaged is missing from now on. */
  repair(state: EmbedderState, page: number): void;
  /** Leaves nothing of the vectors of chunks that are gone. */
  purge(): void;
  /** Ids of chunks without a vector that are to have one, ascending. */
  missing(max: number, wanted?: Wanted): readonly number[];
  /** Of the chunks that are there, those that have no vector: that are to have one, and that are not. */
  count(): { readonly pending: number; readonly byWordsAlone: number };
  bytes(): number;
  close(): void;
}

export function createVectorTable(options: VectorTableOptions): VectorTable {
  const { tables, catalogue, folder, embedderId, warn, seal } = options;
  const stale = new Set<number>();
  const known = new Map<number, BitmapPage>();
  let present = new Uint8Array(PAGE_IDS);
  let revision = 0;
  let files: VectorFiles | undefined;
  const passages = createPassages();
  /** Every id below it has a vector, is to have none, or is of a chunk that is gone. */
  let doneTo = 1;

  const takeIn = (number: number, page: BitmapPage): void => {
    const before = known.get(number);
    if (before?.revision === page.revision) return;
    const from = number * PAGE_IDS;
    if (from + PAGE_IDS > present.length) {
      const larger = new Uint8Array(2 ** Math.ceil(Math.log2(from + PAGE_IDS)));
      larger.set(present);
      present = larger;
    }
    for (let place = 0; place < PAGE_IDS; place += 1) {
      const is = isPresent(page.bits, place);
      if (!is && present[from + place] !== 0) doneTo = Math.min(doneTo, from + place);
      present[from + place] = is ? 255 : 0;
    }
    known.set(number, page);
    stale.add(number);
  };
  const filesOf = (state: EmbedderState): VectorFiles => {
    const mask = seal === undefined || state.salt === undefined ? undefined : maskBy(seal, state.salt);
    const path = vectorsPath(folder, tables.root.generation(), state);
    files ??= openVectorFiles(path, layoutFor(state.dimensions, 0), mask);
    return files;
  };

  const table: VectorTable = {
    stale,
    present: () => present,
    files: filesOf,
    pages: () => known.keys(),
    page: (number) => known.get(number) ?? decodeBitmap(undefined),
    refresh: () => {
      const state = tables.embedders.get(embedderId);
      if (state === undefined || state.revision === revision) return state;
      const range = { start: [state.number, 0] as [number, number], end: [state.number + 1, 0] as [number, number] };
      for (const { key, value } of tables.bitmaps.getRange(range)) takeIn(key[1], decodeBitmap(value));
      revision = state.revision;
      return state;
    },
    put: (vectors, followed) => {
      const dimensions = vectors[0]?.vector.length ?? tables.embedders.get(embedderId)?.dimensions;
      if (dimensions === undefined) return;
      const sizes = layoutFor(dimensions, 0);
      const refuse = (expected: number, found: number): never => {
        const message = `embedder ${embedderId} has vectors of ${expected} dimensions, and was given one of ${found}`;
        throw new RuntimeError("SESSION_STORE_ERROR", message);
      };
      // Made before the transaction: other writers wait for its end.
      const rows = vectors.map(({ id, vector, passage }) =>
        vector.length === dimensions ? encodeVector(id, vector, sizes, passage) : refuse(dimensions, vector.length),
      );
      const state = tables.root.transactionSync(() =>
        putRows({ tables, embedderId, files: filesOf, followed, isMasked: seal !== undefined }, dimensions, rows),
      );
      if (state.dimensions !== dimensions) refuse(state.dimensions, dimensions);
    },
    repair: (state, page) => {
      const mendOne = (number: number): number =>
        tables.root.transactionSync(() => mendPage(tables, filesOf(state), { embedderId, page: number }));
      let lost = mendOne(page);
      // Damage rarely ends with a page: a file that was cut off lacks all that follow.
      for (const step of [-1, 1]) {
        for (let next = page + step; known.has(next); next += step) {
          const more = mendOne(next);
          lost += more;
          if (more === 0) break;
        }
      }
      warn(`the vector files of ${embedderId} were damaged and are repaired; ${lost} vectors are to be made again`);
      table.refresh();
    },
    purge: () => {
      const state = table.refresh();
      if (state === undefined) return;
      const { lastId } = catalogue.refresh();
      tables.root.transactionSync(() => erasePages(tables, filesOf(state), { embedderId, lastId }));
      table.refresh();
    },
    known: (texts) => {
      const state = table.refresh();
      if (state === undefined) return new Map();
      const { lastId } = catalogue.refresh();
      const sizes = layoutFor(state.dimensions, 0);
      const row = Buffer.alloc(sizes.stride);
      passages.read(filesOf(state), known, lastId);
      const found = texts.flatMap((text) => {
        const id = passages.idOf(text) ?? 0;
        if ((present[id] ?? 0) === 0) return [];
        filesOf(state).readRows(id, row, 1);
        if (!isSoundRow(row, id, sizes)) return [];
        return [[text, Float32Array.from(new Int8Array(row.buffer, row.byteOffset, state.dimensions))] as const];
      });
      return new Map(found);
    },
    missing: (max, { scope, inUse, ids: named, byWords } = {}) => {
      table.refresh();
      const { lastId } = catalogue.refresh();
      const { states, sessions } = catalogue;
      const isLacking = (id: number): boolean => (present[id] ?? 0) === 0 && ((states[id] ?? 0) & LIVE) !== 0;
      const isDone = (id: number): boolean => !isLacking(id) || ((states[id] ?? 0) & BY_WORDS) !== 0;
      const isOpen = byWords ? isLacking : (id: number): boolean => !isDone(id);
      const reach = scope && catalogue.reach(scope);
      const bits = reach?.bits ?? LIVE;
      const used = new Set([...(inUse ?? [])].flatMap((id) => tables.sessions.get(id)?.number ?? []));
      const isWanted = (id: number): boolean =>
        isOpen(id) &&
        ((states[id] ?? 0) & bits) === bits &&
        (used.size === 0 || ((states[id] ?? 0) & DISCARDED) !== 0 || !used.has(sessions[id] ?? 0));
      if (named !== undefined) {
        const isReached = (id: number): boolean =>
          reach === undefined || reach.ranges.some(({ first, last }) => first <= id && id < last);
        return named.filter((id) => isWanted(id) && isReached(id)).slice(0, max);
      }
      while (doneTo <= lastId && isDone(doneTo)) doneTo += 1;
      const ids: number[] = [];
      const from = byWords ? 1 : doneTo;
      for (const { first, last } of reach?.ranges ?? [{ first: from, last: lastId + 1 }]) {
        for (let id = Math.max(first, from); id < last && ids.length < max; id += 1) if (isWanted(id)) ids.push(id);
      }
      return ids;
    },
    count: () => {
      table.refresh();
      const { lastId } = catalogue.refresh();
      let [pending, byWordsAlone] = [0, 0];
      for (let id = 1; id <= lastId; id += 1) {
        const state = catalogue.states[id] ?? 0;
        if ((present[id] ?? 0) !== 0 || (state & LIVE) === 0) continue;
        if ((state & BY_WORDS) === 0) pending += 1;
        else byWordsAlone += 1;
      }
      return { pending, byWordsAlone };
    },
    bytes: () => {
      const state = table.refresh();
      return state === undefined ? 0 : filesOf(state).bytes();
    },
    close: () => {
      files?.close();
      files = undefined;
    },
  };
  return table;
}

/** Ids of this far back are looked at for a text that was embedded before: what repeats itself does so soon. */
const PASSAGE_IDS_MAX = 65_536;

/** Ids of vectors by the text they were made of. Pages that have changed are read again. */
function createPassages() {
  const ids = new Map<number, number>();
  /** Revisions of pages, as they were read. */
  const readAt = new Map<number, number>();
  return {
    idOf: (text: string): number | undefined => ids.get(sumOfPassage(text)),
    read: (files: VectorFiles, pages: ReadonlyMap<number, BitmapPage>, lastId: number): void => {
      if (ids.size > 2 * PASSAGE_IDS_MAX) for (const known of [ids, readAt]) known.clear();
      for (const [page, { revision }] of pages) {
        const first = page * PAGE_IDS;
        if (readAt.get(page) === revision || first + PAGE_IDS < lastId - PASSAGE_IDS_MAX) continue;
        readAt.set(page, revision);
        for (const [place, sum] of files.readSums(first, PAGE_IDS).entries())
          if (sum !== 0) ids.set(sum, first + place);
      }
    },
  };
}

interface Target {
  readonly tables: Tables;
  readonly embedderId: string;
  readonly followed: number | undefined;
  readonly isMasked: boolean;
  files(state: EmbedderState): VectorFiles;
}

/**
 * Writes vectors that are wanted and not there, and notes in the tables that they are. Nothing is written when the embedder
 * has another number of dimensions: the returned state says so. Inside a transaction.
 */
function putRows(
  { tables, embedderId, followed, files, isMasked }: Target,
  dimensions: number,
  vectors: readonly VectorRow[],
): EmbedderState {
  const fresh = (): EmbedderState => {
    const state = { number: tables.embedders.getCount() + 1, dimensions, revision: 0 };
    return isMasked ? { ...state, salt: randomUUID() } : state;
  };
  const before = tables.embedders.get(embedderId) ?? fresh();
  if (before.dimensions !== dimensions) return before;
  const position = followed === undefined ? {} : { followed: Math.max(followed, before.followed ?? 0) };
  const state = { ...before, ...position, revision: before.revision + 1 };
  const pages = Map.groupBy(vectors, ({ id }) => Math.floor(id / PAGE_IDS));
  for (const [page, rows] of pages) putPage({ tables, state, files: files(state) }, page, rows);
  tables.embedders.put(embedderId, state);
  return state;
}

function putPage(
  { tables, state, files }: { readonly tables: Tables; readonly state: EmbedderState; readonly files: VectorFiles },
  page: number,
  vectors: readonly VectorRow[],
): void {
  const { signatureBytes } = layoutFor(state.dimensions, 0);
  const { bits } = decodeBitmap(tables.bitmaps.get([state.number, page]));
  const wanted = vectors.filter(({ id }) => !isPresent(bits, id % PAGE_IDS) && tables.rows.doesExist(id));
  if (wanted.length === 0) return;
  files.write(wanted);
  for (const { id } of wanted) setPresent(bits, id % PAGE_IDS, true);
  const signatures = new Uint8Array(PAGE_IDS * signatureBytes);
  files.readSignatures(page * PAGE_IDS, signatures);
  const checksum = checksumOf(bits, signatures, signatureBytes);
  tables.bitmaps.put([state.number, page], encodeBitmap({ revision: state.revision, checksum, bits }));
}

/** Zeros in the place of vectors whose chunks are gone. Inside a transaction. */
function erasePages(
  tables: Tables,
  files: VectorFiles,
  { embedderId, lastId }: { readonly embedderId: string; readonly lastId: number },
): void {
  const state = tables.embedders.get(embedderId);
  if (state === undefined) return;
  const { signatureBytes } = layoutFor(state.dimensions, 0);
  const revision = state.revision + 1;
  for (let page = 0; page * PAGE_IDS <= lastId; page += 1) {
    const { bits } = decodeBitmap(tables.bitmaps.get([state.number, page]));
    let isChanged = false;
    for (let place = 0; place < PAGE_IDS; place += 1) {
      const id = page * PAGE_IDS + place;
      if (id > lastId || tables.rows.doesExist(id)) continue;
      // Also where none is recorded: a process may have died between the vector and its record.
      files.erase(id);
      if (!isPresent(bits, place)) continue;
      setPresent(bits, place, false);
      isChanged = true;
    }
    if (!isChanged) continue;
    const signatures = new Uint8Array(PAGE_IDS * signatureBytes);
    files.readSignatures(page * PAGE_IDS, signatures);
    const checksum = checksumOf(bits, signatures, signatureBytes);
    tables.bitmaps.put([state.number, page], encodeBitmap({ revision, checksum, bits }));
  }
  tables.embedders.put(embedderId, { ...state, revision });
}

/** Makes signatures again from the rows that are sound, and takes those that are not for missing. Inside a transaction. */
function mendPage(
  { embedders, bitmaps }: Tables,
  files: VectorFiles,
  { embedderId, page }: { readonly embedderId: string; readonly page: number },
): number {
  const state = embedders.get(embedderId);
  if (state === undefined) return 0;
  const sizes = layoutFor(state.dimensions, 0);
  const { bits } = decodeBitmap(bitmaps.get([state.number, page]));
  const signatures = new Uint8Array(PAGE_IDS * sizes.signatureBytes);
  const row = Buffer.alloc(sizes.stride);
  let lost = 0;
  for (let place = 0; place < PAGE_IDS; place += 1) {
    const id = page * PAGE_IDS + place;
    if (!isPresent(bits, place)) continue;
    files.readRows(id, row, 1);
    if (isSoundRow(row, id, sizes)) {
      const signature = signatureOf(row, sizes);
      signatures.set(signature, place * sizes.signatureBytes);
      files.write([{ id, row, signature, sum: files.readSums(id, 1)[0] ?? 0 }]);
      continue;
    }
    setPresent(bits, place, false);
    lost += 1;
  }
  const revision = state.revision + 1;
  const checksum = checksumOf(bits, signatures, sizes.signatureBytes);
  bitmaps.put([state.number, page], encodeBitmap({ revision, checksum, bits }));
  embedders.put(embedderId, { ...state, revision });
  return lost;
}

/** Ids whose vectors are recorded to be there, or not, in one value. */
export const PAGE_IDS = 4_096;
// revision u32 · checksum of the signatures u32 · a bit an id.
const HEAD_BYTES = 8;
const PAGE_BYTES = HEAD_BYTES + PAGE_IDS / 8;

/** Which chunks of a page of ids have a vector, and a checksum of the signatures of those. */
interface BitmapPage {
  readonly revision: number;
  readonly checksum: number;
  readonly bits: Uint8Array;
}

function decodeBitmap(value: Buffer | undefined): BitmapPage {
  if (value === undefined) return { revision: 0, checksum: 0, bits: new Uint8Array(PAGE_IDS / 8) };
  return {
    revision: value.readUInt32LE(0),
    checksum: value.readUInt32LE(4),
    bits: new Uint8Array(value.subarray(HEAD_BYTES)),
  };
}

function encodeBitmap({ revision, checksum, bits }: BitmapPage): Buffer {
  const value = Buffer.alloc(PAGE_BYTES);
  value.writeUInt32LE(revision, 0);
  value.writeUInt32LE(checksum, 4);
  value.set(bits, HEAD_BYTES);
  return value;
}

function isPresent(bits: Uint8Array, place: number): boolean {
  return ((bits[place >> 3] ?? 0) & (1 << (place & 7))) !== 0;
}

function setPresent(bits: Uint8Array, place: number, present: boolean): void {
  const byte = bits[place >> 3] ?? 0;
  const bit = 1 << (place & 7);
  bits[place >> 3] = present ? byte | bit : byte & ~bit;
}

/**
 * A checksum of the signatures that are there, in the order of their ids. The others are left out: a process that
 * writes them may be half-way while another reads.
 */
export function checksumOf(bits: Uint8Array, signatures: Uint8Array, signatureBytes: number): number {
  let checksum = 0;
  for (let place = 0; place < PAGE_IDS; place += 1) {
    if (!isPresent(bits, place)) continue;
    const first = place;
    while (place + 1 < PAGE_IDS && isPresent(bits, place + 1)) place += 1;
    checksum = crc32(signatures.subarray(first * signatureBytes, (place + 1) * signatureBytes), checksum);
  }
  return checksum;
}
