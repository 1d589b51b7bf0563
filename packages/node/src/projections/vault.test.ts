import { mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { VaultTiers } from "@rkat/core/ports/vault";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createVault, nodeVaultCalls } from "./vault.ts";

let folder: string;
let warnings: string[];

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "rkat-vault-"));
  warnings = [];
});
afterEach(() => rm(folder, { recursive: true }));

const newVault = (io = nodeVaultCalls) => createVault({ folder, io, warn: (sentence) => warnings.push(sentence) });
const pathOf = (...names: string[]): string => join(folder, ".rkat", "agents", "ada", ...names);
const textIn = (...names: string[]): Promise<string> => readFile(pathOf(...names), "utf8");

async function put(text: string | Uint8Array, ...names: string[]): Promise<void> {
  await mkdir(dirname(pathOf(...names)), { recursive: true });
  await writeFile(pathOf(...names), text);
}

const tiersOf = (from: number, to: number, more: Partial<VaultTiers> = {}): VaultTiers => ({
  compacted_at_ms: Date.UTC(2026, 0, 2, 3, 4, 5, 678),
  recent: { summary: `Ada saw ${from} to ${to}.`, from, to, by: "model" },
  ...more,
});

describe("summaries in the vault", () => {
  it("[E3] are written with what they cover, and the short-term one is copied under its time", async () => {
    const longterm = { summary: "Ada was born.\n", from: 1, to: 64, by: "extractive" } as const;
    await newVault().writeSummaries("ada", tiersOf(65, 128, { longterm }));
    const recent =
      "---\nagent: ada\nfrom: 65\nto: 128\nby: model\ncreated_at: 2026-01-02T03:04:05.678Z\n---\n\nAda saw 65 to 128.\n";
    expect(await readdir(pathOf("summaries"))).toEqual(["longterm.md", "recent-20260102-030405.md", "recent.md"]);
    expect(await textIn("summaries", "recent.md")).toBe(recent);
    expect(await textIn("summaries", "recent-20260102-030405.md")).toBe(recent);
    expect(await textIn("summaries", "longterm.md")).toBe(
      "---\nagent: ada\nfrom: 1\nto: 64\nby: extractive\ncreated_at: 2026-01-02T03:04:05.678Z\n---\n\nAda was born.\n",
    );
  });

  it("[E3] keep a copy each when they are made in the same second, and one copy when written again", async () => {
    const vault = newVault();
    for (const tiers of [tiersOf(1, 64), tiersOf(65, 128), tiersOf(129, 192), tiersOf(65, 128), tiersOf(1, 64)]) {
      await vault.writeSummaries("ada", tiers);
    }
    const copies = ["recent-20260102-030405.md", "recent-20260102-030405-2.md", "recent-20260102-030405-3.md"];
    expect((await readdir(pathOf("summaries"))).sort()).toEqual([...copies, "recent.md"].sort());
    const texts = await Promise.all(copies.map((copy) => textIn("summaries", copy)));
    expect(texts.map((text) => text.split("\n").at(-2))).toEqual([
      "Ada saw 1 to 64.",
      "Ada saw 65 to 128.",
      "Ada saw 129 to 192.",
    ]);
  });

  it("[E3] leave the copies of other times, and a long-term summary that there is none for", async () => {
    const vault = newVault();
    const longterm = { summary: "Ada was born.", from: 1, to: 64, by: "model" } as const;
    await vault.writeSummaries("ada", tiersOf(65, 128, { longterm }));
    await vault.writeSummaries("ada", tiersOf(129, 192, { compacted_at_ms: Date.UTC(2026, 0, 2, 3, 4, 6) }));
    expect(await readdir(pathOf("summaries"))).toEqual([
      "longterm.md",
      "recent-20260102-030405.md",
      "recent-20260102-030406.md",
      "recent.md",
    ]);
    expect(await textIn("summaries", "longterm.md")).toContain("Ada was born.");
  });

  it("[E7] that are there already are not written again, and spoilt ones are", async () => {
    const longterm = { summary: "Ada was born.", from: 1, to: 64, by: "model" } as const;
    const tiers = tiersOf(65, 128, { longterm });
    await newVault().writeSummaries("ada", tiers);
    const before = await textIn("summaries", "recent.md");
    const writes: string[] = [];
    const io = {
      ...nodeVaultCalls,
      write: (path: string, text: string) => {
        writes.push(path);
        return nodeVaultCalls.write(path, text);
      },
    };
    await newVault(io).writeSummaries("ada", tiers);
    expect(writes).toEqual([]);
    await put("half a su", "summaries", "recent.md");
    await newVault(io).writeSummaries("ada", tiers);
    expect(await textIn("summaries", "recent.md")).toBe(before);
    expect(writes).toEqual([pathOf("summaries", "recent.md.tmp")]);
  });

  it("[E7] are for their owner only, like their folders", async () => {
    const vault = newVault();
    await vault.writeSummaries("ada", tiersOf(1, 64));
    await vault.writeMemories("ada", [{ number: 1, content: "It rained.", created_at_ms: 0 }]);
    await vault.writeNote("ada", { number: 1, content: "Bring a coat." });
    const modeOf = async (path: string) => (await stat(path)).mode & 0o777;
    const folders = [join(folder, ".rkat"), pathOf(), pathOf("summaries"), pathOf("memories"), pathOf("notes")];
    const files = [pathOf("summaries", "recent.md"), pathOf("memories", "000001.md"), pathOf("notes", "000001.md")];
    expect(await Promise.all(folders.map(modeOf))).toEqual(folders.map(() => 0o700));
    expect(await Promise.all(files.map(modeOf))).toEqual(files.map(() => 0o600));
  });
});

describe("what a person writes about an agent", () => {
  it("[E7] is empty without a folder, and asking makes none", async () => {
    const vault = newVault();
    expect(await vault.texts("ada")).toEqual({ commands: [], notes: [] });
    expect(await vault.found("ada")).toEqual([]);
    expect(await vault.written("ada", 100)).toBe(0);
    expect(await readdir(folder)).toEqual([]);
  });

  it("[E7] is read: profile, commands, and notes by name, without those of the log", async () => {
    const vault = newVault();
    await put("---\nauthor: me\n---\n\nA miller,\nborn in 1815.\n", "profile.md");
    await put("# Commands\n\nYou may:\n\n- look\n* go <exit>\n  - say <words>\n", "commands.md");
    await put("---\ntitle: 'Of mills'\n---\n# Other\nThey turn.\n", "notes", "10.md");
    await put("Some prose.\n\n# Of weather #1\n\nIt rains.\n", "notes", "2.md");
    await put("They bark.", "notes", "dogs.md");
    await put("By date.", "notes", "20260102.md");
    await put("not a note", "notes", "notes.txt");
    await put(" \n", "notes", "empty.md");
    await put("of another program", "notes", "._dogs.md");
    await vault.writeNote("ada", { number: 1, title: "Of\ncoats", content: "---\nBring one.\n" });
    await vault.writeNote("ada", { number: 2, content: "No title." });
    expect(await vault.texts("ada")).toEqual({
      profile: "A miller,\nborn in 1815.",
      commands: ["look", "go <exit>", "say <words>"],
      notes: [
        { title: "Of weather #1", content: "Some prose.\n\n# Of weather #1\n\nIt rains.\n" },
        { title: "Of mills", content: "# Other\nThey turn.\n" },
        { title: "20260102", content: "By date." },
        { title: "dogs", content: "They bark." },
      ],
    });
    expect(await textIn("notes", "000001.md")).toBe('---\nseq: 1\ntitle: "Of\\ncoats"\n---\n\n---\nBring one.\n');
    expect(await textIn("notes", "000002.md")).toBe("---\nseq: 2\n---\n\nNo title.");
    expect(warnings).toEqual([]);
  });

  it("[E7] lists commands by line where there is no list", async () => {
    await put("# Commands\nlook\r\n\r\n  go <exit>  \n", "commands.md");
    await put(" \n", "profile.md");
    expect(await newVault().texts("ada")).toEqual({ commands: ["look", "go <exit>"], notes: [] });
  });

  it("[E7] is left out when it is a link or no text, and told of once", async () => {
    await put("secret", "elsewhere.txt");
    await symlink(pathOf("elsewhere.txt"), pathOf("profile.md"));
    await put(Uint8Array.of(0x61, 0xff), "commands.md");
    const vault = newVault();
    expect(await vault.texts("ada")).toEqual({ commands: [], notes: [] });
    expect(await vault.texts("ada")).toEqual({ commands: [], notes: [] });
    expect(warnings).toEqual([`${pathOf("commands.md")} is left out: it is not UTF-8`]);
  });
});

describe("the vault", () => {
  it.each(["../x", "..", "", "a/b", "a\\b", ".hidden", "a\0b", "x".repeat(65)])(
    "[E7] has no folder for %j, which is no name",
    async (agent) => {
      const vault = newVault();
      const calls = [
        vault.texts(agent),
        vault.found(agent),
        vault.written(agent, 1),
        vault.writeMemories(agent, []),
        vault.writeNote(agent, { number: 1, content: "x" }),
        vault.writeSummaries(agent, tiersOf(1, 64)),
      ];
      for (const call of calls) await expect(call).rejects.toMatchObject({ code: "INVALID_PARAMS" });
      expect(await readdir(folder)).toEqual([]);
    },
  );

  it("[E7] knows a name however it is typed", async () => {
    const vault = newVault();
    await vault.writeNote("Zoe\u0308", { number: 1, content: "x" });
    expect(await readdir(join(folder, ".rkat", "agents"))).toEqual(["Zo\u00eb"]);
  });

  it("[E7] says nothing when another process has put the same file in place", async () => {
    const io = {
      ...nodeVaultCalls,
      rename: async (from: string, to: string) => {
        await nodeVaultCalls.rename(from, to);
        await nodeVaultCalls.rename(from, to);
      },
    };
    await newVault(io).writeNote("ada", { number: 1, content: "x" });
    expect(await readdir(pathOf("notes"))).toEqual(["000001.md"]);
  });

  it("[E7] passes on what a disk says", async () => {
    await put("a file", "memories");
    await expect(newVault().found("ada")).rejects.toThrow("ENOTDIR");
    const memory = { number: 1, content: "x", created_at_ms: 0 };
    await expect(newVault().writeMemories("ada", [memory])).rejects.toThrow("EEXIST");
  });
});
