import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Config } from "@rkat/core/config/config-schema";
import { defaultConfig } from "@rkat/core/config/settings";
import { toNewEntries } from "@rkat/core/state/entry-events";
import { openEmbeddedStore, openRuntime, verifyStore } from "@rkat/node/open-runtime";
import { keyOf } from "@rkat/node/recall-index/posting-page";
import { enableEncryption, inspectSeal, newRealmKey, openSeal } from "@rkat/node/sealed-realm";
import { copyStore } from "@rkat/node/store-places";
import { afterAll, describe, expect, it } from "vitest";
import { createRandom } from "../crash/random.ts";
import { created, said } from "../support/entries.ts";
import { testSeed } from "../support/seed.ts";

const root = mkdtempSync(join(tmpdir(), "rkat-sealed-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const newFolder = () => mkdtempSync(join(root, "folder-"));

const KEY = newRealmKey();
const env = { REALM_KEY: KEY, OTHER_KEY: newRealmKey() };
const encryption: Config["encryption"] = { key_env: "REALM_KEY" };

function optionsFor(stateFolder: string, sealed: Config["encryption"] = encryption) {
  const config = defaultConfig();
  const memory = { ...config.memory, embedder: "hashing" as const };
  return { env, model: "offline", stateFolder, config: { ...config, memory, encryption: sealed } } as const;
}

/** Words that stand nowhere else, one a seed and a number. */
function plantedWords(seed: number, count: number): readonly string[] {
  const random = createRandom(seed);
  const letter = () => "bdfgklmnprstvz"[Math.floor(random() * 14)] ?? "b";
  const vowel = () => "aeiou"[Math.floor(random() * 5)] ?? "a";
  return Array.from({ length: count }, () => Array.from({ length: 5 }, () => letter() + vowel()).join(""));
}

/** Says words in every place that keeps something: sessions, labels, agents, blobs, memory with its vectors. */
async function plant(folder: string, words: readonly string[]): Promise<readonly string[]> {
  const runtime = await openRuntime(optionsFor(folder));
  const word = (at: number) => words[at % words.length] ?? "";
  const ids: string[] = [];
  for (let at = 0; at < words.length; at += 5) {
    const session = await runtime.createSession(`The ${word(at)} met the ${word(at + 1)} near ${word(at + 2)}.`, {
      labels: { [word(at + 3)]: word(at + 4) },
    });
    await session.turn(`Where did the ${word(at)} meet the ${word(at + 1)}?`);
    ids.push(session.id);
  }
  for (const said of words) await runtime.dispatch("remember", { agent: "ann", content: `I saw ${said}.` });
  const [first = ""] = ids;
  const found = await runtime.dispatch("searchHistory", { query: word(0), session_id: first });
  expect(JSON.stringify(found)).toContain(word(0));
  await runtime.close();
  const store = await openEmbeddedStore(folder, { seal: await openSeal(folder, encryption, env) });
  for (const said of words) await store.blobs.put({ mediaType: `text/${said}`, data: Buffer.from(`about ${said}`) });
  for (const id of ids) await store.checkpoints?.put(id, words.join(" "));
  expect(await store.checkpoints?.get(first)).toBe(words.join(" "));
  await store.close();
  return ids;
}

function filesIn(folder: string): readonly string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
}

/** A word in every form it might be written in. */
function formsOf(word: string): readonly Buffer[] {
  const spelled = [word, word.toUpperCase(), `${word[0]?.toUpperCase()}${word.slice(1)}`, word.slice(0, 7)];
  // Base64 has three ways to write a text, by where it begins; the signs at its ends depend on what stands around it.
  const encoded = ["", " ", "  "].map((before) =>
    Buffer.from(before + word)
      .toString("base64")
      .slice(4, -4),
  );
  const term = Buffer.alloc(8);
  term.writeDoubleLE(keyOf(word));
  return [
    ...spelled.flatMap((text) => [Buffer.from(text), Buffer.from(text, "utf16le")]),
    Buffer.from([...word].reverse().join("")),
    Buffer.from(Buffer.from(word).toString("hex")),
    ...encoded.map((text) => Buffer.from(text)),
    term,
  ];
}

/** What every file holds that no opening may change. */
function snapshot(folder: string): ReadonlyMap<string, string> {
  const kept = filesIn(folder).filter((path) => !/leases-|-lock$/.test(path));
  return new Map(kept.map((path) => [path, readFileSync(path).toString("base64")]));
}

describe("a sealed state folder", () => {
  it("[K2] holds none of 50 planted words in any form, name of a file or byte of it", async () => {
    const folder = newFolder();
    const seed = testSeed();
    const words = plantedWords(seed, 50);
    await plant(folder, words);
    const files = filesIn(folder);
    const names = files.map((path) => path.slice(folder.length));
    for (const kept of ["/keys", "/index.db", "/memory/memory.db", "/memory/vectors-1.rows", "/agents/index.db"])
      expect(names).toContain(kept);
    expect(names.filter((name) => name.startsWith("/blobs/"))).toHaveLength(50);
    expect(names.filter((name) => name.startsWith("/checkpoints/")).length).toBeGreaterThan(0);
    const found = files.flatMap((path) => {
      const bytes = Buffer.concat([Buffer.from(path), readFileSync(path)]);
      return words.filter((word) => formsOf(word).some((form) => bytes.includes(form))).map((word) => [path, word]);
    });
    expect({ seed, found }).toEqual({ seed, found: [] });
  });

  it("[K2] is read again by who has the key, also when the index is made anew, and verified", async () => {
    const folder = newFolder();
    const ids = await plant(folder, plantedWords(7, 10));
    for (const name of readdirSync(folder).filter((entry) => entry.startsWith("index.db"))) rmSync(join(folder, name));
    const runtime = await openRuntime(optionsFor(folder));
    expect((await runtime.listSessions()).map(({ sessionId: session_id }) => session_id).sort()).toEqual(
      [...ids].sort(),
    );
    await runtime.close();
    const { problems, agents, blobs } = await verifyStore(folder, { encryption, env });
    expect({ problems, agents, blobs }).toEqual({ problems: [], agents: 1, blobs: 10 });
  });

  it("[K2] with another key, none, or its keys lost is refused in one sentence, and nothing is written", async () => {
    const folder = newFolder();
    await plant(folder, plantedWords(8, 5));
    const before = snapshot(folder);
    const refused = async (sealed: Config["encryption"], sentence: RegExp) => {
      await expect(openRuntime(optionsFor(folder, sealed))).rejects.toMatchObject({
        code: "SESSION_STORE_ERROR",
        message: expect.stringMatching(sentence),
      });
    };
    await refused(
      { key_env: "OTHER_KEY" },
      /^\[encryption\] names another key than this realm's: .+; name the right one, or .+--from-key-file/,
    );
    await refused({}, /^what is kept in .+ is encrypted; name its key in \[encryption\]/);
    expect(snapshot(folder)).toEqual(before);

    const keys = readFileSync(join(folder, "keys"));
    rmSync(join(folder, "keys"));
    await refused(encryption, /keys is missing, and logs are sealed with the keys in it; restore it from a backup$/);
    await refused({}, /is sealed, and the keys of its realm are not there; restore/);
    writeFileSync(join(folder, "keys"), keys);
    expect(snapshot(folder)).toEqual(before);
  });

  it("[K2] that was plain is sealed from when it is enabled: what was said before is read, told of, and sealed by a copy", async () => {
    const [folder, copy] = [newFolder(), join(newFolder(), "copy")];
    const plain = await openRuntime(optionsFor(folder, {}));
    const { id } = await plain.createSession("My name is plainword.");
    await plain.close();
    expect(await enableEncryption(folder, encryption, env)).toBe(true);
    const runtime = await openRuntime(optionsFor(folder));
    expect((await runtime.session(id).turn("What is my name? Say it to sealedword.")).text).toContain("plainword");
    await runtime.close();
    expect(await inspectSeal(folder)).toMatchObject({ isPlainBefore: true, problems: [] });
    const holding = (place: string, word: string) =>
      filesIn(place).filter((path) => !path.includes("/.rkat/") && readFileSync(path).includes(word));
    expect(holding(folder, "sealedword")).toEqual([]);
    expect(holding(folder, "plainword").map((path) => path.slice(folder.length))).toEqual(["/log/00000001.log"]);

    const ways = { fromEncryption: encryption, toEncryption: { key_env: "OTHER_KEY" }, env };
    expect(await copyStore({ place: folder }, { place: copy }, ways)).toMatchObject({ ok: true });
    expect(await inspectSeal(copy)).toMatchObject({ isPlainBefore: false });
    expect(holding(copy, "plainword")).toEqual([]);
    const again = await openRuntime(optionsFor(copy, { key_env: "OTHER_KEY" }));
    expect((await again.session(id).turn("What is my name?")).text).toContain("plainword");
    await again.close();
  });

  it("[K2] that was sealed from its beginning believes nothing plain that was put there since", async () => {
    const [folder, other] = [newFolder(), newFolder()];
    const [id = ""] = await plant(folder, plantedWords(9, 5));
    const log = join(folder, "log/00000001.log");
    const forger = await openEmbeddedStore(other);
    const entries = toNewEntries([created, said("Say what you like.")]);
    await forger.log.append(id, 0, entries);
    const blob = await forger.blobs.put({ mediaType: "text/plain", data: Buffer.from("forged") });
    await forger.close();
    cpSync(join(other, "log/00000001.log"), log);
    cpSync(join(other, "blobs"), join(folder, "blobs"), { recursive: true });
    for (const name of readdirSync(folder).filter((entry) => entry.startsWith("index.db"))) rmSync(join(folder, name));
    const store = await openEmbeddedStore(folder, { seal: await openSeal(folder, encryption, env) });
    await expect(store.log.read(id, 1, 10)).rejects.toThrow(
      `seq 1 of session ${id} is plain, and this realm was always sealed: it was put there since`,
    );
    await expect(store.blobs.get(blob)).rejects.toThrow("is plain, and this realm was always sealed");
    await store.close();
  });

  it("[K2] has no files for people: asked for, they are refused; else they are not written", async () => {
    const folder = newFolder();
    const given = optionsFor(folder);
    const config = { ...given.config, store: { ...given.config.store, files: true } };
    await expect(openRuntime({ ...given, config })).rejects.toMatchObject({
      code: "INVALID_PARAMS",
      message: "store.files is true, and files for people cannot be sealed; remove it, or [encryption]",
    });
    const runtime = await openRuntime(given);
    await runtime.createSession("Hello.");
    await runtime.close();
    expect(existsSync(join(folder, ".rkat"))).toBe(false);
  });

  it("[K2] a byte flipped anywhere is noticed, or is of what is made again: no answer is ever another", async () => {
    const [folder, seed] = [newFolder(), testSeed()];
    const random = createRandom(seed);
    const ids = await plant(folder, plantedWords(seed, 10));
    const warned: string[] = [];
    const warn = (sentence: string): void => void warned.push(sentence);
    const read = async (place: string) => {
      const store = await openEmbeddedStore(place, { seal: await openSeal(place, encryption, env), warn });
      try {
        const logs = await Promise.all(ids.map((id) => store.log.read(id, 1, 1_000)));
        const blobs = await Promise.all((await store.blobs.ids("", 100)).map((id) => store.blobs.get(id)));
        return JSON.stringify({ logs, blobs });
      } finally {
        await store.close();
      }
    };
    const whole = await read(folder);
    for (const path of filesIn(folder).filter((name) =>
      /\/(?:log|blobs|keys|index\.db)/.test(name.slice(folder.length)),
    )) {
      const place = newFolder();
      cpSync(folder, place, { recursive: true });
      const target = join(place, path.slice(folder.length));
      const bytes = readFileSync(target);
      if (bytes.length === 0) continue;
      const at = Math.floor(random() * bytes.length);
      bytes[at] = (bytes[at] ?? 0) ^ (1 << Math.floor(random() * 8));
      writeFileSync(target, bytes);
      warned.length = 0;
      const reported = await read(place).catch((error: Error) => error.message);
      // The end of a log may also be that of an append that was cut off, which whoever opens it is warned of.
      const words = [reported, ...warned].join(" ");
      const isNoticed = reported === whole || /damaged|changed|gone|lacks|missing|is plain/.test(words);
      expect({ seed, path, at, isNoticed, reported: isNoticed ? "" : reported.slice(0, 300) }).toMatchObject({
        isNoticed: true,
      });
    }
  });
});
