/** Terms of a segment in a row, with the chunks that hold them. Terms are kept by a number made of them. */
export interface PostingPage {
  readonly keys: Float64Array;
  /** Where the postings of a term begin; those of the last end at the last of these. */
  readonly starts: Uint32Array;
  /** Chunks, counted from the segment's first. */
  readonly places: Uint16Array;
  /** How often a chunk holds the term; `COUNT_LARGE`: that often or more, see `large`. */
  readonly counts: Uint8Array;
  /** Pairs of a posting's index and its count, for counts a byte cannot hold. */
  readonly large: Uint32Array;
}

/** Chunks of a segment are counted in 16 bits: a posting takes three bytes. */
export const SEGMENT_CHUNKS_MAX = 65_536;
export const COUNT_LARGE = 255;
/** A page is full from here on: finding a term copies one, and the database gives it two of its own. */
const PAGE_BYTES_FULL = 7_600;
const TERM_BYTES = 12;
const POSTING_BYTES = 3;

/**
 * 53 bits of a term: a number is found and compared faster than a text, and takes less room. Two of a million terms are
 * the same with a chance of 1 : 18,000; it would find a chunk too many.
 */
export function keyOf(term: string): number {
  let high = 0xdeadbeef;
  let low = 0x41c6ce57;
  for (let index = 0; index < term.length; index += 1) {
    const unit = term.charCodeAt(index);
    high = Math.imul(high ^ unit, 2_654_435_761);
    low = Math.imul(low ^ unit, 1_597_334_677);
  }
  high = Math.imul(high ^ (high >>> 16), 2_246_822_507) ^ Math.imul(low ^ (low >>> 13), 3_266_489_909);
  low = Math.imul(low ^ (low >>> 16), 2_246_822_507) ^ Math.imul(high ^ (high >>> 13), 3_266_489_909);
  return 2 ** 32 * (high & 0x1fffff) + (low >>> 0);
}

/** Of a key only the upper 40 bits are kept: one of a million terms is another's with a chance of 1 : 1,000,000. */
const KEY_STEP = 2 ** 13;

/** The part of a key that is kept: the lowest of those that count as the same. */
export function placeOfKey(key: number): number {
  return key - (key % KEY_STEP);
}

/** The highest of the keys that count as the same as this one. */
export function lastAlike(place: number): number {
  return place + KEY_STEP - 1;
}

/** Takes terms in ascending order of their keys, each with its postings in ascending order, and makes pages of them. */
export interface PageWriter {
  term(key: number): void;
  posting(place: number, count: number): void;
  /** The postings of a term of another page, whose segment begins `shift` chunks further on here; how many these are. */
  copy(page: PostingPage, term: number, shift: number): number;
  finish(): { readonly pages: readonly Buffer[]; readonly fences: Buffer };
}

export function createPageWriter(): PageWriter {
  const pages: Buffer[] = [];
  const fences: number[] = [];
  let keys: number[] = [];
  let starts: number[] = [];
  let large: number[] = [];
  let size = 0;
  let places = new Uint16Array(PAGE_BYTES_FULL);
  let counts = new Uint8Array(PAGE_BYTES_FULL);

  const room = (more: number): void => {
    if (size + more <= places.length) return;
    const [oldPlaces, oldCounts] = [places, counts];
    places = new Uint16Array((size + more) * 2);
    counts = new Uint8Array((size + more) * 2);
    places.set(oldPlaces);
    counts.set(oldCounts);
  };
  const flush = (): void => {
    if (keys.length === 0) return;
    starts.push(size);
    fences.push(keys[0] ?? 0);
    pages.push(encodePage({ keys, starts, large, places: places.subarray(0, size), counts: counts.subarray(0, size) }));
    [keys, starts, large, size] = [[], [], [], 0];
  };
  const posting = (place: number, count: number): void => {
    room(1);
    if (count >= COUNT_LARGE) large.push(size, count);
    places[size] = place;
    counts[size] = Math.min(count, COUNT_LARGE);
    size += 1;
  };

  return {
    term: (key) => {
      if (keys.length * TERM_BYTES + size * POSTING_BYTES >= PAGE_BYTES_FULL) flush();
      keys.push(key);
      starts.push(size);
    },
    posting,
    copy: (page, term, shift) => {
      const from = page.starts[term] ?? 0;
      const to = page.starts[term + 1] ?? from;
      room(to - from);
      if (page.large.length > 0) {
        for (let at = from; at < to; at += 1) posting((page.places[at] ?? 0) + shift, countAt(page, at));
        return to - from;
      }
      for (let at = from; at < to; at += 1) {
        places[size] = (page.places[at] ?? 0) + shift;
        counts[size] = page.counts[at] ?? 0;
        size += 1;
      }
      return to - from;
    },
    finish: () => {
      flush();
      return { pages, fences: Buffer.from(Float64Array.from(fences).buffer) };
    },
  };
}

/** How often the chunk of a posting holds the term. */
export function countAt({ counts, large }: PostingPage, at: number): number {
  const count = counts[at] ?? 0;
  if (count < COUNT_LARGE) return count;
  for (let pair = 0; pair < large.length; pair += 2) if (large[pair] === at) return large[pair + 1] ?? count;
  return count;
}

interface PageParts {
  readonly keys: readonly number[];
  readonly starts: readonly number[];
  readonly large: readonly number[];
  readonly places: Uint16Array;
  readonly counts: Uint8Array;
}

// Of an earlier version: terms u32 · postings u32 · large counts u32 · reserved u32, then the columns of `PostingPage`.
const HEAD_BYTES = 16;
/** In the last byte of `terms`, which is 0 in earlier pages: what follows the four are numbers of 7 bits a byte. */
const PACKED = 0x01_00_00_00;
const NUMBER_BYTES_MAX = 7;
const SEVEN = 2 ** 7;
const SHIFTED_MAX = 2 ** 31;

/** Per term the distance from the key before and the number of postings; per posting the distance from the place before. */
function encodePage({ keys, starts, large, places, counts }: PageParts): Buffer {
  const page = Buffer.allocUnsafe(4 + (2 + keys.length * 2 + places.length * 2 + large.length) * NUMBER_BYTES_MAX);
  let at = page.writeUInt32LE(PACKED + keys.length, 0);
  const put = (number: number): void => {
    let left = number;
    // Shifts are quicker than divisions, and take 32 bits.
    for (; left > SHIFTED_MAX; left = Math.floor(left / SEVEN)) page[at++] = (left % SEVEN) + SEVEN;
    for (; left >= SEVEN; left >>>= 7) page[at++] = (left & (SEVEN - 1)) | SEVEN;
    page[at++] = left;
  };
  put(places.length);
  put(large.length);
  for (const number of large) put(number);
  let before = 0;
  for (const [term, key] of keys.entries()) {
    put((key - before) / KEY_STEP);
    before = key;
    const from = starts[term] ?? 0;
    const to = starts[term + 1] ?? from;
    put(to - from);
    for (let posting = from; posting < to; posting += 1) {
      const count = counts[posting] ?? 0;
      // Nearly all counts are 1: a bit says so.
      put(((places[posting] ?? 0) - (posting > from ? (places[posting - 1] ?? 0) : 0)) * 2 + (count === 1 ? 0 : 1));
      if (count !== 1) put(count);
    }
  }
  return Buffer.from(page.subarray(0, at));
}

export function decodePage(value: Uint8Array): PostingPage {
  const { buffer, byteOffset } = value;
  const view = new DataView(buffer, byteOffset, value.byteLength);
  const terms = view.getUint32(0, true);
  if (terms < PACKED) {
    const page = pageOver(new Uint8Array(value).buffer, HEAD_BYTES, [
      terms,
      view.getUint32(4, true),
      view.getUint32(8, true),
    ]);
    for (const [term, key] of page.keys.entries()) page.keys[term] = placeOfKey(key);
    return page;
  }
  let at = 4;
  const next = (): number => {
    let number = 0;
    for (let step = 1; ; step *= SEVEN) {
      const byte = value[at++] ?? 0;
      if (byte < SEVEN) return number + byte * step;
      number += (byte - SEVEN) * step;
    }
  };
  const sizes = [terms - PACKED, next(), next()] as const;
  const page = pageOver(new ArrayBuffer(bytesOf(sizes)), 0, sizes);
  const { keys, starts, large, places, counts } = page;
  for (let pair = 0; pair < large.length; pair += 1) large[pair] = next();
  let [key, posting] = [0, 0];
  for (let term = 0; term < keys.length; term += 1) {
    key += next() * KEY_STEP;
    keys[term] = key;
    starts[term] = posting;
    let place = 0;
    for (let left = next(); left > 0; left -= 1) {
      const gap = next();
      place += gap >>> 1;
      places[posting] = place;
      counts[posting] = gap % 2 === 0 ? 1 : next();
      posting += 1;
    }
  }
  starts[keys.length] = posting;
  return page;
}

type PageSizes = readonly [terms: number, postings: number, large: number];

function bytesOf([terms, postings, large]: PageSizes): number {
  return terms * 8 + (terms + 1 + large) * 4 + postings * POSTING_BYTES;
}

/** The columns in one buffer, widest first so that each is on its boundary. */
function pageOver(buffer: ArrayBuffer, at: number, [terms, postings, large]: PageSizes): PostingPage {
  const startsAt = at + terms * 8;
  const largeAt = startsAt + (terms + 1) * 4;
  const placesAt = largeAt + large * 4;
  return {
    keys: new Float64Array(buffer, at, terms),
    starts: new Uint32Array(buffer, startsAt, terms + 1),
    large: new Uint32Array(buffer, largeAt, large),
    places: new Uint16Array(buffer, placesAt, postings),
    counts: new Uint8Array(buffer, placesAt + postings * 2, postings),
  };
}
