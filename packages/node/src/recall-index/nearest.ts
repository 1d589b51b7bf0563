import type { Neighbour, Scope } from "@rkat/core/ports/memory";
import { meanOf, similarityFromMean } from "@rkat/core/stores/recall-rank-postings";
import type { Catalogue, IdRange, Reach } from "./catalogue.ts";
import { createScanner, layoutFor, SCAN_IDS_MAX, SCAN_ROWS_MAX, type ScanLayout, type Scanner } from "./simd.ts";
import type { EmbedderState } from "./tables.ts";
import { type EncodedQuery, encodeQuery, isSoundRow } from "./vector-files.ts";
import { checksumOf, PAGE_IDS, type VectorTable } from "./vector-table.ts";

/** Up to so many ids every row is read: it takes no longer than finding candidates, and misses none. */
const EXACT_IDS_MAX = 8_192;
/**
 * Candidates by signature: for each neighbour wanted, at least, and for each so many ids. Among a thousand vectors about one
 * thing, signatures put the nearest ten among the first 768 (recall 0.99), among a hundred of them among the first 128.
 */
const CANDIDATES_EACH = 16;
const CANDIDATES_MIN = 256;
const IDS_PER_CANDIDATE = 1_024;
const CANDIDATES_MAX = 4_096;
/** Rows between two wanted ones that cost less to read than another call to the system. */
const GAP_ROWS_MAX = 16;
/** A damaged page is repaired and read again; a disk on which that does not help is no place for memory. */
const ATTEMPTS_MAX = 8;

/** Finds the vectors of a shelf that are nearest to one. */
export function createNearest(vectors: VectorTable, catalogue: Catalogue) {
  let scan: Scan | undefined;
  let known: { readonly of: string; readonly mean: Float64Array | undefined } | undefined;

  const scanFor = (state: EmbedderState, ids: number): Scan => {
    if (scan !== undefined && ids <= scan.ids) return scan;
    const room = 2 ** Math.ceil(Math.log2(Math.max(ids, PAGE_IDS)));
    const layout = layoutFor(state.dimensions, room);
    scan = { layout, ids: room, scanner: createScanner(layout), loaded: new Set() };
    return scan;
  };

  /** Yields while it brings into memory what the first search needs. */
  return function* (vector: Float32Array, scope: Scope, max: number): Generator<undefined, readonly Neighbour[]> {
    for (let attempt = 1; ; ) {
      const reach = catalogue.reach(scope);
      const { lastId, revision } = catalogue.refresh();
      const state = vectors.refresh();
      if (state === undefined || state.dimensions !== vector.length || max <= 0) return [];
      const look: Look = { vectors, catalogue, state, reach, scan: scanFor(state, lastId + 1) };
      const query = encodeQuery(vector, look.scan.layout);
      new Int16Array(look.scan.scanner.buffer, look.scan.layout.query).set(query.numbers);
      const wanted = joinRanges(reach.ranges);
      const ids = wanted.reduce((sum, { first, last }) => sum + last - first, 0);
      const isExact = ids <= EXACT_IDS_MAX;
      if (!isExact && loadSignatures(look)) {
        yield;
        continue;
      }
      const ranges = isExact ? wanted : findCandidates(look, query, candidatesFor(max, ids));
      const best = scoreRows(look, ranges, { max, scale: query.scale });
      const damaged = best.find(({ isSound }) => !isSound);
      if (damaged === undefined || attempt === ATTEMPTS_MAX) {
        const sound = best.filter(({ isSound }) => isSound);
        const of = JSON.stringify([revision, state.revision, reach.bits, reach.ranges]);
        if (known?.of !== of) known = { of, mean: meanOf(sampleOf(look)) };
        const seen = known.mean && similarityFromMean(vector, known.mean);
        return sound.map(({ id, similarity, numbers }) => ({
          id,
          similarity,
          ...(seen && { fromMean: seen(numbers) }),
        }));
      }
      vectors.repair(state, Math.floor(damaged.id / PAGE_IDS));
      attempt += 1;
    }
  };
}

/** So many places of a scope are looked at, evenly spread: what they hold has the middle of all of it. */
const SAMPLE_PLACES_MAX = 512;

/** Vectors of the scope, evenly spread over it; each holds until the next is read. */
function* sampleOf(look: Look): Generator<Int8Array> {
  const { ranges } = look.reach;
  const { layout } = look.scan;
  const files = look.vectors.files(look.state);
  const row = Buffer.alloc(layout.stride);
  const numbers = new Int8Array(row.buffer, row.byteOffset, look.state.dimensions);
  const size = ranges.reduce((sum, { first, last }) => sum + last - first, 0);
  const step = Math.max(1, size / SAMPLE_PLACES_MAX);
  const isAsked = askedOf(look);
  let [next, passed] = [0, 0];
  for (const { first, last } of ranges) {
    for (; next < passed + last - first; next += step) {
      const id = first + Math.floor(next - passed);
      if (!isAsked(id)) continue;
      files.readRows(id, row, 1);
      if (isSoundRow(row, id, layout)) yield numbers;
    }
    passed += last - first;
  }
}

/** Whether an id is in the scope and has a vector. */
function askedOf({ vectors, catalogue, reach }: Look): (id: number) => boolean {
  const present = vectors.present();
  return (id) =>
    ((catalogue.states[id] ?? 0) & (present[id] ?? 0) & reach.bits) === reach.bits &&
    (reach.sessions === undefined || reach.sessions.has(catalogue.sessions[id] ?? 0));
}

function candidatesFor(neighbours: number, ids: number): number {
  const most = Math.min(CANDIDATES_MAX, Math.ceil(ids / IDS_PER_CANDIDATE));
  return Math.max(CANDIDATES_MIN, neighbours * CANDIDATES_EACH, most);
}

/** A scanner, and what of the shelf is in its memory. */
interface Scan {
  readonly layout: ScanLayout;
  readonly ids: number;
  readonly scanner: Scanner;
  readonly loaded: Set<number>;
}

interface Look {
  readonly vectors: VectorTable;
  readonly catalogue: Catalogue;
  readonly state: EmbedderState;
  readonly reach: Reach;
  readonly scan: Scan;
}

/** Ids whose signatures are nearest, as ranges to be read. */
function findCandidates(look: Look, query: EncodedQuery, want: number): readonly IdRange[] {
  const { layout, scanner } = look.scan;
  loadStates(look);
  const bytes = new Uint8Array(scanner.buffer);
  bytes.set(query.signature, layout.signature);
  const farthest = layout.signatureBytes * 8;
  const tally = new Uint32Array(scanner.buffer, layout.tally, farthest + 3).fill(0);
  tally[0] = farthest;
  const list = new Uint32Array(scanner.buffer, layout.list, SCAN_IDS_MAX * 2);
  const pairs: number[] = [];
  for (const range of look.reach.ranges) {
    for (let first = range.first; first < range.last; first += SCAN_IDS_MAX) {
      const last = Math.min(range.last, first + SCAN_IDS_MAX);
      const found = scanner.candidates(first, last, look.reach.bits, want);
      for (let at = 0; at < found * 2; at += 1) pairs.push(list[at] ?? 0);
    }
  }
  const limit = tally[0] ?? 0;
  const ids: number[] = [];
  for (let at = 0; at < pairs.length; at += 2) if ((pairs[at + 1] ?? 0) <= limit) ids.push(pairs[at] ?? 0);
  return joinRanges(ids.map((id) => ({ first: id, last: id + 1 })));
}

const PAGES_AT_ONCE = 8;

/** Brings some of the signatures into memory that are not there, and checks them; whether there are more. */
function loadSignatures({ vectors, state, scan }: Look): boolean {
  const { layout, scanner, loaded } = scan;
  const files = vectors.files(state);
  const read = (page: number): Uint8Array => {
    const at = layout.signatures + page * PAGE_IDS * layout.signatureBytes;
    const into = new Uint8Array(scanner.buffer, at, PAGE_IDS * layout.signatureBytes);
    files.readSignatures(page * PAGE_IDS, into);
    return into;
  };
  let left = PAGES_AT_ONCE;
  for (const page of vectors.pages()) {
    if (loaded.has(page) && !vectors.stale.has(page)) continue;
    if (left === 0) return true;
    left -= 1;
    const { bits, checksum } = vectors.page(page);
    const isSound = checksumOf(bits, read(page), layout.signatureBytes) === checksum;
    if (!isSound) {
      vectors.repair(state, page);
      read(page);
    }
    loaded.add(page);
    vectors.stale.delete(page);
  }
  return false;
}

function loadStates({ vectors, catalogue, scan }: Look): void {
  const { layout, scanner } = scan;
  const bytes = new Uint8Array(scanner.buffer);
  bytes.set(catalogue.states.subarray(0, scan.ids), layout.states);
  bytes.set(vectors.present().subarray(0, scan.ids), layout.present);
}

interface Scored extends Neighbour {
  readonly isSound: boolean;
  readonly numbers: Int8Array;
}

/** Reads rows and keeps the best of them that are in the scope, best first. */
function scoreRows(
  look: Look,
  ranges: readonly IdRange[],
  { max, scale }: { readonly max: number; readonly scale: number },
): readonly Scored[] {
  const { layout, scanner } = look.scan;
  const files = look.vectors.files(look.state);
  const rows = Buffer.from(scanner.buffer, layout.rows, SCAN_ROWS_MAX * layout.stride);
  const products = new Int32Array(scanner.buffer, layout.out);
  const scales = new Float32Array(scanner.buffer, layout.rows);
  const ids = new Uint32Array(scanner.buffer, layout.rows);
  const best = createBest(max);
  const isAsked = askedOf(look);
  for (const range of ranges) {
    for (let first = range.first; first < range.last; first += SCAN_ROWS_MAX) {
      const count = Math.min(range.last - first, SCAN_ROWS_MAX);
      files.readRows(first, rows, count);
      scanner.dots(layout.rows, count);
      for (let place = 0; place < count; place += 1) {
        const id = first + place;
        if (!isAsked(id)) continue;
        const at = place * layout.stride;
        const similarity = (products[place] ?? 0) * scale * (scales[(at + layout.rowBytes) / 4] ?? 0);
        // Of a row that was never written, or was cut off, not even the id is there.
        const isThere = ids[(at + layout.rowBytes) / 4 + 1] === id;
        if (isThere && similarity <= best.least()) continue;
        const isSound = isSoundRow(rows.subarray(at, at + layout.stride), id, layout);
        // A damaged row goes in front, to be found.
        const numbers = new Int8Array(scanner.buffer, layout.rows + at, look.state.dimensions).slice();
        best.add({ id, similarity: isSound ? similarity : Number.POSITIVE_INFINITY, isSound, numbers });
      }
    }
  }
  return best.all();
}

/** The best of what it is given, best first, the older of two that are alike. */
function createBest(max: number) {
  const rows: Scored[] = [];
  return {
    least: () => (rows.length < max ? Number.NEGATIVE_INFINITY : (rows.at(-1)?.similarity ?? 0)),
    add: (row: Scored): void => {
      let at = rows.length;
      while (at > 0 && (rows[at - 1]?.similarity ?? 0) < row.similarity) at -= 1;
      rows.splice(at, 0, row);
      if (rows.length > max) rows.pop();
    },
    all: (): readonly Scored[] => rows,
  };
}

/** Ranges in ascending order, with those that are close to each other as one. */
function joinRanges(ranges: readonly IdRange[]): readonly IdRange[] {
  const joined: { first: number; last: number }[] = [];
  for (const { first, last } of ranges) {
    const before = joined.at(-1);
    if (before !== undefined && first - before.last <= GAP_ROWS_MAX) before.last = last;
    else joined.push({ first, last });
  }
  return joined;
}
