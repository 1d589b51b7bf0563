import { mkdir, mkdtemp, readdir, readFile, rename, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { Vault, VaultMemory } from "@rkat/core/ports/vault";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { fc } from "../../../../test/support/property.ts";
import { createVault, nodeVaultCalls, type VaultCalls } from "./vault.ts";

const created_at_ms = Date.UTC(2026, 0, 2, 3, 4, 5, 678);
const created_at = "2026-01-02T03:04:05.678Z";
let folder: string;
let warnings: string[];

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "rkat-memories-"));
  warnings = [];
});
afterEach(() => rm(folder, { recursive: true }));

const newVault = (io = nodeVaultCalls) => createVault({ folder, io, warn: (sentence) => warnings.push(sentence) });
const pathOf = (name: string): string => join(folder, ".rkat", "agents", "ada", "memories", name);
const memoryOf = (number: number, more: Partial<VaultMemory> = {}): VaultMemory => ({
  number,
  content: `Memory ${number}.`,
  created_at_ms,
  ...more,
});

async function put(name: string, text: string | Uint8Array): Promise<void> {
  await mkdir(dirname(pathOf(name)), { recursive: true });
  await writeFile(pathOf(name), text);
}

/** Every memory file by its name. */
async function contents(): Promise<Record<string, string>> {
  const names = await readdir(pathOf(""));
  const texts = names.sort().map(async (name) => [name, await readFile(pathOf(name), "utf8")]);
  return Object.fromEntries(await Promise.all(texts));
}

describe("memory files", () => {
  it("[E7] say what a memory is, under its number", async () => {
    await newVault().writeMemories("ada", [
      memoryOf(1),
      memoryOf(2, { metadata: { place: "the mill", who: ["Bob"] }, file: "rain: a.md" }),
      memoryOf(1_234_567, { content: "---\r\nIt rained.\0\u{1f327}\n\n" }),
    ]);
    const head = (seq: number) => `---\nseq: ${seq}\ncreated_at: ${created_at}\n`;
    expect(await contents()).toEqual({
      "000001.md": `${head(1)}---\n\nMemory 1.`,
      "000002.md": `${head(2)}metadata: {"place":"the mill","who":["Bob"]}\nsource: "rain: a.md"\n---\n\nMemory 2.`,
      "1234567.md": `${head(1_234_567)}---\n\n---\r\nIt rained.\0\u{1f327}\n\n`,
    });
  });

  it("[E7] give every content and metadata back, when a person takes one for their own", async () => {
    const codePoint = fc.oneof(fc.integer({ min: 0, max: 0xd7ff }), fc.integer({ min: 0xe000, max: 0x10ffff }));
    const text = fc.oneof(
      fc.array(codePoint).map((codes) => String.fromCodePoint(...codes)),
      fc.string({ unit: fc.constantFrom("---\n", "\r\n", "\n", "\ufeff", "\0", "a: b", " ") }),
      fc.constantFrom("---\na: b\n---\n\nx", "\n\nx\n\n", "\r\nx", "\u2028"),
    );
    const content = text.map((some) => (some.trim() === "" ? `${some}x${some}` : some));
    // Metadata came out of a JSON log: -0 and the like are gone.
    const metadata = fc
      .dictionary(fc.string({ minLength: 1 }), fc.jsonValue(), { minKeys: 1, maxKeys: 4 })
      .map((some): Record<string, unknown> => JSON.parse(JSON.stringify(some)));
    const vault = newVault();
    await fc.assert(
      fc.asyncProperty(content, fc.option(metadata, { nil: undefined }), async (said, facts) => {
        await vault.writeMemories("ada", [memoryOf(1, { content: said, metadata: facts })]);
        await rename(pathOf("000001.md"), pathOf("copy.md"));
        const found = { file: "copy.md", content: said, ...(facts === undefined ? {} : { metadata: facts }) };
        expect(await vault.found("ada")).toEqual([found]);
      }),
      { numRuns: 150 },
    );
  });

  it("[E7] of a person are found in the order of their names, with their front matter as metadata", async () => {
    await newVault().writeMemories("ada", [memoryOf(1), memoryOf(2)]);
    await put("10.md", "Ten.\n");
    await put("2.md", "---\nplace: the mill\ncreated_at: long ago\nsource: a dream\n---\n\nTwo.\n");
    await put("20260102.md", "A day.");
    await put("b.TXT", "\ufeff---\r\nn: 1\r\n---\r\nWith Windows.\r\n");
    await put("c.md", '---\nmetadata: {"a":{"b":1}}\nplace: home\n---\nCee.');
    await put("d.md", "---\nmetadata: none\n---\nDee.");
    await put("e.md", "---\nA rule, no front matter.\n---\n");
    expect(await newVault().found("ada")).toEqual([
      { file: "2.md", content: "Two.\n", metadata: { place: "the mill", created_at: "long ago", source: "a dream" } },
      { file: "10.md", content: "Ten.\n" },
      { file: "20260102.md", content: "A day." },
      { file: "b.TXT", content: "With Windows.\r\n", metadata: { n: "1" } },
      { file: "c.md", content: "Cee.", metadata: { a: { b: 1 }, place: "home" } },
      { file: "d.md", content: "Dee.", metadata: { metadata: "none" } },
      { file: "e.md", content: "---\nA rule, no front matter.\n---\n" },
    ]);
    expect(warnings).toEqual([]);
  });

  it("[E7] that are no memories are passed over, and told of where a person would wonder", async () => {
    await put("good.md", "x".repeat(1_000_000));
    await put("empty.md", "");
    await put("blank.md", "---\na: b\n---\n \n");
    await put(".hidden.md", "hidden");
    await put("picture.png", "png");
    await put("000001.md.tmp", "half");
    await put("latin.md", Uint8Array.of(0x63, 0x61, 0x66, 0xe9));
    await put("long.md", "x".repeat(1_000_001));
    await put("longer.md", "x".repeat(4_000_001));
    await mkdir(pathOf("folder.md"));
    await symlink(pathOf("good.md"), pathOf("link.md"));
    const vault = newVault();
    expect((await vault.found("ada")).map(({ file }) => file)).toEqual(["good.md"]);
    const reported = [
      `${pathOf("latin.md")} is left out: it is not UTF-8`,
      `${pathOf("long.md")} is left out: it has more than 1000000 characters`,
      `${pathOf("longer.md")} is left out: it has more than 1000000 characters`,
    ];
    expect(warnings).toEqual(reported);
    await vault.found("ada");
    expect(warnings).toEqual(reported);
  });

  it("[E7] that cannot be opened do not keep the others from being found", async () => {
    await put("a.md", "A.");
    await put("b.md", "B.");
    const refusal = Object.assign(new Error("EACCES: permission denied"), { code: "EACCES" });
    const io: VaultCalls = {
      ...nodeVaultCalls,
      read: async (path) => {
        if (path.endsWith("a.md")) throw refusal;
        return nodeVaultCalls.read(path);
      },
    };
    expect(await newVault(io).found("ada")).toEqual([{ file: "b.md", content: "B." }]);
    expect(warnings).toEqual([`${pathOf("a.md")} is left out: EACCES: permission denied`]);
  });

  it("[E7] of a log are not taken for a person's when some of them are gone", async () => {
    const vault = newVault();
    await vault.writeMemories("ada", [memoryOf(1), memoryOf(2), memoryOf(3), memoryOf(4)]);
    await rm(pathOf("000001.md"));
    await rm(pathOf("000003.md"));
    expect(await vault.found("ada")).toEqual([]);
  });
});

describe("a file in the place of a memory", () => {
  it("[E7] that came from another agent is moved aside, told of and found, not written over", async () => {
    const vault = newVault();
    await vault.writeMemories("ada", [memoryOf(1)]);
    await put("000002.md", "---\nseq: 2\ncreated_at: 2026-01-01T00:00:00.000Z\n---\n\nEve saw a comet.");
    await vault.writeMemories("ada", [memoryOf(2)]);
    expect((await newVault().found("ada")).map(({ content }) => content)).toEqual(["Eve saw a comet."]);
    expect(warnings).toEqual([expect.stringContaining("000002-found.md")]);
    await vault.writeMemories("ada", [memoryOf(2)]);
    expect(warnings.length).toBe(1);
  });
});

describe("a memory that was found in a file", () => {
  it("[E7] has its number in place of that file", async () => {
    const vault = newVault();
    await put("rain.md", "It rained.\n");
    const [found] = await vault.found("ada");
    await vault.writeMemories("ada", [memoryOf(1, found)]);
    expect(Object.keys(await contents())).toEqual(["000001.md"]);
    expect(await vault.found("ada")).toEqual([]);
  });

  it("[E7] leaves a file alone that says something else by now", async () => {
    const vault = newVault();
    await put("rain.md", "It rained.\n");
    const [found] = await vault.found("ada");
    await put("rain.md", "It snowed.\n");
    await vault.writeMemories("ada", [memoryOf(1, found)]);
    expect(await vault.found("ada")).toEqual([{ file: "rain.md", content: "It snowed.\n" }]);
  });

  it("[E7] does not remove the file of another number", async () => {
    const vault = newVault();
    await put("000002.md", "By hand.");
    const [found] = await vault.found("ada");
    expect(found).toEqual({ file: "000002.md", content: "By hand." });
    await vault.writeMemories("ada", [memoryOf(1, found), memoryOf(2, { content: "By hand." })]);
    const before = await contents();
    await vault.writeMemories("ada", [memoryOf(1, found)]);
    expect(await contents()).toEqual(before);
    expect(Object.keys(before)).toEqual(["000001.md", "000002.md"]);
  });

  it("[E7] moves a file aside that a person gave the name of its number", async () => {
    const vault = newVault();
    await put("000001.md", "By hand.");
    await vault.writeMemories("ada", [memoryOf(1)]);
    expect(await vault.found("ada")).toEqual([{ file: "000001-found.md", content: "By hand." }]);
    expect(warnings).toEqual([
      `${pathOf("000001.md")} was a user's file; it was renamed to ${pathOf("000001-found.md")}`,
    ]);
  });

  it.each(["../profile.md", "/etc/x.md", "a/../../b.md", "..", "a\\b.md", "x.png"])(
    "[E7] has no file outside its folder removed (%s)",
    async (file) => {
      const written = newVault().writeMemories("ada", [memoryOf(1), memoryOf(2, { file })]);
      await expect(written).rejects.toMatchObject({ code: "INVALID_PARAMS" });
      expect(await readdir(folder)).toEqual([]);
    },
  );

  it("[E7] is lost at no call at which the process is killed, and has one file when it is written again", async () => {
    const contentsFound = { "a.md": "A.\n", "b.txt": "B." };
    const log = (found: Awaited<ReturnType<Vault["found"]>>) =>
      found.map((one, at) => memoryOf(at + 2, { ...one, metadata: { via: "file" } }));
    let isKilled = true;
    let calls = 0;
    for (; isKilled; calls += 1) {
      await rm(join(folder, ".rkat"), { recursive: true, force: true });
      await newVault().writeMemories("ada", [memoryOf(1)]);
      for (const [name, text] of Object.entries(contentsFound)) await put(name, text);
      const taken = log(await newVault().found("ada"));
      isKilled = await newVault(dyingAfter(calls))
        .writeMemories("ada", taken)
        .then(
          () => false,
          (error: Error) => error.message === "killed",
        );

      const left = await contents();
      for (const { number, file = "", content } of taken) {
        const whole = left[`00000${number}.md`];
        if (whole === undefined) expect(left[file]).toBe(content);
        else expect(whole.endsWith(`---\n\n${content}`)).toBe(true);
      }
      // What a service does next: files whose memory the log has are written again, then what is missing.
      const vault = newVault();
      const leftOver = await vault.found("ada");
      const known = taken.filter((memory) => leftOver.some(({ file }) => file === memory.file));
      await vault.writeMemories("ada", known);
      const written = await vault.written("ada", 3);
      await vault.writeMemories("ada", taken.slice(Math.max(0, written - 1)));
      expect(Object.keys(await contents())).toEqual(["000001.md", "000002.md", "000003.md"]);
      expect(await vault.found("ada")).toEqual([]);
    }
    expect(calls).toBeGreaterThan(10);
    expect(warnings).toEqual([]);
  });
});

describe("the number up to which memories have files", () => {
  const many = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, at) => memoryOf(from + at));

  it("[E7] is that of the newest, asked without a listing", async () => {
    const io: VaultCalls = { ...nodeVaultCalls, list: () => expect.unreachable("a listing") };
    const vault = newVault(io);
    await vault.writeMemories("ada", many(1, 100));
    expect(await vault.written("ada", 100)).toBe(100);
    expect(await vault.written("ada", 130)).toBe(100);
    expect(await vault.written("ada", 40)).toBe(40);
    expect(await vault.written("ada", 0)).toBe(0);
  });

  it("[E7] is before a gap that writers side by side have left", async () => {
    const vault = newVault();
    await vault.writeMemories("ada", [...many(1, 97), ...many(99, 100)]);
    expect(await vault.written("ada", 100)).toBe(97);
  });

  it("[E7] is found far behind the log, too", async () => {
    const vault = newVault();
    await vault.writeMemories("ada", many(1, 7));
    await put("5.md", "By hand.");
    expect(await vault.written("ada", 1_000_000)).toBe(7);
    expect(await newVault().written("ada", 71)).toBe(7);
    expect(await newVault().written("ada", 70)).toBe(7);
    await rm(pathOf(""), { recursive: true });
    expect(await vault.written("ada", 70)).toBe(0);
  });
});

/** The file system of a process that is killed at a call: a write that is cut off has taken half of its text. */
function dyingAfter(calls: number): VaultCalls {
  let left = calls;
  const live = async <T>(call: () => Promise<T>, last?: () => Promise<unknown>): Promise<T> => {
    left -= 1;
    if (left >= 0) return call();
    if (left === -1) await last?.();
    throw new Error("killed");
  };
  const io = nodeVaultCalls;
  return {
    isLink: io.isLink, // Looking changes nothing, so it is no moment to be killed at.
    makeFolder: (path) => live(() => io.makeFolder(path)),
    list: (path) => live(() => io.list(path)),
    size: (path) => live(() => io.size(path)),
    read: (path) => live(() => io.read(path)),
    write: (path, text) =>
      live(
        () => io.write(path, text),
        () => io.write(path, text.slice(0, text.length / 2)),
      ),
    rename: (from, to) => live(() => io.rename(from, to)),
    remove: (path) => live(() => io.remove(path)),
  };
}
