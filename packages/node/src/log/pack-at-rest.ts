import { messageOf } from "@rkat/core/contract/error";
import type { Leases } from "./leases.ts";
import { leaseName } from "./log.ts";
import type { LogIndex, SegmentState } from "./log-index.ts";
import { AT_REST_MS, readBytes } from "./packed-segment.ts";
import { HEADER_BYTES, recordHead } from "./record.ts";
import { packSegment, REWRITING, takeSteps } from "./rewrite-records.ts";
import type { SegmentIo, Segments } from "./segments.ts";

/** The next append begins a new file, so a small one is left as it is. */
export const PACKED_BYTES_MIN = 256 * 1_024;

interface PackParts {
  readonly index: Pick<LogIndex<unknown>, "segments" | "save">;
  readonly segments: Segments;
  readonly leases: Pick<Leases, "take" | "give">;
  readonly io: SegmentIo;
  /** The segments that this process writes. */
  readonly own: ReadonlySet<number>;
  readonly now: () => number;
}

/** Packs the segments at rest. One that another process writes, packs or rewrites is left for the next time. */
export async function packAtRest(parts: PackParts, signal: AbortSignal): Promise<void> {
  const { index, segments, leases, own } = parts;
  // Sealed bytes do not become fewer.
  if (segments.seal !== undefined) return;
  const there = new Set(segments.list());
  for (const [segment, { isPacked }] of index.segments()) {
    if (isPacked === true || own.has(segment) || !there.has(segment) || restingState(parts, segment) === undefined)
      continue;
    // Not one whose writer may only be suspended: it would write to the file that is replaced.
    if (!leases.take(leaseName(segment), "dead")) continue;
    try {
      await packOne(parts, segment, signal);
    } finally {
      leases.give(leaseName(segment));
    }
  }
}

/** The state of a segment all of which is indexed and whose last record is old. */
function restingState({ index, segments, now }: PackParts, segment: number): SegmentState | undefined {
  const state = index.segments().get(segment);
  const bytes = segments.reader(segment);
  if (state === undefined || state.last < 0 || state.indexed < PACKED_BYTES_MIN || state.indexed !== bytes.size())
    return;
  const head = readBytes(bytes, state.last, HEADER_BYTES);
  return recordHead(head, 0).timestamp_ms <= now() - AT_REST_MS ? state : undefined;
}

async function packOne(parts: PackParts, segment: number, signal: AbortSignal): Promise<void> {
  const { index, segments, leases, io } = parts;
  const state = restingState(parts, segment);
  if (state === undefined || !leases.take(REWRITING)) return;
  const save = (packed: Partial<SegmentState>): Promise<void> =>
    index.save({ places: [], rows: [], segments: new Map([[segment, { ...state, sealed: true, ...packed }]]) });
  try {
    // First, so that nothing is appended to it any more.
    await save({});
    if (segments.reader(segment).packedAt === undefined)
      await takeSteps(io, packSegment(io, segments.path(segment)), signal);
    await save({ isPacked: true });
  } finally {
    leases.give(REWRITING);
  }
}

const FIRST_MS = 1_000;
const EVERY_MS = 86_400_000;

/** Packs what is at rest soon after the folder is opened and then once a day. */
export function packDaily(parts: PackParts & { readonly warn: (sentence: string) => void }): {
  close(): Promise<void>;
} {
  const closing = new AbortController();
  let packing = Promise.resolve();
  const pack = (): void => {
    packing = packing
      .then(() => packAtRest(parts, closing.signal))
      .catch((error: unknown) => {
        if (!closing.signal.aborted) parts.warn(`a log at rest stays as large as it is: ${messageOf(error)}`);
      });
  };
  const [first, every] = [setTimeout(pack, FIRST_MS).unref(), setInterval(pack, EVERY_MS).unref()];
  return {
    close: () => {
      clearTimeout(first);
      clearInterval(every);
      closing.abort();
      return packing;
    },
  };
}
