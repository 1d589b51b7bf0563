import { hash } from "node:crypto";
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { toNewEntries } from "@rkat/core/state/entry-events";
import { openFolderTarget } from "@rkat/node/backup/backup";
import { encodeRecord } from "@rkat/node/log/record";
import { openEmbeddedStore } from "@rkat/node/open-runtime";
import { backUpStore, restoreBackup, verifyBackup } from "@rkat/node/store-places";
import { afterAll, describe, expect, it } from "vitest";
import { created, idOf, said } from "../support/entries.ts";
import { differenceOf, everythingInFolder, fillRealm } from "./random-store.ts";

const root = mkdtempSync(join(tmpdir(), "rkat-backup-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const newFolder = (): string => mkdtempSync(join(root, "place-"));
const newPlace = (): string => join(newFolder(), "made");

async function filled(seed: number): Promise<string> {
  const folder = newFolder();
  await fillRealm(folder, seed);
  return folder;
}

async function say(folder: string, number: number, text: string): Promise<void> {
  const store = await openEmbeddedStore(folder);
  const end = (await store.sessions.get(idOf(number)))?.last_seq ?? 0;
  await store.log.append(idOf(number), end, toNewEntries(end === 0 ? [created, said(text)] : [said(text)]));
  await store.close();
}

/** As forgetting does it: another file takes the name of the log. */
function rewriteLog(folder: string): void {
  const log = join(folder, "log/00000001.log");
  const kept = toNewEntries([created, said("harmless")]).map((entry, at) => ({
    ...entry,
    seq: at + 1,
    timestamp_ms: 1,
  }));
  writeFileSync(`${log}.new`, encodeRecord(idOf(2), kept));
  renameSync(`${log}.new`, log);
}

const filesIn = (folder: string): readonly string[] =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));

const holders = (folder: string, text: string): readonly string[] =>
  filesIn(folder).filter((path) => readFileSync(path).includes(text));

const copyOf = (place: string, end: string): string => filesIn(place).find((path) => path.endsWith(end)) ?? "";

describe("a back-up", () => {
  it.each([
    ["folder", "made"],
    ["tar", "made.tar"],
  ])("[K2] to a %s is whole, and gives everything back", async (_kind, name) => {
    for (const seed of [1, 2, 3]) {
      const from = await filled(seed);
      const [place, to] = [join(newFolder(), name), newPlace()];
      const report = await backUpStore(from, place);
      expect({ seed, report }).toMatchObject({ seed, report: { ok: true, problems: [], dropped: 0 } });
      expect(await verifyBackup(place)).toMatchObject({
        sessions: 12,
        agents: 2,
        blobs: 5,
        leftovers: 0,
        problems: [],
      });
      const restored = await restoreBackup(place, to);
      expect(restored).toMatchObject({ to, resumed: 0, verified: { sessions: 12, agents: 2, blobs: 5, problems: [] } });
      expect(differenceOf(await everythingInFolder(from), await everythingInFolder(to))).toBeUndefined();
      for (const path of ["config.toml", "tokens/web.json", `.rkat/agents/agent-1/notes/${"long ".repeat(30)}ü.md`])
        expect(readFileSync(join(to, path))).toEqual(readFileSync(join(from, path)));
    }
  });

  it("[K2] holds nothing that is derived, nor what holds only while a process runs", async () => {
    const from = await filled(4);
    for (const path of ["memory/memory.db", "checkpoints/x", ".rkat/sessions/a/events.jsonl", "agents/checkpoints/x"]) {
      mkdirSync(join(from, path, ".."), { recursive: true });
      writeFileSync(join(from, path), "derived");
    }
    const place = newPlace();
    await backUpStore(from, place);
    expect(holders(place, "derived")).toEqual([]);
    expect(filesIn(place).filter((path) => /index\.db|leases-|config-lock/.test(path))).toEqual([]);
  });

  it("[K2] a second time copies what was added, and the end of what grew", async () => {
    const from = await filled(5);
    const place = newPlace();
    const first = await backUpStore(from, place);
    expect(first.copied).toEqual({ files: first.files, bytes: first.bytes });
    expect(await backUpStore(from, place)).toMatchObject({
      copied: { files: 0, bytes: 0 },
      dropped: 0,
      bytes: first.bytes,
    });
    await say(from, 1, "and one line more");
    const store = await openEmbeddedStore(from);
    await store.blobs.put({ mediaType: "text/plain", data: Buffer.from("a new blob") });
    await store.close();
    const third = await backUpStore(from, place);
    expect(third.copied).toEqual({ files: 2, bytes: third.bytes - first.bytes });
    const to = newPlace();
    await restoreBackup(place, to);
    expect(differenceOf(await everythingInFolder(from), await everythingInFolder(to))).toBeUndefined();
  });

  it("[K2] brought up to date holds nothing that was forgotten: logs rewritten, blobs and files removed", async () => {
    const from = newFolder();
    await say(from, 1, "the secret word is heron");
    await say(from, 2, "harmless");
    const store = await openEmbeddedStore(from);
    const blob = await store.blobs.put({ mediaType: "text/plain", data: Buffer.from("a heron as a blob") });
    await store.close();
    writeFileSync(join(from, "config.toml"), '# heron\n[agent]\nmodel = "offline"\n');
    const place = newPlace();
    await backUpStore(from, place);
    expect(holders(place, "heron")).toHaveLength(3);
    rewriteLog(from);
    const digits = blob.slice("sha256:".length);
    rmSync(join(from, "blobs", digits.slice(0, 2), digits));
    writeFileSync(join(from, "config.toml"), '[agent]\nmodel = "offline"\n');
    const report = await backUpStore(from, place);
    expect(report).toMatchObject({ ok: true, dropped: 3 });
    expect(holders(place, "heron")).toEqual([]);
    expect(await verifyBackup(place)).toMatchObject({ sessions: 1, blobs: 0, leftovers: 0, problems: [] });
  });

  it.each(["made", "made.tar"])(
    "[K2] to %s is of one state, also where something is forgotten while it is made",
    async (name) => {
      const from = newFolder();
      await say(from, 1, "the secret word is heron");
      const place = join(newFolder(), name);
      let rounds = 0;
      const report = await backUpStore(from, place, {
        progress: (done, total) => {
          if (done !== total) return;
          rounds += 1;
          if (rounds === 1) rewriteLog(from);
        },
      });
      expect({ rounds, report }).toMatchObject({ rounds: 2, report: { ok: true } });
      expect(holders(join(place, ".."), "heron")).toEqual([]);
      expect(await verifyBackup(place)).toMatchObject({ sessions: 1, problems: [] });
      const always = backUpStore(from, place, { progress: () => rewriteLog(from) });
      await expect(always).rejects.toThrow("is replaced again and again; back up when that is over");
      expect((await verifyBackup(place)).problems).toEqual([]);
    },
  );

  it("[K2] of a log whose end is being written takes the records that are whole", async () => {
    const from = newFolder();
    await say(from, 1, "whole");
    const whole = statSync(join(from, "log/00000001.log")).size;
    appendFileSync(join(from, "log/00000001.log"), Buffer.alloc(30, 7));
    const place = newPlace();
    const report = await backUpStore(from, place);
    expect(report.problems).toEqual([expect.stringMatching(/^log\/00000001.log: the last 30 bytes are no record/)]);
    expect(statSync(copyOf(place, "00000001.log")).size).toBe(whole);
    expect((await verifyBackup(place)).problems).toEqual([]);
    truncateSync(join(from, "log/00000001.log"), whole);
    await say(from, 1, "more");
    expect(await backUpStore(from, place)).toMatchObject({ ok: true, copied: { files: 1 } });
    expect((await verifyBackup(place)).problems).toEqual([]);
  });

  it("[K2] tells damage of the realm, and never puts it in the place of a copy that is sound", async () => {
    const from = newFolder();
    for (const number of [1, 2, 3]) await say(from, number, `said ${number}`);
    const place = newPlace();
    await backUpStore(from, place);
    const log = join(from, "log/00000001.log");
    const damaged = readFileSync(log);
    damaged.writeUInt8(damaged.readUInt8(100) ^ 1, 100);
    writeFileSync(log, damaged);
    await expect(backUpStore(from, place)).rejects.toThrow("has a copy of log/00000001.log that is sound");
    expect((await verifyBackup(place)).problems).toEqual([]);
    const other = newPlace();
    const report = await backUpStore(from, other);
    expect(report).toMatchObject({ ok: false, problems: [expect.stringContaining("are no record")] });
    expect((await restoreBackup(other, newPlace())).verified?.problems).not.toEqual([]);
  });

  it("[K2] leaves a link of the realm out, and says so", async () => {
    const from = await filled(6);
    symlinkSync("/etc/hostname", join(from, ".rkat/agents/agent-1/profile.md"));
    const report = await backUpStore(from, newPlace());
    expect(report).toMatchObject({ ok: false, problems: [expect.stringContaining("profile.md is a link")] });
  });

  it("[K2] is refused where it would harm: other things, another realm, itself, a place in use", async () => {
    const [from, other] = [await filled(7), await filled(8)];
    const place = newPlace();
    await backUpStore(from, place);
    await expect(backUpStore(other, place)).rejects.toThrow("holds a back-up of another realm");
    const full = newFolder();
    writeFileSync(join(full, "thesis.txt"), "years of work");
    await expect(backUpStore(from, full)).rejects.toThrow("holds other things (thesis.txt)");
    writeFileSync(`${full}.tar`, "years of work");
    await expect(backUpStore(from, `${full}.tar`)).rejects.toThrow("is no back-up that can be read; delete it");
    expect(readFileSync(`${full}.tar`, "utf8")).toBe("years of work");
    await expect(backUpStore(from, join(from, "copy"))).rejects.toThrow("lies in");
    await expect(backUpStore(newFolder(), newPlace())).rejects.toThrow("nothing is kept in");
    await expect(backUpStore(from, "postgres://me:hush@db/x")).rejects.toThrow(
      /^a back-up is a folder or a file NAME.tar/,
    );
    await expect(backUpStore(from, "x.tar.gz")).rejects.toThrow("a back-up is not packed");
    const held = openFolderTarget(place);
    await expect(backUpStore(from, place)).rejects.toThrow(/^another back-up to .* is being made; wait for it/);
    await expect(verifyBackup(place)).rejects.toThrow("is being made; wait for it");
    await held.close();
    expect(await backUpStore(from, place)).toMatchObject({ ok: true });
  });

  it("[K2] two at once to one place are one that is made and one that is refused, and to two places both", async () => {
    const from = await filled(9);
    const [place, second] = [newPlace(), newPlace()];
    const [one, other, third] = await Promise.allSettled([place, place, second].map((to) => backUpStore(from, to)));
    expect([one?.status, other?.status].sort()).toEqual(["fulfilled", "rejected"]);
    expect(third?.status).toBe("fulfilled");
    for (const to of [place, second]) expect((await verifyBackup(to)).problems).toEqual([]);
  });
});

describe("a back-up that was tampered with", () => {
  const changes: readonly (readonly [what: string, change: (place: string) => void, sentence: string])[] = [
    ["a byte of a log", (place) => flip(copyOf(place, "00000001.log"), 60), "is not what was backed up"],
    [
      "a byte of a blob",
      (place) => flip(filesIn(join(place, "files")).find((path) => path.includes("/blobs/")) ?? "", 3),
      "is not what was backed up",
    ],
    ["a file that is cut", (place) => truncateSync(copyOf(place, "config.toml"), 3), "has 3 of"],
    ["a file that is gone", (place) => rmSync(copyOf(place, "config.toml")), "is missing"],
  ];
  it.each(changes)(
    "[K2] %s is found by the check and by a restore, which leaves nothing in the place",
    async (_what, change, sentence) => {
      const place = newPlace();
      await backUpStore(await filled(10), place);
      change(place);
      const { problems } = await verifyBackup(place);
      expect(problems[0]).toContain(sentence);
      const to = newPlace();
      await expect(restoreBackup(place, to)).rejects.toThrow("rkat backup verify says more");
      expect(existsSync(to)).toBe(false);
    },
  );

  it("[K2] what the check names is mended by deleting it and backing up again", async () => {
    const [from, place] = [await filled(11), newPlace()];
    await backUpStore(from, place);
    flip(copyOf(place, "00000001.log"), 60);
    rmSync(copyOf(place, "00000001.log"));
    expect(await backUpStore(from, place)).toMatchObject({ copied: { files: 1 } });
    expect((await verifyBackup(place)).problems).toEqual([]);
  });

  it("[K2] links and paths that lead out of it are refused, whoever wrote the manifest", async () => {
    const from = await filled(12);
    const place = newPlace();
    await backUpStore(from, place);
    const manifest = join(place, "manifest.jsonl");
    const text = readFileSync(manifest, "utf8");
    const forge = (change: (body: string) => string): void => {
      const body = change(text.split("\n")[1] ?? "");
      writeFileSync(manifest, `${JSON.stringify({ sha256: hash("sha256", body) })}\n${body}\n`);
    };
    for (const path of [
      "../config.toml",
      "/etc/config.toml",
      "a/../../x",
      "",
      "a//b",
      "./x",
      "index.db",
      "memory/x",
      "leases-x.db",
    ]) {
      forge((body) => body.replace('"path":"config.toml"', `"path":${JSON.stringify(path)}`));
      await expect(restoreBackup(place, newPlace())).rejects.toThrow("names a file that no state folder has");
    }
    const entry = /"path":"config.toml","serial":1,"bytes":\d+,/;
    for (const wrong of [
      '"serial":99,"bytes":1,',
      '"serial":1,"bytes":-1,',
      '"serial":1,"bytes":"1",',
      '"serial":1,',
    ]) {
      forge((body) => body.replace(entry, `"path":"config.toml",${wrong}`));
      await expect(verifyBackup(place)).rejects.toThrow("names a file that no state folder has");
    }
    for (const odd of [
      "",
      "{}",
      "[]\n[]\n",
      text.slice(0, -9),
      `${text}more`,
      text.replace('"serial":1', '"serial":2'),
    ]) {
      writeFileSync(manifest, odd);
      await expect(verifyBackup(place)).rejects.toThrow(/^the manifest of .*; use another back-up$/);
    }
    writeFileSync(manifest, text);
    const secret = join(newFolder(), "secret");
    writeFileSync(secret, "not to be read");
    const copy = copyOf(place, "config.toml");
    rmSync(copy);
    symlinkSync(secret, copy);
    for (const refused of [verifyBackup(place), restoreBackup(place, newPlace()), backUpStore(from, place)])
      await expect(refused).rejects.toThrow("no back-up has links; remove it");
    expect(readFileSync(secret, "utf8")).toBe("not to be read");
  });
});

function flip(path: string, at: number): void {
  const bytes = readFileSync(path);
  bytes.writeUInt8(bytes.readUInt8(at) ^ 1, at);
  writeFileSync(path, bytes);
}
