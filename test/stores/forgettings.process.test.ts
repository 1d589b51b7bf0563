import { randomUUID } from "node:crypto";
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync, zstdCompressSync } from "node:zlib";
import { createInMemoryStore } from "@rkat/core/create-runtime";
import { verifyReceipt } from "@rkat/core/stores/receipts";
import { createForgettingFiles } from "@rkat/node/log/forgetting-files";
import { scanFolder } from "@rkat/node/log/scan-folder";
import { openEmbeddedStore } from "@rkat/node/open-runtime";
import { afterAll, describe, expect, it } from "vitest";
import { describeForgettings } from "../contract/forgettings.ts";
import type { OpenStore } from "../contract/store.ts";
import { lookFor } from "../forget/look.ts";
import { databaseFor, withPostgres } from "../support/postgres.ts";
import { openPostgresStore } from "../support/postgres-store.ts";

const root = mkdtempSync(join(tmpdir(), "rkat-forgettings-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const newFolder = (): string => mkdtempSync(join(root, "realm-"));

let database: Promise<string> | undefined;
function postgresPlace(): OpenStore {
  const realm = randomUUID();
  return async () => {
    database ??= databaseFor("forgettings");
    return openPostgresStore({ url: await database, realm });
  };
}

describeForgettings("in memory", () => {
  const store = createInMemoryStore();
  return async () => store;
});
describeForgettings("in a folder", () => {
  const folder = newFolder();
  return () => openEmbeddedStore(folder);
});
withPostgres("in a database", () => {
  describeForgettings("in a database", postgresPlace);

  it("[D9] look at what a process keeps beside its database, and not at other realms", async () => {
    const url = await databaseFor("beside");
    const folder = newFolder();
    writeFileSync(join(folder, "copy.txt"), "The Blue Heron flew.");
    const other = await openPostgresStore({ url, realm: "other" });
    await other.blobs.put({ mediaType: "text/plain", data: Buffer.from("The Blue Heron flew.") });
    const store = await openPostgresStore({ url, realm: "ours", folder });
    await store.blobs.put({ mediaType: "text/plain", data: Buffer.from("A grey one.") });
    expect((await store.forgettings?.scan(["blue heron"]))?.matches).toEqual([
      { place: "copy.txt", text: 0, form: "plain" },
    ]);
    const theirs = await other.forgettings?.scan(["blue heron"]);
    expect(theirs?.matches.map(({ place }) => place.split(" ")[0])).toEqual(["rkat.blobs"]);
    await Promise.all([store.close(), other.close()]);
  });
});

describe("forgettings in a folder", () => {
  const SECRET = "the heron's name is Ottilie";
  const filesIn = (folder: string, warn = (_sentence: string): void => {}) => createForgettingFiles({ folder, warn });

  it("[D9] leave nothing of a job behind, nor of one that another has taken the place of", async () => {
    const folder = newFolder();
    const kept = filesIn(folder);
    await kept.begin("one", SECRET);
    expect(lookFor(folder, [SECRET])).toHaveLength(1);
    await kept.begin("one", "something else");
    expect(lookFor(folder, [SECRET])).toEqual([]);
    await kept.begin("one", SECRET);
    await kept.end("one");
    expect(lookFor(folder, [SECRET])).toEqual([]);
    expect(readdirSync(join(folder, "forgettings", "jobs"))).toEqual([]);
  });

  it("[D9] take away what a process left when it ended in the middle, before they look", async () => {
    const folder = newFolder();
    const kept = filesIn(folder);
    await kept.begin("one", SECRET);
    const jobs = join(folder, "forgettings", "jobs");
    const [name = ""] = readdirSync(jobs);
    for (const left of [`${name}.new`, `${name}.ended`]) writeFileSync(join(jobs, left), SECRET.slice(0, 20));
    await kept.scan([SECRET]);
    expect(readdirSync(jobs)).toEqual([name]);
    expect(await kept.unfinished()).toEqual([{ id: "one", job: SECRET }]);
    truncateSync(join(jobs, name), 10);
    await expect(kept.unfinished()).rejects.toMatchObject({ code: "SESSION_STORE_ERROR" });
  });

  it("[D9] tell of a receipt that was torn, keep the others, and go on after it", async () => {
    const folder = newFolder();
    const sentences: string[] = [];
    const kept = filesIn(folder, (sentence) => sentences.push(sentence));
    for (const receipt of ["1", "2"]) await kept.keep(receipt);
    const path = join(folder, "forgettings", "receipts.jsonl");
    truncateSync(path, statSync(path).size - 10);
    expect((await kept.receipts()).map(({ receipt }) => receipt)).toEqual(["1"]);
    expect(sentences).toEqual([`${path} has a line that cannot be read`]);
    await kept.keep("3");
    expect((await kept.receipts()).map(({ receipt }) => receipt)).toEqual(["1", "3"]);
  });

  it("[D9] keep the key from others, and say so when it is none", async () => {
    const folder = newFolder();
    const kept = filesIn(folder);
    await kept.keep("1");
    const path = join(folder, "forgettings", "key.pem");
    expect(statSync(path).mode & 0o777).toBe(0o600);
    writeFileSync(path, "no key");
    await expect(kept.keep("2")).rejects.toMatchObject({
      code: "SESSION_STORE_ERROR",
      message: `${path} holds no key to sign with; put the realm's key back, or delete the file for a new one`,
    });
    expect((await kept.receipts()).map(({ receipt }) => receipt)).toEqual(["1"]);
  });

  it("[D9] are one for two who write at once", async () => {
    const folder = newFolder();
    const [one, two] = [filesIn(folder), filesIn(folder)];
    const numbers = Array.from({ length: 40 }, (_, at) => String(at));
    await Promise.all(numbers.map((number) => (Number(number) % 2 === 0 ? one : two).keep(number)));
    const receipts = await one.receipts();
    expect(new Set(receipts.map(({ receipt }) => receipt))).toEqual(new Set(numbers));
    expect(new Set(receipts.map(({ public_key }) => public_key)).size).toBe(1);
  });
});

describe("a scan of a folder", () => {
  it("[D9] looks at names, at what is packed, and at blobs that are; and an independent look agrees", async () => {
    const folder = newFolder();
    const text = "Ottilie Heron";
    // Enough that no letter stands in the packed file as it is.
    const numbers = Array.from({ length: 2_000 }, (_, at) => `${at * at}: heron or owl`).join(" ");
    mkdirSync(join(folder, "a", "ottilie heron"), { recursive: true });
    writeFileSync(join(folder, "a", "ottilie heron", "empty"), "");
    writeFileSync(join(folder, "b.gz"), gzipSync(`${"x".repeat(5_000)} ${text}`));
    writeFileSync(join(folder, "c.zst"), zstdCompressSync(Buffer.from(`${numbers} ${text}`, "utf16le")));
    writeFileSync(join(folder, "cut.gz"), gzipSync(`${text} ${"y".repeat(200_000)}`).subarray(0, 150));
    writeFileSync(join(folder, "no.gz"), Buffer.from([0x1f, 0x8b, 0x08, 0, 1, 2, 3]));
    writeFileSync(join(folder, "plain.txt"), "Nobody's name.");
    const store = await openEmbeddedStore(folder);
    const id = await store.blobs.put({ mediaType: "application/gzip", data: gzipSync(text) });
    await store.close();
    const { matches } = await scanFolder({ folder, texts: [text, "Ottilie Owl"] });
    const hash = id.slice("sha256:".length);
    expect(matches).toEqual([
      { place: "a/ottilie heron", text: 0, form: "name" },
      { place: "b.gz", text: 0, form: "gzip" },
      { place: `blobs/${hash.slice(0, 2)}/${hash}`, text: 0, form: "gzip" },
      { place: "c.zst", text: 0, form: "zstd, utf-16" },
      { place: "cut.gz", text: 0, form: "gzip" },
    ]);
    const seen = new Set(lookFor(folder, [text, "Ottilie Owl"]).map(({ file }) => file));
    // It does not open what was cut off.
    expect(seen).toEqual(new Set(matches.map(({ place }) => place).filter((place) => place !== "cut.gz")));
  });

  it("[D9] lets the process go on meanwhile, and finds what lies across two readings", async () => {
    const folder = newFolder();
    const bytes = Buffer.alloc(3 * 1_024 * 1_024, "lorem ipsum ");
    bytes.write("Ottilie Heron", 256 * 1_024 - 6);
    writeFileSync(join(folder, "large"), bytes);
    let turns = 0;
    const timer = setInterval(() => {
      turns += 1;
    }, 1);
    const { matches, places, bytes: looked } = await scanFolder({ folder, texts: ["ottilie heron"] });
    clearInterval(timer);
    expect(matches).toEqual([{ place: "large", text: 0, form: "plain" }]);
    expect({ places, looked }).toEqual({ places: 1, looked: bytes.length });
    expect(turns).toBeGreaterThan(2);
  });
});

describe("a receipt", () => {
  it("[D9] is what was signed, to the byte, or is not", async () => {
    const folder = newFolder();
    const kept = createForgettingFiles({ folder, warn: () => {} });
    const signed = await kept.keep('{"forgot": ["a"]}');
    const other = await createForgettingFiles({ folder: newFolder(), warn: () => {} }).keep(signed.receipt);
    expect(verifyReceipt(signed)).toBe(true);
    const forged = [
      { ...signed, receipt: '{"forgot":["a"]}' },
      { ...signed, receipt: `${signed.receipt} ` },
      { ...signed, signature: other.signature },
      { ...signed, signature: "" },
      { ...signed, signature: `${signed.signature}\n` },
      { ...signed, signature: "not base64 at all" },
      { ...signed, public_key: other.public_key },
      { ...signed, public_key: "" },
      { ...signed, public_key: readFileSync(join(folder, "forgettings", "key.pem"), "utf8").slice(0, 40) },
    ];
    expect(forged.map(verifyReceipt)).toEqual(forged.map(() => false));
  });
});
