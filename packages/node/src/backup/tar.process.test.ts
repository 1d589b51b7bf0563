import { execFileSync } from "node:child_process";
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { below, pick } from "../../../../test/compaction/chances.ts";
import { createRandom } from "../../../../test/crash/random.ts";
import { createTarWriter, readTar } from "./tar.ts";

const root = mkdtempSync(join(tmpdir(), "rkat-tar-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const listed = (bytes: Buffer) =>
  readTar({ size: bytes.length, read: (offset, many) => bytes.subarray(offset, offset + many) }, "x.tar");

async function archive(files: readonly (readonly [path: string, text: string])[]): Promise<Buffer> {
  const path = join(root, "made.tar");
  const fd = openSync(path, "w");
  const tar = createTarWriter(fd);
  // A file that failed leaves nothing behind.
  const failing = (function* () {
    yield "z".repeat(5_000);
    throw new Error("it is gone");
  })();
  await expect(tar.add({ name: "gone", chunks: failing })).rejects.toThrow("it is gone");
  for (const [name, text] of files) await tar.add({ name, chunks: [text.slice(0, 7), Buffer.from(text.slice(7))] });
  expect(await tar.finish()).toBe(readFileSync(path).length);
  closeSync(fd);
  return readFileSync(path);
}

const END_BYTES = 1_024;

describe("a tar", () => {
  it("[K2] gives back the names and bytes it was made of, however long and odd, by seeds", async () => {
    for (let seed = 1; seed <= 200; seed += 1) {
      const random = createRandom(seed);
      const name = (at: number): string =>
        `${at}/${Array.from({ length: 1 + below(random, 120) }, () => pick(random, ["a", "ü", "日", "🦦", " ", "/x", "=", "\n"])).join("")}`;
      const files = Array.from({ length: 1 + below(random, 6) }, (_, at) => {
        return [name(at), "y".repeat(below(random, 1_500))] as const;
      });
      const bytes = await archive(files);
      const found = listed(bytes).map(({ path, offset, bytes: many }) => [
        path,
        bytes.toString("utf8", offset, offset + many),
      ]);
      expect({ seed, found }).toEqual({ seed, found: files.map((file) => [...file]) });
    }
  });

  it("[K2] is one that other programs unpack, and of theirs it reads long names", async () => {
    const long = `files/1/.rkat/agents/ada/notes/${"very-".repeat(30)}long ü.md`;
    writeFileSync(
      join(root, "ours.tar"),
      await archive([
        [long, "kept"],
        ["manifest.jsonl", "{}"],
      ]),
    );
    execFileSync("tar", ["xf", "ours.tar"], { cwd: root });
    expect(readFileSync(join(root, long), "utf8")).toBe("kept");
    for (const format of ["gnu", "posix"]) {
      execFileSync("tar", [`--format=${format}`, "-cf", "theirs.tar", "./files", "manifest.jsonl"], { cwd: root });
      const paths = listed(readFileSync(join(root, "theirs.tar"))).map(({ path }) => path);
      expect({ format, paths }).toEqual({ format, paths: [long, "manifest.jsonl"] });
    }
  });

  it("[K2] that is cut off, damaged, holds links or is none at all is refused in a sentence", async () => {
    const whole = await archive([
      ["a", "x".repeat(600)],
      ["b", "y"],
    ]);
    const link = await archive([["a", "x"]]);
    link.write("2", 156, "latin1");
    const sum = link.subarray(0, 512).reduce((all, byte, at) => all + (at >= 148 && at < 156 ? 32 : byte), 0);
    link.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148, "latin1");
    const flipped = Buffer.from(whole);
    flipped.writeUInt8(flipped.readUInt8(512 + 1_024 + 3) ^ 1, 512 + 1_024 + 3);
    expect(() => listed(Buffer.from("PK\u0003\u0004".repeat(300)))).toThrow("x.tar is not a tar archive");
    expect(() => listed(Buffer.alloc(0))).toThrow("x.tar is not a tar archive");
    expect(() => listed(whole.subarray(0, 1_000))).toThrow("is cut off: a file in it is not whole");
    expect(() => listed(whole.subarray(0, whole.length - END_BYTES))).toThrow("is cut off: its end is missing");
    expect(() => listed(flipped)).toThrow("is damaged at 1536");
    expect(() => listed(link)).toThrow("holds links or devices");
  });
});
