import { type BigIntStats, closeSync, constants, fstatSync, lstatSync, openSync } from "node:fs";
import { dirname, join } from "node:path";
import { recordHead, scanSegment } from "../log/record.ts";
import { nodeSegmentIo } from "../log/segments.ts";
import { entriesIn, isAbsent } from "../log/whole-file.ts";
import { isTruth, LOG_FOLDERS, SEGMENT } from "./backup-manifest.ts";

/** The part of a log to copy: every record before the limit whose predecessors are copied, too. */
export interface LogCut {
  readonly path: string;
  readonly fd: number;
  readonly limit: number;
}

/** A file was replaced while it was read, as erasing does; the folder is then read again. */
export class Replaced extends Error {}

/**
 * Where to cut the logs of a folder in use, so that no record is copied without its predecessor, which may be in
 * another process's segment. The ends are read three times: a record within the second reading was written before the
 * third began, and so were its predecessors; those the second missed are found in the third.
 */
export function cutLogs(look: () => Ends): readonly LogCut[] {
  const [first, second, third] = [look(), look(), look()];
  const growing = [...third].filter(([path, { size }]) => size !== first.get(path)?.size);
  const written = growing.flatMap(([path, { size, fd }]) =>
    recordsIn(path, { fd, from: first.get(path)?.size ?? 0, to: size }),
  );
  const ends = new Map([...third].map(([path, { size }]) => [path, size]));
  // A reading may end within a record; bytes after the last whole one are not copied.
  for (const [path, { size }] of growing) ends.set(path, Math.min(size, first.get(path)?.size ?? 0));
  for (const { path, end } of written)
    if (end <= (second.get(path)?.size ?? 0)) ends.set(path, Math.max(end, ends.get(path) ?? 0));
  const isTaken = ({ path, end }: Written): boolean => end <= (ends.get(path) ?? 0);
  for (let isOpen = true; isOpen; ) {
    isOpen = false;
    const last = new Map<string, number>();
    for (const record of written.filter(isTaken))
      last.set(record.session, Math.max(record.seq, last.get(record.session) ?? 0));
    for (const record of written) {
      if (isTaken(record) || record.seq >= (last.get(record.session) ?? 0)) continue;
      ends.set(record.path, record.end);
      isOpen = true;
    }
  }
  return [...third].map(([path, { fd }]) => ({ path, fd, limit: ends.get(path) ?? 0 }));
}

/** The length of each log by path. */
type Ends = ReadonlyMap<string, { readonly fd: number; readonly size: number }>;

/** The logs of a folder, each kept open from its first reading, so that its inode is not reused. */
export interface OpenLogs {
  look(): Ends;
  /** Whether the files that were opened still have their names. */
  areStill(): boolean;
  close(): void;
}

export function openLogs(folder: string): OpenLogs {
  const opened = new Map<string, { readonly fd: number; readonly ino: bigint }>();
  const paths = (): readonly string[] =>
    LOG_FOLDERS.flatMap((logs) =>
      entriesIn(join(folder, logs))
        .filter((entry) => entry.isFile())
        .map(({ name }) => `${logs}/${name}`)
        .filter((path) => SEGMENT.test(path)),
    );
  return {
    look: () => {
      for (const path of paths()) {
        if (opened.has(path)) continue;
        const { fd, stat } = openSource(folder, path);
        opened.set(path, { fd, ino: stat.ino });
      }
      return new Map([...opened].map(([path, { fd }]) => [path, { fd, size: fstatSync(fd).size }]));
    },
    areStill: () =>
      [...opened].every(([path, { ino }]) => {
        return lstatSync(join(folder, path), { bigint: true, throwIfNoEntry: false })?.ino === ino;
      }),
    close: () => {
      for (const { fd } of opened.values()) closeSync(fd);
      opened.clear();
    },
  };
}

interface Written {
  readonly path: string;
  readonly session: string;
  readonly seq: number;
  readonly end: number;
}

/** The records that end in a stretch of a log. */
function recordsIn(
  path: string,
  { fd, from, to }: { readonly fd: number; readonly from: number; readonly to: number },
): readonly Written[] {
  const written: Written[] = [];
  scanSegment({ ...nodeSegmentIo, size: () => to }, fd, 0, (buffer, at, { offset, bytes }) => {
    const { sessionId, seq } = recordHead(buffer, at);
    const end = offset + bytes;
    if (end > from) written.push({ path, session: `${dirname(path)} ${sessionId}`, seq, end });
  });
  return written;
}

/** Opens a file of the state folder, never through a link; throws Replaced if it is gone. */
export function openSource(folder: string, path: string): { readonly fd: number; readonly stat: BigIntStats } {
  const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants;
  try {
    const fd = openSync(join(folder, path), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    const stat = fstatSync(fd, { bigint: true });
    if (stat.isFile()) return { fd, stat };
    closeSync(fd);
  } catch (error) {
    if (!isAbsent(error)) throw error;
  }
  throw new Replaced(path);
}

/** A younger file may change again without a new modification time. */
const SETTLED_MS = 3_000;

/** A stamp that changes with the content of a file; empty while it is too young. */
export function stampOf({ ino, size, mtimeNs, ctimeNs, ctimeMs }: BigIntStats, nowMs: number): string {
  return nowMs - Number(ctimeMs) > SETTLED_MS ? `${ino} ${size} ${mtimeNs} ${ctimeNs}` : "";
}

/** The original data besides the logs, and one sentence for each file that cannot be copied. */
export function listTruth(folder: string): { readonly paths: readonly string[]; readonly leftOut: readonly string[] } {
  const paths: string[] = [];
  const leftOut: string[] = [];
  const visit = (below: string): void => {
    for (const entry of entriesIn(join(folder, below))) {
      const path = below === "" ? entry.name : `${below}/${entry.name}`;
      if (!isTruth(path) || (SEGMENT.test(path) && entry.isFile())) continue;
      if (entry.name.includes("\ufffd")) leftOut.push(`${path} has a name that is no UTF-8; rename it`);
      else if (entry.isDirectory()) visit(path);
      else if (entry.isFile()) paths.push(path);
      else
        leftOut.push(
          entry.isSymbolicLink()
            ? `${path} is a link, which a back-up does not follow; put what it names in its place`
            : `${path} is neither a file nor a folder; remove it`,
        );
    }
  };
  visit("");
  return { paths, leftOut };
}
