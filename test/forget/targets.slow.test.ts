import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { defaultConfig } from "@rkat/core/config/settings";
import { createInMemoryStore, createRuntime, type Runtime } from "@rkat/core/create-runtime";
import { openRuntime, verifyStore } from "@rkat/node/open-runtime";
import { afterAll, describe, expect, it } from "vitest";
import { lookFor } from "./look.ts";
import { createTalkingModel, embedder, lookUp, OFTEN } from "./planted-secrets.ts";

const root = mkdtempSync(join(tmpdir(), "rkat-forget-targets-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const TIMEOUT_MS = 240_000;

const base = {
  model: createTalkingModel(),
  compaction: OFTEN,
  memory: { embedder },
  tools: [lookUp],
  toolPreset: "none",
  env: {},
} as const;
const newFolder = (): string => mkdtempSync(join(root, "state-"));
const openIn = (stateFolder: string): Promise<Runtime> => openRuntime({ ...base, stateFolder });

const LEAK = "Marit Ødegård was born on 4 May 1971 in Ålesund";

describe("forgetting by what it is about", { timeout: TIMEOUT_MS }, () => {
  it("[D9] a session says nothing any more, runs no more turns, and its forks have no copy", async () => {
    const folder = newFolder();
    const runtime = await openIn(folder);
    const session = await runtime.createSession(`${LEAK}. Remember that.`);
    for (let turn = 0; turn < 6; turn += 1) await session.turn(`And then? ${"It rained on. ".repeat(40)}`);
    const fork = await runtime.dispatch("forkSession", { session_id: session.id, message_index: 3 });
    const child = await runtime.dispatch("forkSession", { session_id: fork.session_id, message_index: 2 });
    await runtime.session(child.session_id).turn("What did I say first?");
    const { receipt } = await runtime.dispatch("forget", { session_id: session.id });
    expect(receipt?.target).toBe("session");
    expect(receipt?.logs.map(({ session_id, all }) => [session_id, all])).toEqual(
      expect.arrayContaining([
        [session.id, true],
        [fork.session_id, false],
        [child.session_id, false],
      ]),
    );
    expect(await runtime.dispatch("readSession", { session_id: session.id })).toMatchObject({
      state: "archived",
      title: "[forgotten]",
    });
    await expect(session.turn("Are you there?")).rejects.toMatchObject({ code: "SESSION_NOT_FOUND" });
    expect((await runtime.session(child.session_id).turn("And now?")).text).toContain("Noted");
    expect(
      (await runtime.dispatch("searchHistory", { query: LEAK })).results.map(({ content }) => content),
    ).not.toContain(expect.stringContaining("Marit"));
    await runtime.close();
    expect(lookFor(folder, ["Marit Ødegård", "4 May 1971"])).toEqual([]);
    expect((await verifyStore(folder)).problems).toEqual([]);
    const again = await openIn(folder);
    expect((await again.dispatch("listSessions", {})).sessions).toHaveLength(2);
    await again.close();
  });

  it("[D9] a message goes with its blob; the messages beside it, and the same image elsewhere, stay", async () => {
    const folder = newFolder();
    const runtime = await openIn(folder);
    const image = (text: string) =>
      ({
        type: "image",
        media_type: "image/png",
        source: "inline",
        data: Buffer.from(`${text}\n${"x".repeat(4_000)}`).toString("base64"),
      }) as const;
    const session = await runtime.createSession("Good morning.");
    await session.turn([{ type: "text", text: LEAK }, image("her passport"), image("a heron")]);
    await session.turn("The build takes four minutes.");
    const other = await runtime.createSession("Another day.");
    await other.turn([{ type: "text", text: "Look." }, image("a heron")]);
    const { messages } = await runtime.dispatch("readHistory", { session_id: session.id });
    const { seq = 0 } = messages.find((message) => JSON.stringify(message).includes("Marit")) ?? {};
    const dry = await runtime.dispatch("forget", { session_id: session.id, seq, dry_run: true });
    expect(dry).toMatchObject({
      dry_run: true,
      going: [{ session_id: session.id, seq, excerpt: expect.stringMatching(/^Marit/) }],
    });
    expect(dry.receipt).toBeUndefined();
    const { receipt } = await runtime.dispatch("forget", { session_id: session.id, seq });
    expect(receipt).toMatchObject({ target: "message", scan: { matches: 0 } });
    const after = await runtime.dispatch("readHistory", { session_id: session.id });
    expect(after.messages.map(({ seq: at }) => at)).toEqual(messages.map(({ seq: at }) => at));
    expect(JSON.stringify(after.messages)).toContain("four minutes");
    await runtime.close();
    const blobs = readdirSync(join(folder, "blobs"), { recursive: true, withFileTypes: true }).filter((one) =>
      one.isFile(),
    );
    expect(blobs.map(({ parentPath, name }) => readFileSync(join(parentPath, name), "utf8").split("\n")[1])).toEqual([
      "a heron",
    ]);
    expect(lookFor(folder, ["Marit Ødegård", "her passport"])).toEqual([]);
  });

  it("[D9] a text that only a file says goes with the file, and with the message that brought it", async () => {
    const folder = newFolder();
    const runtime = await openIn(folder);
    const data = Buffer.from(`%PDF-1.4\n${LEAK}\n${"x".repeat(5_000)}`).toString("base64");
    const session = await runtime.createSession("Good morning.");
    await session.turn([
      { type: "text", text: "Her papers." },
      { type: "image", media_type: "image/png", source: "inline", data },
    ]);
    const { receipt } = await runtime.dispatch("forget", { query_exact: "Marit Ødegård" });
    expect(receipt).toMatchObject({ blobs: 1, logs: [{ session_id: session.id, messages: 1 }], scan: { matches: 0 } });
    await runtime.close();
    expect(lookFor(folder, ["Marit Ødegård", "Her papers"])).toEqual([]);
  });

  it("[D9] an agent's memory, note and tiers go, by one memory and as a whole, from the vault as well", async () => {
    const folder = newFolder();
    const config = {
      ...defaultConfig(),
      agent_memory: { immediate_window: 2, recent_window: 2, profile: "summarizer" },
    };
    const runtime = await openRuntime({ ...base, config, stateFolder: folder });
    await runtime.dispatch("remember", { agent: "ada", content: "The harbour is teal." });
    await runtime.dispatch("remember", { agent: "ada", content: `${LEAK}.`, metadata: { of: "Marit Ødegård" } });
    for (let day = 1; day <= 5; day += 1)
      await runtime.dispatch("remember", { agent: "ada", content: `On day ${day} a heron stood in the pond.` });
    await runtime.dispatch("takeNote", { agent: "ada", content: "Herons are shy.", title: "Birds" });
    await runtime.dispatch("compactAgent", { agent: "ada" });
    const vault = join(folder, ".rkat/agents/ada");
    expect(readFileSync(join(vault, "memories/000002.md"), "utf8")).toContain("Marit");
    const one = await runtime.dispatch("forget", { agent: "ada", memory: 2 });
    expect(one.receipt).toMatchObject({
      target: "memory",
      logs: [{ agent: "ada", all: false, messages: 1 }],
      scan: { matches: 0 },
    });
    expect(readFileSync(join(vault, "memories/000002.md"), "utf8")).toContain("[forgotten]");
    expect(lookFor(folder, ["Marit Ødegård", "4 May 1971"])).toEqual([]);
    expect(JSON.stringify(await runtime.dispatch("readAgentContext", { agent: "ada" }))).toContain("heron");
    expect((await runtime.dispatch("searchHistory", { query: "the teal harbour" })).results[0]?.content).toContain(
      "teal",
    );
    await runtime.dispatch("remember", { agent: "ada", content: "It flew away." });

    const all = await runtime.dispatch("forget", { agent: "ada" });
    expect(all.receipt).toMatchObject({ target: "agent", logs: [{ agent: "ada", all: true }], scan: { matches: 0 } });
    expect(lookFor(folder, ["harbour is teal", "Herons are shy", "It flew away"])).toEqual([]);
    expect((await runtime.dispatch("remember", { agent: "ada", content: "A new day." })).count).toBe(9);
    await runtime.close();
    expect((await verifyStore(folder)).problems).toEqual([]);
  });

  it("[D9] what a search finds is listed, and goes once it is named", async () => {
    const { memory: _byMeaning, ...byWords } = base;
    const config = { ...defaultConfig(), memory: { ...defaultConfig().memory, embedder: "hashing" as const } };
    const runtime = await openRuntime({ ...byWords, config, stateFolder: newFolder() });
    const session = await runtime.createSession(`${LEAK}.`);
    await runtime.createSession("The harbour is teal.");
    await expect(runtime.dispatch("forget", { query: "when was Marit born" })).rejects.toMatchObject({
      code: "INVALID_PARAMS",
      message: expect.stringMatching(/^query: a query is only for a dry run/),
    });
    const { going } = await runtime.dispatch("forget", { query: "when was Marit born", dry_run: true });
    expect(going[0]).toMatchObject({ session_id: session.id, excerpt: expect.stringMatching(/^Marit/) });
    const [{ session_id, seq } = { session_id: "", seq: 0 }] = going;
    const { receipt } = await runtime.dispatch("forget", { messages: [{ session_id, seq }] });
    expect(receipt).toMatchObject({ target: "messages", scan: { matches: 0 } });
    await runtime.close();
  });

  it("[D9] a session that runs a turn is refused, and nothing has gone", async () => {
    const folder = newFolder();
    const { promise: asked, resolve: reportAsked } = Promise.withResolvers<void>();
    const waiting = {
      ...lookUp,
      name: "wait",
      execute: (_: object, { signal }: { signal: AbortSignal }) => waitFor(signal),
    };
    const waitFor = (signal: AbortSignal) => {
      reportAsked();
      return new Promise<string>((done) => signal.addEventListener("abort", () => done("stopped")));
    };
    const { createScriptedModel } = await import("@rkat/core/providers/scripted");
    const model = createScriptedModel([{ calls: [{ name: "wait" }] }, { text: "done" }]);
    const runtime = await openRuntime({ ...base, model, tools: [waiting], stateFolder: folder });
    const running = runtime.createSession(`${LEAK}.`);
    await asked;
    const [{ session_id = "" } = {}] = (await runtime.dispatch("listSessions", {})).sessions;
    await expect(runtime.dispatch("forget", { query_exact: "Marit Ødegård" })).rejects.toMatchObject({
      code: "SESSION_BUSY",
    });
    expect((await runtime.dispatch("listForgettings", {})).unfinished).toBe(0);
    expect(JSON.stringify(await runtime.dispatch("readHistory", { session_id }))).toContain("Marit");
    await runtime.dispatch("interruptTurn", { session_id });
    await running.catch(() => {});
    const { receipt } = await runtime.dispatch("forget", { query_exact: "Marit Ødegård" });
    expect(receipt?.scan.matches).toBe(0);
    await runtime.close();
  });

  it("[D9] another process that has the session at hand shows nothing of it any more, and writes nothing back", async () => {
    const folder = newFolder();
    const [here, there] = [await openIn(folder), await openIn(folder)];
    const session = await here.createSession(`${LEAK}.`, { labels: { person: "Marit Ødegård" } });
    expect(JSON.stringify(await there.dispatch("readHistory", { session_id: session.id }))).toContain("Marit");
    await there.session(session.id).turn("Go on.");
    await here.dispatch("forget", { query_exact: "Marit Ødegård" });
    expect(JSON.stringify(await there.dispatch("readHistory", { session_id: session.id }))).not.toContain("Marit");
    expect((await there.dispatch("listSessions", {})).sessions[0]?.title).toBe("[forgotten]");
    await there.session(session.id).turn("And now?");
    await there.close();
    await here.close();
    expect(lookFor(folder, ["Marit Ødegård"])).toEqual([]);
  });

  it("[D9] what is found elsewhere is listed: another session's words, a person's own file, a back-up of before", async () => {
    const folder = newFolder();
    const runtime = await openIn(folder);
    const session = await runtime.createSession(`${LEAK}.`);
    const other = await runtime.createSession(`Somebody else: ${LEAK}.`);
    mkdirSync(join(folder, ".rkat/agents/ada"), { recursive: true });
    writeFileSync(join(folder, ".rkat/agents/ada/profile.md"), `${LEAK}.`);
    const { receipt, signed } = await runtime.dispatch("forget", { session_id: session.id, seq: 2 });
    expect(receipt?.scan.matches).toBeGreaterThan(0);
    expect(receipt?.quoted_in).toContainEqual({ session_id: other.id, seq: 2 });
    expect(receipt?.scan.elsewhere.map(({ place }) => place)).toContain(".rkat/agents/ada/profile.md");
    expect(signed?.receipt).not.toContain("Marit");
    await runtime.close();
  });

  it("[D9] [K2] with encryption the key of a session that is forgotten is destroyed, and what is left of it still reads", async () => {
    const folder = newFolder();
    const env = { RKAT_SEAL: randomBytes(32).toString("hex") };
    const config = { ...defaultConfig(), encryption: { key_env: "RKAT_SEAL" } };
    const open = () => openRuntime({ ...base, env, config, stateFolder: folder });
    const runtime = await open();
    const session = await runtime.createSession(`${LEAK}.`);
    const other = await runtime.createSession("The harbour is teal.");
    await other.turn(`${LEAK}, too.`);
    const keysBefore = readFileSync(join(folder, "keys"), "utf8");
    await runtime.dispatch("forget", { session_id: session.id });
    expect(keysBefore).toContain(session.id);
    expect(readFileSync(join(folder, "keys"), "utf8")).not.toContain(session.id);
    await runtime.dispatch("forget", { query_exact: "Marit Ødegård" });
    await runtime.close();
    const again = await open();
    expect(await again.dispatch("readSession", { session_id: session.id })).toMatchObject({ title: "[forgotten]" });
    expect((await again.dispatch("readHistory", { session_id: session.id })).messages[0]).toMatchObject({
      content: "[forgotten]",
    });
    const left = JSON.stringify(await again.dispatch("readHistory", { session_id: other.id }));
    expect(left).toContain("teal");
    expect(left).not.toContain("Marit");
    await again.close();
  });

  it("[D9] a runtime in memory forgets as well, and a store that cannot prove it is refused", async () => {
    const runtime = createRuntime({ ...base, store: createInMemoryStore() });
    const session = await runtime.createSession(`${LEAK}.`);
    expect((await runtime.dispatch("forget", { query_exact: "marit ødegård" })).receipt?.scan.matches).toBe(0);
    expect(JSON.stringify(await runtime.dispatch("readHistory", { session_id: session.id }))).not.toContain("Marit");
    await runtime.close();
    const plain = createRuntime({ ...base, store: { ...createInMemoryStore(), forgettings: undefined } });
    await expect(plain.dispatch("forget", { query_exact: "anything" })).rejects.toMatchObject({
      code: "SESSION_PERSISTENCE_DISABLED",
    });
    await plain.close();
  });

  it("[D9] nothing is left of a job once it has ended", async () => {
    const folder = newFolder();
    const runtime = await openIn(folder);
    await runtime.createSession(`${LEAK}.`);
    await runtime.dispatch("forget", { query_exact: LEAK });
    await runtime.close();
    const jobs = join(folder, "forgettings/jobs");
    expect(existsSync(jobs) ? readdirSync(jobs) : []).toEqual([]);
  });
});
