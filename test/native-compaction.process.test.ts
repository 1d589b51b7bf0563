import { createHash } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SUMMARY_PREFIX } from "@rkat/core/compaction/shown-messages";
import type { AgentEvent } from "@rkat/core/contract/event";
import { createInMemoryStore, createRuntime, type RuntimeOptions } from "@rkat/core/create-runtime";
import { hashContext } from "@rkat/core/state/context";
import { openRuntime } from "@rkat/node/open-runtime";
import { exportPage } from "rkat/session-page";
import { describe, expect, it, onTestFinished } from "vitest";
import { configWith, listen } from "./support/runtime.ts";
import { openTracing } from "./support/tracing.ts";
import { anthropicWire, COMPACTED_TEXT } from "./wire/anthropic.ts";
import { openAiChatWire } from "./wire/openai-chat.ts";
import { openAiResponsesWire } from "./wire/openai-responses.ts";
import { type Json, listOf, type WireFormat } from "./wire/scenario.ts";
import { openWireServer, type Reply, type WireServer } from "./wire/server.ts";

const OPAQUE = `gAAAAAB${"c2VjcmV0".repeat(60)}`;
const SUMMARY = "They keep notes on builds, all of which are fine.";
const RULE = "Never push to main.";
const TALK = "All of this was said while the kettle boiled and the rain went on. ".repeat(6);
const USAGE = { input: 100, output: 10 };
const PRICE = { input: 3, output: 15, as_of: "2026-11-16" };
const SMALL = { recentTurnBudget: 1, maxSummaryTokens: 200, native: true };

const answer = (text: string) => ({ kind: "answer" as const, scenario: { text: [text], usage: USAGE } });
const summary = answer(SUMMARY);
const ownItem = (opaque = OPAQUE) => ({
  kind: "answer" as const,
  scenario: { compaction: { opaque }, usage: { input: 700, output: 70 } },
});

type Opening = Pick<RuntimeOptions, "compaction" | "store" | "telemetry">;

/** A server of a provider, and a runtime that asks it. */
async function open(format: WireFormat, options: Opening = {}) {
  const server = await openWireServer(format);
  onTestFinished(() => server.close());
  const settled = settle(format, server);
  const runtime = createRuntime({ store: createInMemoryStore(), ...settled, ...options });
  onTestFinished(() => runtime.close());
  return { server, runtime, model: settled.model };
}

function settle(format: WireFormat, { url }: Pick<WireServer, "url">) {
  const { env, config, model } = format.settings(url);
  const { defaultModel: _, defaultProvider: _none, prices: _nobody, ...sections } = config;
  // What a format needs of a configuration is part of one.
  const changes = { ...sections, retry: { max_retries: 0 }, prices: { [model]: PRICE } } as Parameters<
    typeof configWith
  >[0];
  return { env, config: configWith(changes), model, compaction: SMALL, systemPrompt: "Keep notes." };
}

type Opened = Pick<Awaited<ReturnType<typeof open>>, "server" | "runtime">;

/** Two turns, then a compaction that takes the first of them out, with the provider's own beside it. */
async function compacted(opened: Opened, native: Reply = ownItem()) {
  const { server, runtime } = opened;
  server.reply(answer(`Noted. ${TALK}`), answer(`Noted again. ${TALK}`), summary, native);
  const session = await runtime.createSession(`Build 1 is fine. ${RULE} ${TALK}`);
  await session.turn(`Build 2 is fine. ${TALK}`);
  const { compaction } = await session.compact();
  return { session, compaction };
}

const WIRES = [
  { format: anthropicWire, provider: "anthropic", other: "claude-opus-5" },
  { format: openAiResponsesWire, provider: "openai", other: "gpt-5.4" },
];

/** Everything a request says, the system prompt aside. */
const saidIn = (body: Json): string => JSON.stringify(body.messages ?? body.input);
const isCompacting = (body: Json): boolean =>
  body.compaction !== undefined || listOf(body.input).some(({ type }) => String(type) === "compaction_trigger");
const refusing = (message: string) => ({
  kind: "reject" as const,
  status: 400,
  body: { type: "error", error: { type: "invalid_request_error", code: "invalid_encrypted_content", message } },
});

describe.each(WIRES)("a compaction of $provider's own", ({ format, provider, other }) => {
  it("[C6] is asked of exactly what leaves the context, and sent in the place of the summary", async () => {
    const opened = await open(format);
    const { session, compaction } = await compacted(opened);
    const asked = opened.server.requests.at(-1)?.body as Json;
    expect(isCompacting(asked)).toBe(true);
    expect(saidIn(asked)).toContain("Build 1 is fine");
    expect(saidIn(asked)).toContain("Noted. ");
    expect(saidIn(asked)).not.toContain("Build 2 is fine");
    expect(compaction?.native).toMatchObject({ provider, model: opened.model, refused: false });
    opened.server.reply(answer("Yes."));
    await session.turn("And build 3?");
    const { body, headers } = opened.server.requests.at(-1) ?? {};
    const said = saidIn(body as Json);
    expect(said).toContain(OPAQUE);
    expect(said).not.toContain(SUMMARY);
    expect(said).not.toContain(SUMMARY_PREFIX);
    // What the user ruled is not left to what nobody can read.
    expect(said).toContain(RULE);
    expect(said.indexOf(OPAQUE)).toBeLessThan(said.indexOf(RULE));
    expect(said.indexOf(RULE)).toBeLessThan(said.indexOf("Build 2 is fine"));
    if (provider === "anthropic") {
      const block = { type: "compaction", content: COMPACTED_TEXT, signature: OPAQUE };
      expect(listOf(body?.messages)[0]).toEqual({ role: "assistant", content: [block] });
      expect(headers?.["anthropic-beta"]).toContain("compact-2026-09-04");
    } else {
      const item = { type: "compaction", id: "cmp_01", encrypted_content: OPAQUE };
      expect(listOf(body?.input).filter(({ type }) => String(type) === "compaction")).toEqual([item]);
    }
  });

  it("[C5] counts in the usage of the compaction, its cost and the budget", async () => {
    const opened = await open(format);
    const { session, compaction } = await compacted(opened);
    const cost = { amount: 0.003_15, currency: "USD" };
    expect(compaction?.native?.usage).toMatchObject({ inputTokens: 700, outputTokens: 70, cost });
    const own = (100 * PRICE.input + 10 * PRICE.output) / 1e6;
    expect(compaction?.usage).toMatchObject({ inputTokens: 800, outputTokens: 80 });
    expect(compaction?.usage.cost?.amount).toBeCloseTo(own + 0.003_15, 9);
    const { usage } = await opened.runtime.readSession(session.id);
    expect(usage).toMatchObject({ inputTokens: 1_000, outputTokens: 100 });
  });

  it("[C6] another model, and `native = false`, are sent the summary; and the first gets its own again", async () => {
    const store = createInMemoryStore();
    const opened = await open(format, { store });
    const { session } = await compacted(opened);
    const { server } = opened;
    server.reply(answer("One."), answer("Two."));
    await session.turn("And build 3?", { model: other });
    expect(saidIn(server.requests.at(-1)?.body as Json)).not.toContain(OPAQUE);
    expect(saidIn(server.requests.at(-1)?.body as Json)).toContain(SUMMARY);
    await session.turn("And build 4?", { model: opened.model });
    expect(saidIn(server.requests.at(-1)?.body as Json)).toContain(OPAQUE);
    const off = await open(format, { store, compaction: { ...SMALL, native: false } });
    off.server.reply(answer("Three."));
    await off.runtime.session(session.id).turn("And build 5?");
    expect(saidIn(off.server.requests.at(-1)?.body as Json)).toContain(SUMMARY);
    expect(saidIn(off.server.requests.at(-1)?.body as Json)).not.toContain(OPAQUE);
  });

  it("[C6] a server elsewhere, by the same names, is sent the summary", async () => {
    const store = createInMemoryStore();
    const { session } = await compacted(await open(format, { store }));
    const elsewhere = await open(format, { store });
    elsewhere.server.reply(answer("Yes."));
    await elsewhere.runtime.session(session.id).turn("And build 3?");
    const said = saidIn(elsewhere.server.requests.at(-1)?.body as Json);
    expect(said).toContain(SUMMARY);
    expect(said).not.toContain(OPAQUE);
  });

  it("[C10] one that is refused is left out within the turn, told, and not sent again", async () => {
    const opened = await open(format);
    const { server } = opened;
    const { session, compaction } = await compacted(opened);
    server.reply(refusing(`The encrypted content ${OPAQUE} could not be verified.`), answer("Yes."), answer("Also."));
    const { events, result } = await listen(session.stream("And build 3?"));
    expect(result).toMatchObject({ text: "Yes.", turns: expect.any(Number) });
    const refused = events.filter((event: AgentEvent) => event.type === "native_compaction_refused");
    expect(refused).toMatchObject([{ compaction_id: compaction?.compactionId, provider }]);
    expect(JSON.stringify(events)).not.toContain(OPAQUE);
    expect(saidIn(server.requests.at(-2)?.body as Json)).toContain(OPAQUE);
    expect(saidIn(server.requests.at(-1)?.body as Json)).toContain(SUMMARY);
    const sent = server.requests.length;
    await session.turn("And build 4?");
    expect(server.requests).toHaveLength(sent + 1);
    expect(saidIn(server.requests.at(-1)?.body as Json)).not.toContain(OPAQUE);
    expect(await session.compactions()).toMatchObject([{ native: { refused: true } }]);
  });

  it("[C10] a refusal that is about something else takes nothing from it", async () => {
    const opened = await open(format);
    const { server } = opened;
    const { session } = await compacted(opened);
    server.reply(refusing("No such parameter."), refusing("No such parameter."), answer("Yes."));
    const { error, events } = await listen(session.stream("And build 3?"));
    expect(error).toMatchObject({ message: expect.stringContaining("No such parameter") });
    expect(events.some(({ type }) => type === "native_compaction_refused")).toBe(false);
    await session.turn("And now?");
    expect(saidIn(server.requests.at(-1)?.body as Json)).toContain(OPAQUE);
  });

  it.each([
    ["refuses it", refusing("compaction: Extra inputs are not permitted"), /Extra inputs/],
    ["answers as if it had been asked", answer("Hello!"), /returned none/],
    [
      "breaks off",
      { kind: "break", scenario: { text: ["x"] }, frames: 1, by: "reset" } as const,
      /could not be reached/,
    ],
    ["is overloaded", { kind: "refuse", refusal: "overloaded" } as const, /overloaded/],
    ["gives one of 600 kB", ownItem("x".repeat(600_000)), /bytes, too many to store/],
  ])("[C10] where the provider %s, the compaction stands without it, with a note", async (_how, reply, note) => {
    const opened = await open(format);
    const { session, compaction } = await compacted(opened, reply);
    expect(compaction).toMatchObject({ summary: SUMMARY, notes: [expect.stringMatching(note)] });
    expect(compaction).not.toHaveProperty("native");
    opened.server.reply(answer("Yes."));
    await session.turn("And build 3?");
    expect(saidIn(opened.server.requests.at(-1)?.body as Json)).toContain(SUMMARY);
  });

  it("[C5] what a call took that gave none counts, too", async () => {
    const { compaction } = await compacted(await open(format), answer("Hello!"));
    expect(compaction?.usage).toMatchObject({ inputTokens: 200, outputTokens: 20 });
  });

  it("[C7] the next one is made of the one before and what leaves then, and takes its place", async () => {
    const opened = await open(format);
    const { server } = opened;
    const { session } = await compacted(opened);
    const newer = OPAQUE.replace("gAAAAAB", "gAAAAAC");
    server.reply(
      answer(`Noted 3. ${TALK}`),
      answer("They still keep notes on builds."),
      ownItem(newer),
      answer("Yes."),
    );
    await session.turn(`Build 3 is fine. ${TALK}`);
    await session.compact();
    const asked = saidIn(server.requests.at(-1)?.body as Json);
    expect(asked).toContain(OPAQUE);
    expect(asked).not.toContain(SUMMARY);
    expect(asked).toContain("Build 2 is fine");
    expect(asked).not.toContain("Build 3 is fine");
    await session.turn("And build 4?");
    const said = saidIn(server.requests.at(-1)?.body as Json);
    expect(said).toContain(newer);
    expect(said).not.toContain(OPAQUE);
  });

  it("[C13] context, hash, history and fork are what they are without it; undo takes it away with the summary", async () => {
    const store = createInMemoryStore();
    const opened = await open(format, { store });
    const { server, runtime } = opened;
    const { session, compaction } = await compacted(opened);
    const { messages } = await session.context();
    expect(JSON.stringify(messages)).toContain(SUMMARY);
    expect(JSON.stringify([messages, compaction, await session.history()])).not.toContain(OPAQUE);
    server.reply(answer("Yes."), answer("Forked."), answer("Undone."));
    await session.turn("And build 3?");
    const entries = await store.log.read(session.id, 0, 1_000);
    const called = entries.findLast(({ body }) => body.kind === "model_called");
    const { messages: shown } = await runtime.dispatch("readContext", { session_id: session.id, at_seq: called?.seq });
    const hash = (text: string): string => createHash("sha256").update(text).digest("hex");
    expect(called?.body).toMatchObject({
      context_sha256: hashContext(
        shown.map(({ seq: _, ...message }) => message),
        hash,
      ),
      native_of: compaction?.compactionId,
    });
    const { session_id } = await runtime.dispatch("forkSession", { session_id: session.id, message_index: 5 });
    await runtime.session(session_id).turn("And here?");
    // The fork keeps the compaction, and the provider's own with it.
    expect(saidIn(server.requests.at(-1)?.body as Json)).not.toContain("Build 1 is fine");
    expect(saidIn(server.requests.at(-1)?.body as Json)).toContain(OPAQUE);
    await session.undoCompaction(compaction?.compactionId ?? "");
    await session.turn("And build 4?");
    const said = saidIn(server.requests.at(-1)?.body as Json);
    expect(said).toContain("Build 1 is fine");
    expect(said).not.toContain(OPAQUE);
    expect(said).not.toContain(SUMMARY);
  });

  it("[C11] events tell that it is there and how large it is, and nothing of what it says", async () => {
    const opened = await open(format);
    const { session } = await compacted(opened);
    const { dispatch } = opened.runtime;
    const { compactions } = await dispatch("listCompactions", { session_id: session.id });
    const reported: unknown[] = [];
    for await (const { event } of opened.runtime.subscribe(session.id, { after: 0 })) {
      reported.push(event);
      if (event.type === "compaction_completed") break;
    }
    const { refused: _, ...native } = compactions[0]?.native ?? { refused: false };
    expect(reported.at(-1)).toMatchObject({ type: "compaction_completed", native });
    expect(native).toMatchObject({ bytes: expect.any(Number) });
    const { signal } = new AbortController();
    const page = await exportPage({ dispatch, session_id: session.id, version: "1", keptAt: new Date(0), signal });
    expect(page.compactions).toMatchObject([{ native }]);
    expect(JSON.stringify([reported, page])).not.toContain(OPAQUE);
  });

  it("[C13] survives the process", async () => {
    const folder = await mkdtemp(join(tmpdir(), "native-"));
    onTestFinished(() => rm(folder, { recursive: true, force: true }));
    const server = await openWireServer(format);
    onTestFinished(() => server.close());
    const options = { stateFolder: folder, ...settle(format, server) };
    const runtime = await openRuntime(options);
    const { session } = await compacted({ server, runtime });
    await runtime.close();
    const again = await openRuntime(options);
    onTestFinished(() => again.close());
    server.reply(answer("Yes."));
    await again.session(session.id).turn("And build 3?");
    expect(saidIn(server.requests.at(-1)?.body as Json)).toContain(OPAQUE);
  });
});

describe("spans", () => {
  it("[G9] tell of the call for it, and nothing of what it says, even where they tell what is said", async () => {
    const { tracer, spanTrees, text } = openTracing();
    const opened = await open(openAiResponsesWire, { telemetry: { tracer, captureContent: true } });
    const { session } = await compacted(opened);
    opened.server.reply(answer("Yes."));
    await session.turn("And build 3?");
    const [compact] = spanTrees().filter(({ name }) => name === "compact");
    expect(compact?.children.map(({ attributes }) => attributes["gen_ai.usage.input_tokens"])).toEqual([100, 700]);
    expect(text()).toContain(SUMMARY);
    expect(text()).not.toContain(OPAQUE);
  });
});

describe("instructions for a compaction", () => {
  it("[C18] go to Anthropic with our prompt; OpenAI takes none, so nothing of its own is kept", async () => {
    const claude = await open(anthropicWire);
    claude.server.reply(answer(`Noted. ${TALK}`), answer(`Noted again. ${TALK}`), summary, ownItem());
    const first = await claude.runtime.createSession(`Build 1 is fine. ${TALK}`);
    await first.turn(`Build 2 is fine. ${TALK}`);
    await first.compact({ instructions: "Keep every port." });
    const { compaction } = claude.server.requests.at(-1)?.body ?? {};
    expect(JSON.stringify(compaction)).toContain("Additional instructions: Keep every port.");
    const gpt = await open(openAiResponsesWire);
    gpt.server.reply(answer(`Noted. ${TALK}`), answer(`Noted again. ${TALK}`), summary);
    const second = await gpt.runtime.createSession(`Build 1 is fine. ${TALK}`);
    await second.turn(`Build 2 is fine. ${TALK}`);
    const result = await second.compact({ instructions: "Keep every port." });
    expect(result.compaction?.notes).toEqual([expect.stringContaining("openai accepts no instructions for it")]);
    expect(gpt.server.requests).toHaveLength(3);
  });
});

describe("native = true", () => {
  it("[C10] with a provider that has none, the compaction stands, and a note says so", async () => {
    const opened = await open(openAiChatWire);
    opened.server.reply(answer(`Noted. ${TALK}`), answer(`Noted again. ${TALK}`), summary);
    const session = await opened.runtime.createSession(`Build 1 is fine. ${TALK}`);
    await session.turn(`Build 2 is fine. ${TALK}`);
    const { compaction } = await session.compact();
    expect(compaction?.notes).toEqual([expect.stringContaining("has none for")]);
    expect(opened.server.requests).toHaveLength(3);
  });

  it("[C1] is refused with a curator of one's own, whose words it would stand for", () => {
    const compaction = { native: true, curator: () => "Mine." };
    expect(() => createRuntime({ model: "offline", env: {}, compaction })).toThrow(
      /compaction\.native: .* curator .* leave one of the two out/,
    );
    const wrong = { native: "yes" as unknown as boolean };
    expect(() => createRuntime({ model: "offline", env: {}, compaction: wrong })).toThrow("write true or false");
  });

  it("[C6] it is off unless it is asked for", async () => {
    const opened = await open(anthropicWire, { compaction: { recentTurnBudget: 1, maxSummaryTokens: 200 } });
    const { compaction } = await compacted(opened);
    expect(compaction).toMatchObject({ notes: [] });
    expect(compaction).not.toHaveProperty("native");
    expect(opened.server.requests).toHaveLength(3);
  });
});
