import { RuntimeError } from "../../../../contract/error.ts";
import { type Catalogue, LIVE } from "../catalogue.ts";
import type { EmbedderState, Tables } from "../tables.ts";
import { decodePresence, isPresent, PRESENCE_IDS, type PresencePage } from "./presence.ts";
import { layoutFor } from "./scan/layout.ts";
import { openVectorFiles, type VectorFiles, vectorsPath } from "./vector-files.ts";
import { encodeVector } from "./vector-row.ts";
import { mendPage, putRows } from "./write-vectors.ts";

export interface ShelfOptions {
  readonly tables: Tables;
  readonly catalogue: Catalogue;
  readonly folder: string;
  readonly embedderId: string;
  readonly warn: (sentence: string) => void;
}

/** The vectors of one embedder: which are there, and how they are written and mended. */
export interface Shelf {
  /** Takes in what is new; undefined as long as the embedder has no vector. */
  refresh(): EmbedderState | undefined;
  /** 255 where a chunk has a vector, by id. */
  present(): Uint8Array;
  /** Pages of ids whose signatures are not in memory as they are on disk. */
  readonly stale: Set<number>;
  files(state: EmbedderState): VectorFiles;
  /** Pages of ids that have vectors. */
  pages(): Iterable<number>;
  page(number: number): PresencePage;
  put(vectors: readonly { readonly id: number; readonly vector: Float32Array }[]): void;
  /** Looks at every vector of a page of ids, and of those beside it: what is damaged is missing from now on. */
  mend(state: EmbedderState, page: number): void;
  /** Ids of chunks without a vector, ascending. */
  missing(max: number): readonly number[];
  /** Chunks that are there and have a vector. */
  count(): number;
  bytes(): number;
  close(): void;
}

export function createShelf({ tables, catalogue, folder, embedderId, warn }: ShelfOptions): Shelf {
  const stale = new Set<number>();
  const known = new Map<number, PresencePage>();
  let present = new Uint8Array(PRESENCE_IDS);
  let revision = 0;
  let files: VectorFiles | undefined;
  /** Every id below it has a vector, or is of a chunk that is gone. */
  let doneTo = 1;

  const takeIn = (number: number, page: PresencePage): void => {
    const before = known.get(number);
    if (before?.revision === page.revision) return;
    const from = number * PRESENCE_IDS;
    if (from + PRESENCE_IDS > present.length) {
      const larger = new Uint8Array(2 ** Math.ceil(Math.log2(from + PRESENCE_IDS)));
      larger.set(present);
      present = larger;
    }
    for (let place = 0; place < PRESENCE_IDS; place += 1) {
      const is = isPresent(page.bits, place);
      if (!is && present[from + place] !== 0) doneTo = Math.min(doneTo, from + place);
      present[from + place] = is ? 255 : 0;
    }
    known.set(number, page);
    stale.add(number);
  };
  const filesOf = (state: EmbedderState): VectorFiles => {
    files ??= openVectorFiles(vectorsPath(folder, tables.root.generation(), state), layoutFor(state.dimensions, 0));
    return files;
  };

  const shelf: Shelf = {
    stale,
    present: () => present,
    files: filesOf,
    pages: () => known.keys(),
    page: (number) => known.get(number) ?? decodePresence(undefined),
    refresh: () => {
      const state = tables.embedders.get(embedderId);
      if (state === undefined || state.revision === revision) return state;
      const range = { start: [state.number, 0] as [number, number], end: [state.number + 1, 0] as [number, number] };
      for (const { key, value } of tables.presence.getRange(range)) takeIn(key[1], decodePresence(value));
      revision = state.revision;
      return state;
    },
    put: (vectors) => {
      const dimensions = vectors[0]?.vector.length;
      if (dimensions === undefined) return;
      const sizes = layoutFor(dimensions, 0);
      const refuse = (expected: number, found: number): never => {
        const message = `embedder ${embedderId} has vectors of ${expected} dimensions, and was given one of ${found}`;
        throw new RuntimeError("SESSION_STORE_ERROR", message);
      };
      // Made before the transaction: whoever else writes waits for its end.
      const rows = vectors.map(({ id, vector }) =>
        vector.length === dimensions ? encodeVector(id, vector, sizes) : refuse(dimensions, vector.length),
      );
      const state = tables.root.transactionSync(() =>
        putRows({ tables, embedderId, files: filesOf }, dimensions, rows),
      );
      if (state.dimensions !== dimensions) refuse(state.dimensions, dimensions);
    },
    mend: (state, page) => {
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
      warn(`the vector files of ${embedderId} were damaged and are mended; ${lost} vectors are to be made again`);
      shelf.refresh();
    },
    missing: (max) => {
      shelf.refresh();
      const { lastId } = catalogue.refresh();
      const isDone = (id: number): boolean => (present[id] ?? 0) !== 0 || ((catalogue.states[id] ?? 0) & LIVE) === 0;
      while (doneTo <= lastId && isDone(doneTo)) doneTo += 1;
      const ids: number[] = [];
      for (let id = doneTo; id <= lastId && ids.length < max; id += 1) if (!isDone(id)) ids.push(id);
      return ids;
    },
    count: () => {
      shelf.refresh();
      const { lastId } = catalogue.refresh();
      let count = 0;
      for (let id = 1; id <= lastId; id += 1) count += (present[id] ?? 0) & (catalogue.states[id] ?? 0) & LIVE;
      return count;
    },
    bytes: () => {
      const state = shelf.refresh();
      return state === undefined ? 0 : filesOf(state).bytes();
    },
    close: () => {
      files?.close();
      files = undefined;
    },
  };
  return shelf;
}
