import { randomBytes } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { defaultConfig } from "@rkat/core/config/settings";
import type { Runtime } from "@rkat/core/create-runtime";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { openRuntime, verifyStore } from "@rkat/node/open-runtime";
import { afterAll, describe, expect, it } from "vitest";
import { lookFor } from "./look.ts";
import { createTalkingModel, embedder, lookUp, OFTEN } from "./planted-secrets.ts";

const root = mkdtempSync(join(tmpdir(), "rkat-forget-unhappy-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const TIMEOUT_MS = 240_000;
const newFolder = (): string => mkdtempSync(join(root, "state-"));
const base = {
  model: createTalkingModel(),
  compaction: OFTEN,
  memory: { embedder },
  tools: [lookUp],
  toolPreset: "none",
  env: {},
} as const;
const openIn = (stateFolder: string): Promise<Runtime> => openRuntime({ ...base, stateFolder });
const env = { RKAT_SEAL: randomBytes(32).toString("hex") };
const config = { ...defaultConfig(), encryption: { key_env: "RKAT_SEAL" } };
const openSealed = (stateFolder: string): Promise<Runtime> => openRuntime({ ...base, env, config, stateFolder });

const withoutFiles = { ...defaultConfig(), store: { ...defaultConfig().store, files: false } };
const openWithoutFiles = (stateFolder: string): Promise<Runtime> =>
  openRuntime({ ...base, stateFolder, config: withoutFiles });

const LEAK = "Marit Ødegård was born on 4 May 1971 in Ålesund";

/** Lets a realm sign nothing until what comes back is called. */
function breakKey(folder: string): () => void {
  const path = join(folder, "forgettings/key.pem");
  const key = readFileSync(path);
  writeFileSync(path, "no key");
  return () => writeFileSync(path, key);
}

describe("forgetting where something stands in its way", { timeout: TIMEOUT_MS }, () => {
  it("[D9] what a rewrite put into a transcript goes with its copies in forks, and is listed before", async () => {
    const folder = newFolder();
    const runtime = await openIn(folder);
    const session = await runtime.createSession("Good morning.");
    await session.turn("The harbour is teal.");
    const { messages: before } = await runtime.dispatch("readHistory", { session_id: session.id });
    const at = before.findIndex((message) => JSON.stringify(message).includes("teal"));
    await runtime.dispatch("rewriteTranscript", {
      session_id: session.id,
      selection: { type: "message_range", start: at, end: at + 1 },
      replacement: [{ role: "user", content: `${LEAK}.` }],
      reason: { kind: "correction" },
    });
    const fork = await runtime.dispatch("forkSession", { session_id: session.id, message_index: before.length });
    const { messages } = await runtime.dispatch("readHistory", { session_id: session.id });
    const { seq = 0 } = messages[at] ?? {};
    const dry = await runtime.dispatch("forget", { session_id: session.id, seq, dry_run: true });
    expect(dry.going.map(({ session_id, excerpt }) => [session_id, excerpt])).toEqual([
      [session.id, `${LEAK}.`],
      [fork.session_id, `${LEAK}.`],
    ]);
    const { receipt } = await runtime.dispatch("forget", { session_id: session.id, seq });
    expect(receipt).toMatchObject({ scan: { texts: 1, matches: 0 }, quoted_in: [] });
    await runtime.close();
    expect(lookFor(folder, ["Marit Ødegård"])).toEqual([]);
    expect((await verifyStore(folder)).problems).toEqual([]);
  });

  it("[D9] a process that writes no files for people erases from those that are there, also half-written ones", async () => {
    const folder = newFolder();
    const first = await openIn(folder);
    const session = await first.createSession(`${LEAK}.`, { labels: { about: LEAK } });
    await first.dispatch("remember", { agent: "ada", content: `${LEAK}.` });
    await first.close();
    const files = join(folder, ".rkat", "sessions", session.id);
    const memories = join(folder, ".rkat", "agents", "ada", "memories");
    for (const path of [join(files, "summary.txt.tmp"), join(memories, "000001.md.tmp")]) writeFileSync(path, LEAK);
    expect(new Set(lookFor(join(folder, ".rkat"), [LEAK]).map(({ file }) => basename(file)))).toEqual(
      new Set(["events.jsonl", "session.json", "summary.txt.tmp", "000001.md", "000001.md.tmp"]),
    );
    const second = await openWithoutFiles(folder);
    const { receipt } = await second.dispatch("forget", { query_exact: LEAK });
    await second.close();
    expect(receipt?.scan).toMatchObject({ matches: 0 });
    expect(lookFor(folder, [LEAK])).toEqual([]);
    const third = await openIn(folder);
    await third.session(session.id).turn("And then?");
    await third.close();
    expect(readFileSync(join(files, "events.jsonl"), "utf8")).toContain("And then?");
    expect(lookFor(folder, [LEAK])).toEqual([]);
  });

  it("[D9] a memory that is forgotten by its number takes its half-written file along", async () => {
    const folder = newFolder();
    const first = await openIn(folder);
    await first.dispatch("remember", { agent: "ada", content: `${LEAK}.` });
    await first.close();
    writeFileSync(join(folder, ".rkat", "agents", "ada", "memories", "000001.md.tmp"), LEAK);
    const runtime = await openWithoutFiles(folder);
    await runtime.dispatch("forget", { agent: "ada", memory: 1 });
    await runtime.close();
    expect(lookFor(folder, [LEAK])).toEqual([]);
  });

  it("[D9] a tool's name that a model made up, a file's name and a rewrite's reason go with the text they say", async () => {
    const folder = newFolder();
    const secret = "marit-odegard-1971";
    const model = createScriptedModel(({ messages }) =>
      messages.at(-1)?.role === "tool_results" ? { text: "No." } : { calls: [{ name: `find_${secret}`, args: {} }] },
    );
    const runtime = await openRuntime({ ...base, model, stateFolder: folder });
    const session = await runtime.createSession("Find her.");
    await session.turn([
      { type: "text", text: "And this." },
      { type: "file", media_type: "text/plain", name: `${secret}.txt`, source: "inline", data: "SGVsbG8u" },
    ]);
    await runtime.dispatch("rewriteTranscript", {
      session_id: session.id,
      selection: { type: "message_range", start: 0, end: 1 },
      replacement: [{ role: "user", content: "Find somebody." }],
      reason: { kind: `not ${secret}`, note: "A slip." },
    });
    expect(lookFor(folder, [secret]).length).toBeGreaterThan(0);
    const { receipt } = await runtime.dispatch("forget", { query_exact: secret });
    const { messages } = await runtime.dispatch("readHistory", { session_id: session.id });
    await runtime.close();
    expect(receipt).toMatchObject({ scan: { matches: 0 }, quoted_in: [] });
    expect(lookFor(folder, [secret])).toEqual([]);
    expect(JSON.stringify(messages)).toContain('"name":"forgotten"');
  });

  it("[D9] settings of the realm's configuration that say it are removed, and counted before and after", async () => {
    const folder = newFolder();
    const runtime = await openIn(folder);
    await runtime.dispatch("patchConfig", {
      patch: {
        agent: { system_prompt: `Be kind: ${LEAK}.` },
        permissions: { deny: [`shell(echo ${LEAK})`, "shell(rm *)"] },
        // One cannot do without it, so its section goes as a whole.
        sub_agents: { reviewer: { description: LEAK, prompt: "Review it." } },
      },
    });
    expect(await runtime.dispatch("forget", { query_exact: LEAK, dry_run: true })).toMatchObject({ settings: 3 });
    const { receipt, settings } = await runtime.dispatch("forget", { query_exact: LEAK });
    expect({ settings, receipt }).toMatchObject({ settings: 3, receipt: { settings: 3, scan: { matches: 0 } } });
    const { config: left } = await runtime.dispatch("readConfig", {});
    await runtime.close();
    expect(JSON.stringify(left)).not.toContain("Marit");
    expect(lookFor(folder, [LEAK])).toEqual([]);
    expect(readFileSync(join(folder, "config.toml"), "utf8")).not.toContain("reviewer");
    const again = await openIn(folder);
    expect(await again.dispatch("forget", { query_exact: "rain", dry_run: true })).not.toHaveProperty("settings");
    await again.close();
  });

  it("[D9] a caller that may not loosen rules may not erase one either, and nothing is begun", async () => {
    const folder = newFolder();
    const owner = await openIn(folder);
    await owner.dispatch("patchConfig", { patch: { permissions: { deny: [`shell(echo ${LEAK})`] } } });
    await owner.close();
    const served = await openRuntime({ ...base, stateFolder: folder, ceiling: "none" });
    await expect(served.dispatch("forget", { query_exact: LEAK })).rejects.toMatchObject({ code: "PERMISSION_DENIED" });
    await served.close();
    expect(readFileSync(join(folder, "config.toml"), "utf8")).toContain("Marit");
  });

  it("[D9] what fails half-way says that it goes on, and is finished with the next forgetting", async () => {
    const folder = newFolder();
    const runtime = await openIn(folder);
    await runtime.createSession(`${LEAK}.`);
    await runtime.dispatch("forget", { query_exact: "nobody says this" });
    const mend = breakKey(folder);
    await expect(runtime.dispatch("forget", { query_exact: LEAK })).rejects.toMatchObject({
      code: "SESSION_STORE_ERROR",
      message: expect.stringMatching(/^the erasure is incomplete; it continues .*holds no key to sign with/),
    });
    expect((await runtime.dispatch("listForgettings", {})).unfinished).toBe(1);
    mend();
    await runtime.dispatch("forget", { query_exact: "nobody says that either" });
    const { forgettings, unfinished } = await runtime.dispatch("listForgettings", {});
    expect({ receipts: forgettings.length, unfinished }).toEqual({ receipts: 3, unfinished: 0 });
    await runtime.close();
    expect(lookFor(folder, ["Marit Ødegård"])).toEqual([]);
  });

  it("[D9] [K2] in a sealed realm what others say is listed, though no file says it, and a job is sealed", async () => {
    const folder = newFolder();
    const runtime = await openSealed(folder);
    const session = await runtime.createSession(`${LEAK}.`);
    const other = await runtime.createSession(`Somebody else: ${LEAK}.`);
    const { receipt } = await runtime.dispatch("forget", { session_id: session.id, seq: 2 });
    expect(receipt?.quoted_in).toContainEqual({ session_id: other.id, seq: 2 });
    const mend = breakKey(folder);
    await expect(runtime.dispatch("forget", { query_exact: LEAK })).rejects.toThrow(/the erasure is incomplete/);
    expect(lookFor(folder, ["Marit Ødegård"])).toEqual([]);
    await runtime.close();
    mend();
    await (await openSealed(folder)).close();
    const again = await openSealed(folder);
    const { forgettings, unfinished } = await again.dispatch("listForgettings", {});
    expect({ receipts: forgettings.length, unfinished }).toEqual({ receipts: 2, unfinished: 0 });
    expect(JSON.stringify(await again.dispatch("readHistory", { session_id: other.id }))).not.toContain("Marit");
    await again.close();
  });

  it("[D9] a word by which the program tells why an output left is a message's own where somebody says it", async () => {
    const runtime = await openIn(newFolder());
    const session = await runtime.createSession("Good morning.");
    for (const word of ["superseded", "failed", "large"]) await session.turn(word);
    for (const word of ["superseded", "failed", "large"]) await runtime.dispatch("forget", { query_exact: word });
    const { messages } = await runtime.dispatch("readHistory", { session_id: session.id });
    const said = messages.flatMap((message) => (message.role === "user" ? [message.content] : []));
    expect(said).toEqual(["Good morning.", "…", "…", "…"]);
    await runtime.close();
  });
});
