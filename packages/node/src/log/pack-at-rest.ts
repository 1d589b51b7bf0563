import { messageOf } from "@rkat/core/contract/error";
import { AT_REST_MS } from "./at-rest.ts";
import type { Leases } from "./leases.ts";
import { leaseName } from "./log.ts";
import type { LogIndex, SegmentState } from "./log-index.ts";
import { HEADER_BYTES, recordHead } from "./record.ts";
import { REWRITING } from "./rewrite-records.ts";
import { readBytes } from "./segment-bytes.ts";
import type { SegmentIo, Segments } from "./segments.ts";
import { isAbsent } from "./whole-file.ts";
import { openPackedFile, takeSteps } from "./write-packed.ts";

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
  readonly warn: (sentence: string) => void;
}

/** Packs the segments at rest. One that another process writes, packs or erases from is left for the next time. */
export async function packAtRest(parts: PackParts, signal: AbortSignal): Promise<void> {
  const { index, segments, leases, own, warn } = parts;
  segments.refresh();
  // Sealed bytes do not become fewer.
  if (segments.seal !== undefined) return;
  const there = new Set(segments.list());
  for (const [segment, { isPacked }] of index.segments()) {
    if (isPacked === true || own.has(segment) || !there.has(segment)) continue;
    try {
      // Not one whose writer may only be suspended: it would write to the file that is replaced.
      if (restingState(parts, segment) === undefined || !leases.take(leaseName(segment), "dead")) continue;
      try {
        await packOne(parts, segment, signal);
      } finally {
        leases.give(leaseName(segment));
      }
    } catch (error) {
      if (signal.aborted) return;
      warn(`${segments.path(segment)} stays as large as it is: ${messageOf(error)}`);
    }
  }
}

/** The state of a segment all of which is indexed and whose last record is old. */
function restingState({ index, segments, now }: PackParts, segment: number): SegmentState | undefined {
  const state = index.segments().get(segment);
  const bytes = segments.reader(segment);
  if (state === undefined || state.last < 0 || state.indexed < PACKED_BYTES_MIN) return undefined;
  if (state.indexed !== bytes.size()) return undefined;
  const head = readBytes(bytes, state.last, HEADER_BYTES);
  return recordHead(head, 0).timestamp_ms <= now() - AT_REST_MS ? state : undefined;
}

async function packOne(parts: PackParts, segment: number, signal: AbortSignal): Promise<void> {
  const { index, segments, leases, io } = parts;
  const state = restingState(parts, segment);
  if (state === undefined) return;
  const save = (packed: Partial<SegmentState>): Promise<void> =>
    index.save({ places: [], rows: [], segments: new Map([[segment, { ...state, sealed: true, ...packed }]]) });
  // First, so that nothing is appended to it any more.
  await save({});
  if (segments.reader(segment).packedAt !== undefined) return save({ isPacked: true });
  // Only for a moment at the start and at the end: an erasure meanwhile removes the file, and need not wait.
  const file = whileRewriting(leases, () => openPackedFile(io, segments.path(segment)));
  if (file === undefined) return;
  let isReplaced: true | undefined;
  try {
    await takeSteps(io, file.write(), signal);
    isReplaced = whileRewriting(leases, () => {
      file.replace();
      return true;
    });
  } catch (error) {
    if (!isAbsent(error)) throw error;
  } finally {
    file.close();
  }
  if (isReplaced === undefined) return;
  segments.refresh();
  await save({ isPacked: true });
}

/** Undefined if another process erases something at the moment. */
function whileRewriting<T>(leases: PackParts["leases"], work: () => T): T | undefined {
  if (!leases.take(REWRITING, "dead")) return undefined;
  try {
    return work();
  } finally {
    leases.give(REWRITING);
  }
}

/** Commands that end sooner do not pack. */
export const FIRST_MS = 5_000;
const EVERY_MS = 86_400_000;

/** Packs what is at rest some seconds after the folder is opened and then once a day. */
export function packDaily(parts: PackParts): { close(): Promise<void> } {
  const closing = new AbortController();
  let packing = Promise.resolve();
  const pack = (): void => {
    packing = packing
      .then(() => packAtRest(parts, closing.signal))
      .catch((error: unknown) => parts.warn(`logs at rest stay as large as they are: ${messageOf(error)}`));
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
