import { closeSync, fsyncSync, openSync, readdirSync } from "node:fs";
import { join } from "node:path";
import type { SegmentIo } from "./segment-file.ts";

const NAME = /^(\d{8})\.log$/;

/** The log's files. Each is written by one process at a time, so that several can append without waiting. */
export interface Segments {
  /** Numbers of the files that are there, ascending. */
  list(): readonly number[];
  path(segment: number): string;
  /** A descriptor to read with; the same one every time. */
  reader(segment: number): number;
  /** Makes a new, empty file and returns its number. */
  create(): number;
  close(): void;
}

export function openSegments(folder: string, io: SegmentIo): Segments {
  const readers = new Map<number, number>();
  const path = (segment: number): string => join(folder, `${segment.toString().padStart(8, "0")}.log`);
  const list = (): readonly number[] =>
    readdirSync(folder, { withFileTypes: true })
      .flatMap((entry) => {
        const digits = entry.isFile() ? NAME.exec(entry.name)?.[1] : undefined;
        return digits === undefined ? [] : [Number(digits)];
      })
      .sort((a, b) => a - b);
  return {
    list,
    path,
    reader: (segment) => {
      const known = readers.get(segment);
      if (known !== undefined) return known;
      const fd = io.open(path(segment), "r", 0o600);
      readers.set(segment, fd);
      return fd;
    },
    create: () => {
      for (let segment = (list().at(-1) ?? 0) + 1; ; segment += 1) {
        if (!createFile(path(segment), io)) continue;
        syncFolder(folder);
        return segment;
      }
    },
    close: () => {
      for (const fd of readers.values()) io.close(fd);
      readers.clear();
    },
  };
}

/** False when another process was quicker. */
function createFile(path: string, io: SegmentIo): boolean {
  try {
    io.close(io.open(path, "wx", 0o600));
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false; // what open throws
    throw error;
  }
}

/** A file is only there after a power cut when its folder was synced. */
function syncFolder(folder: string): void {
  const fd = openSync(folder, "r");
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}
