import { expect, it } from "vitest";
import { countAt, createPageWriter, decodePage, keyOf, type PostingPage, placeOfKey } from "./posting-page.ts";

const TERMS = Array.from({ length: 500 }, (_, at) => placeOfKey(keyOf(`term ${at}`))).sort((a, b) => a - b);

/** As version 0.2.0 wrote it: columns of fixed width, and whole keys. */
function pageBefore(keys: readonly number[], postings: readonly (readonly [place: number, count: number])[]): Buffer {
  const of = (array: ArrayBufferView): Buffer => Buffer.from(array.buffer);
  return Buffer.concat([
    of(Uint32Array.of(keys.length, keys.length, 0, 0)),
    of(Float64Array.from(keys)),
    of(Uint32Array.from({ length: keys.length + 1 }, (_, at) => at)),
    of(Uint16Array.from(postings, ([place]) => place)),
    of(Uint8Array.from(postings, ([, count]) => count)),
  ]);
}

function postingsOf(page: PostingPage) {
  return [...page.keys].map((key, term) => {
    const ats = Array.from({ length: (page.starts[term + 1] ?? 0) - (page.starts[term] ?? 0) }, (_, at) => at);
    const from = page.starts[term] ?? 0;
    return [key, ...ats.map((at) => [page.places[from + at], countAt(page, from + at)])];
  });
}

it("[D6] pages of postings come back with places and counts of every size", () => {
  const writer = createPageWriter();
  const given = TERMS.map((key, term) => [key, [term, 1], [term + 200, term], [65_000 + term, 70_000 * (term % 2)]]);
  for (const [key, ...postings] of given) {
    writer.term(Number(key));
    for (const [place = 0, count = 0] of postings as number[][]) writer.posting(place, count);
  }
  const { pages } = writer.finish();
  expect(pages.length).toBeGreaterThan(1);
  expect(pages.flatMap((page) => postingsOf(decodePage(page)))).toEqual(given);
});

it("[F12] a page of an earlier version is read with the part of its keys that is kept", () => {
  const keys = Array.from({ length: 9 }, (_, at) => keyOf(`term ${at}`)).sort((a, b) => a - b);
  const postings = keys.map((_, at) => [at * 7, at + 1] as const);
  expect(postingsOf(decodePage(pageBefore(keys, postings)))).toEqual(
    keys.map((key, at) => [placeOfKey(key), postings[at]]),
  );
});
