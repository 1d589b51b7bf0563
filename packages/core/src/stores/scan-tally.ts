import type { Scan, ScanMatch } from "../ports/store.ts";
import type { FoundText } from "./scan.ts";

/** Further matches are only counted. */
const MATCHES_MAX = 1_000;
const REPORTED_BYTES = 4 * 1_024 * 1_024;

/** Counts what a scan has read, and lists its matches. */
export interface Tally {
  bytes(count: number): void;
  place(place: string, found: readonly FoundText[]): void;
  /** More matches of a place that was counted before. */
  also(place: string, found: readonly FoundText[]): void;
  end(): Scan;
}

export function createTally(onProgress: (done: { places: number; bytes: number }) => void = () => {}): Tally {
  const matches: ScanMatch[] = [];
  let [places, bytes, more, reportedBytes] = [0, 0, 0, 0];
  const also = (place: string, found: readonly FoundText[]): void => {
    for (const { text, form } of found) {
      if (matches.length < MATCHES_MAX) matches.push({ place, text, form });
      else more += 1;
    }
  };
  return {
    bytes: (count) => {
      bytes += count;
      if (bytes - reportedBytes < REPORTED_BYTES) return;
      reportedBytes = bytes;
      onProgress({ places, bytes });
    },
    place: (place, found) => {
      places += 1;
      also(place, found);
    },
    also,
    end: () => {
      onProgress({ places, bytes });
      return { places, bytes, matches, more };
    },
  };
}
