import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { toNewEntries } from "@rkat/core/state/entry-events";
import { foldRow } from "@rkat/core/state/session-row";
import { afterAll, describe, expect, it } from "vitest";
import { answered, created, idOf } from "../../../../test/support/entries.ts";
import { openStore } from "./open.ts";
import { nodeSegmentIo, type SegmentIo } from "./segments.ts";

const root = mkdtempSync(join(tmpdir(), "rkat-faults-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const A = idOf(1);
const everything = Number.MAX_SAFE_INTEGER;

interface Fault {
  readonly call: "write" | "sync" | "truncate";
  readonly code: string;
  /** Bytes that get through before the write fails. */
  readonly partly: number;
}

/** The file system, failing while `fault` is set. */
function faultyIo(): SegmentIo & { fault: Fault | undefined } {
  const fail = (fault: Fault): never => {
    throw Object.assign(new Error(`${fault.code}: injected`), { code: fault.code });
  };
  const io = {
    ...nodeSegmentIo,
    fault: undefined as Fault | undefined,
    writeSync: (fd: number, buffer: Buffer, position: number): number => {
      if (io.fault?.call !== "write") return nodeSegmentIo.writeSync(fd, buffer, position);
      if (io.fault.partly > 0) nodeSegmentIo.writeSync(fd, buffer.subarray(0, io.fault.partly), position);
      return fail(io.fault);
    },
    syncSync: (fd: number): void => {
      if (io.fault?.call === "sync") fail(io.fault);
      nodeSegmentIo.syncSync(fd);
    },
    write: async (fd: number, buffer: Buffer, position: number) => io.writeSync(fd, buffer, position),
    sync: async (fd: number) => io.syncSync(fd),
    truncate: (fd: number, bytes: number): void => {
      if (io.fault?.call === "truncate") fail(io.fault);
      nodeSegmentIo.truncate(fd, bytes);
    },
  };
  return io;
}

describe("a disk that fails", () => {
  const faults: Fault[] = [
    { call: "write", code: "ENOSPC", partly: 0 },
    { call: "write", code: "ENOSPC", partly: 25 },
    { call: "write", code: "EIO", partly: 90 },
    { call: "sync", code: "EIO", partly: 0 },
    { call: "sync", code: "ENOSPC", partly: 0 },
  ];
  for (const fault of faults) {
    it(`[F7] ${fault.code} in ${fault.call} after ${fault.partly} bytes: a clear error, nothing half-written, works again`, async () => {
      const folder = mkdtempSync(join(root, "store-"));
      const io = faultyIo();
      const open = (with_: SegmentIo) =>
        openStore({ folder, foldRow, io: with_, host: { pid: process.pid, isRunning: () => true } });
      const store = open(io);
      await store.log.append(A, 0, toNewEntries([created]));
      io.fault = fault;
      for (let attempt = 0; attempt < 3; attempt += 1) {
        await expect(store.log.append(A, 1, toNewEntries([answered("lost")]))).rejects.toMatchObject({
          code: "SESSION_STORE_ERROR",
          message: expect.stringMatching(/nothing was kept of this append$/),
        });
      }
      expect(await store.log.read(A, 1, everything)).toHaveLength(1);
      io.fault = undefined;
      await store.log.append(A, 1, toNewEntries([answered("kept")]));
      await store.close();
      const after = open(nodeSegmentIo);
      expect((await after.log.read(A, 1, everything)).map(({ body }) => body)).toEqual([created, answered("kept")]);
      await after.close();
    });
  }

  it("[F7] a process that dies right after a failed write leaves a log that opens", async () => {
    const folder = mkdtempSync(join(root, "store-"));
    const io = faultyIo();
    const options = { folder, foldRow, host: { pid: process.pid, isRunning: () => true } };
    const store = openStore({ ...options, io });
    await store.log.append(A, 0, toNewEntries([created]));
    io.fault = { call: "write", code: "EIO", partly: 50 };
    await expect(store.log.append(A, 1, toNewEntries([answered("lost")]))).rejects.toThrow("EIO");
    // Not closed: what it left is found by a store that takes its segment for another's and only reads it.
    const other = openStore(options);
    expect(await other.log.read(A, 1, everything)).toHaveLength(1);
    await other.log.append(A, 1, toNewEntries([answered("kept")]));
    expect((await other.log.read(A, 1, everything)).map(({ body }) => body)).toEqual([created, answered("kept")]);
    await other.close();
  });

  it("[F7] a file that cannot be read when the folder is opened is an error of the store", () => {
    const folder = mkdtempSync(join(root, "store-"));
    mkdirSync(join(folder, "format"));
    const open = () => openStore({ folder, foldRow, host: { pid: process.pid, isRunning: () => true } });
    expect(open).toThrow(expect.objectContaining({ code: "SESSION_STORE_ERROR" }));
    expect(open).toThrow(`cannot use ${folder}: EISDIR`);
  });

  it("[H5] an append over the limit is refused by name", async () => {
    const folder = mkdtempSync(join(root, "store-"));
    const store = openStore({ folder, foldRow, host: { pid: process.pid, isRunning: () => true } });
    const huge = answered("x".repeat(64 * 1_024 * 1_024));
    await expect(store.log.append(A, 0, toNewEntries([huge]))).rejects.toMatchObject({ code: "PAYLOAD_TOO_LARGE" });
    await store.log.append(A, 0, toNewEntries([created]));
    await store.close();
  });
});

describe("a disk that fails while a log is written over", () => {
  it("[D9] what was half written over is whole again when the next one is", async () => {
    const io = faultyIo();
    const opened = new Set<number>();
    const watched = {
      ...io,
      open: (path: string, flags: string, mode: number) => {
        const fd = nodeSegmentIo.open(path, flags, mode);
        if (flags === "r+" && isFailing) opened.add(fd);
        return fd;
      },
      writeSync: (fd: number, buffer: Buffer, position: number) => {
        if (!opened.delete(fd)) return nodeSegmentIo.writeSync(fd, buffer, position);
        nodeSegmentIo.writeSync(fd, buffer.subarray(0, buffer.length / 2), position);
        throw Object.assign(new Error("EIO: injected"), { code: "EIO" });
      },
    };
    let isFailing = false;
    const folder = mkdtempSync(join(root, "over-"));
    const store = openStore({ folder, foldRow, io: watched, host: { pid: process.pid, isRunning: () => true } });
    const B = idOf(2);
    const secret = "Marit was born in Bergen. ".repeat(20);
    for (const id of [A, B]) await store.log.append(id, 0, toNewEntries([created, answered(secret)]));
    const emptied = async (id: string) =>
      (await store.log.read(id, 1, everything)).map((entry) =>
        entry.body.kind === "assistant" ? { ...entry, body: answered("[forgotten]") } : entry,
      );
    isFailing = true;
    await expect(store.log.rewrite(A, await emptied(A))).rejects.toThrow(/EIO/);
    isFailing = false;
    await store.log.rewrite(B, await emptied(B));
    for (const id of [A, B]) {
      const bodies = (await store.log.read(id, 1, everything)).map(({ body }) => body);
      expect(bodies).toEqual([created, answered("[forgotten]")]);
    }
    await store.close();
  });
});
