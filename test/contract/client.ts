import type { Client, Session } from "@rkat/client";
import type { Delivery } from "@rkat/core/sessions/event-queue";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { LONG_OUTPUT } from "../clients/served-runtime.ts";
import { beginWaiting, listen, typesOf } from "../support/runtime.ts";
import { describeClientTools, weather } from "./client-tools.ts";

/** What the suite needs of a way to connect. */
export interface ClientWay {
  readonly name: string;
  /** A client of a new runtime, and what ends both; `unkept` has no capability. */
  open(kind?: "kept" | "unkept"): Promise<{ readonly client: Client; close(): Promise<void> }>;
  /** Whether tools of the client's own can be called. */
  readonly hasTools: boolean;
  /** How a turn ends whose server dies in its middle; undefined where there is none. */
  readonly death?: RegExp;
}

const NOBODY = "01900000-0000-7000-8000-000000000000";
const TURN = ["run_started", "turn_started", "text_delta", "text_delta", "text_complete", "turn_completed"];

const code = (name: string, message = /./) =>
  expect.objectContaining({ name: "RuntimeError", code: name, message: expect.stringMatching(message) });

/** What is heard by one who begins to listen, up to the end of a turn; turns are run until then. */
async function collectWhileTurning(client: Client, session: Session): Promise<readonly Delivery[]> {
  const received: Delivery[] = [];
  let isDone = false;
  const listening = (async () => {
    for await (const delivery of client.subscribe(session.id)) {
      received.push(delivery);
      if (delivery.event.type === "run_completed") break;
    }
    isDone = true;
  })();
  for (let turns = 0; turns < TURNS_MAX && !isDone; turns += 1) await session.turn("Two");
  await listening;
  return received;
}

const TURNS_MAX = 1_000;

/** Every way to connect gives the same client. */
export function describeClient({ name, open, hasTools, death }: ClientWay): void {
  describe(`client: ${name}`, () => {
    let client: Client;
    let close: () => Promise<void>;
    beforeAll(async () => {
      ({ client, close } = await open());
    });
    afterAll(() => close());

    it("[G6] creates a session and runs turns of it", async () => {
      const session = await client.createSession("Hello", { budgetLimits: { max_tokens: 10_000 } });
      expect([session.text, session.lastResult]).toMatchObject([
        "You said: Hello",
        { sessionId: session.id, turns: 1, toolCalls: 0, usage: { inputTokens: 10, outputTokens: 5 } },
      ]);
      expect(await session.turn([{ type: "text", text: "Grüße, 東京 🐦" }])).toMatchObject({
        text: "You said: Grüße, 東京 🐦",
      });
      const { messages, hasMore: has_more } = await session.history({ offset: 1, limit: 2 });
      expect([messages.map(({ role }) => role), has_more]).toEqual([["block_assistant", "user"], true]);
      expect(await client.session(session.id).turn("By its id")).toMatchObject({ text: "You said: By its id" });
    });

    it("[G6] streams a turn's events, in order, before its result", async () => {
      const first = client.createSessionStreaming("Hello");
      const { events, result } = await listen(first);
      const session = await first.session;
      expect(typesOf(events)).toEqual([...TURN, "run_completed"]);
      expect(events[0]).toEqual({ type: "run_started", session_id: session.id, prompt: "Hello" });
      expect(events.flatMap((event) => (event.type === "text_delta" ? [event.delta] : []))).toEqual([
        "You said: ",
        "Hello",
      ]);
      expect(result).toEqual(session.lastResult);
      const second = await listen(session.stream("call read_log"));
      expect(typesOf(second.events)).toEqual([
        ...["run_started", "turn_started", "tool_call_requested", "tool_execution_started"],
        ...["tool_execution_completed", "tool_result_received"],
        ...["turn_started", "text_delta", "text_complete", "turn_completed", "run_completed"],
      ]);
      const failed = await listen(session.stream("fail"));
      expect(typesOf(failed.events).at(-1)).toBe("run_failed");
      expect(failed.error).toEqual(code("PROVIDER_ERROR", /the provider says no/));
      expect(failed.error).toMatchObject({ details: { session_id: session.id } });
    });

    it("[G6] lists and reads sessions, and archives them", async () => {
      const labels = { team: "a=b&c", größe: "1 %" };
      const session = await client.createSession("Hello", { labels });
      const other = await client.createSession("Hello", { labels: { team: "x" } });
      const ids = async (query: object) =>
        (await client.listSessions(query)).map(({ sessionId: session_id }) => session_id);
      expect(await ids({})).toEqual(expect.arrayContaining([other.id, session.id]));
      expect(await ids({ labels })).toEqual([session.id]);
      expect(await ids({ labels: { team: "x" }, limit: 1, offset: 1 })).toEqual([]);
      const read = await client.readSession(session.id);
      expect(read).toMatchObject({ sessionId: session.id, messageCount: 2, labels, state: "idle" });
      const [listed] = await client.listSessions({ labels });
      expect([read.createdAt, read.updatedAt]).toEqual([listed?.createdAt, listed?.updatedAt]);
      await session.archive();
      await expect(session.turn("More")).rejects.toEqual(code("SESSION_NOT_FOUND"));
      expect(await client.readSession(session.id)).toMatchObject({ state: "archived" });
    });

    it("[G6] interrupts a turn and keeps what it said; a second turn meanwhile is refused", async () => {
      const session = await client.createSession("Hello");
      const waiting = await beginWaiting(session);
      await expect(session.turn("Me, too")).rejects.toEqual(code("SESSION_BUSY"));
      const refused = await listen(session.stream("Me, too"));
      expect([typesOf(refused.events), refused.error]).toEqual([[], code("SESSION_BUSY")]);
      await session.interrupt();
      await expect(waiting.result).rejects.toEqual(code("REQUEST_CANCELLED"));
      expect((await waiting.events).at(-1)?.type).toBe("run_failed");
      expect(await client.readSession(session.id)).toMatchObject({ lastAssistantText: "half", state: "idle" });
      await session.interrupt();
      expect(await session.turn("Again")).toMatchObject({ text: "You said: Again" });
    });

    it("[G6] cancels by a signal: a turn, a creation, and what has not begun", async () => {
      const session = await client.createSession("Hello");
      const aborting = new AbortController();
      const turn = session.stream("wait", { signal: aborting.signal });
      for await (const event of turn) if (event.type === "text_delta") aborting.abort();
      await expect(turn.result).rejects.toEqual(code("REQUEST_CANCELLED"));
      const creating = new AbortController();
      const created = client.createSessionStreaming("wait", { signal: creating.signal });
      for await (const event of created) if (event.type === "text_delta") creating.abort();
      await expect(created.result).rejects.toEqual(code("REQUEST_CANCELLED"));
      await expect(session.turn("Hello", { signal: AbortSignal.abort() })).rejects.toEqual(code("REQUEST_CANCELLED"));
      expect(await session.turn("Hello")).toMatchObject({ text: "You said: Hello" });
    });

    it("[G6] creates a session whose first turn comes later", async () => {
      const session = await client.createDeferredSession("First this.");
      expect([session.text, session.lastResult]).toEqual(["", undefined]);
      const { events, result } = await listen(session.stream("Then that."));
      expect(typesOf(events).at(0)).toBe("run_started");
      expect(result?.text).toMatch(/First this\.\s+Then that\./);
    });

    it("[G6] replays a session's events and goes on live, without a gap and without a repeat", async () => {
      const session = await client.createSession("One");
      await session.turn("Two");
      const ending = new AbortController();
      const received: Delivery[] = [];
      let ends = 0;
      let live: Promise<unknown> = Promise.resolve();
      for await (const delivery of client.subscribe(session.id, { after: 2, signal: ending.signal })) {
        received.push(delivery);
        if (delivery.event.type !== "run_completed") continue;
        ends += 1;
        if (ends === 2) live = session.turn("Three");
        if (ends === 3) ending.abort();
      }
      await live;
      const all = await client.dispatch("listEvents", { scope: { type: "session", session_id: session.id } });
      const durable = all.events.map(({ cursor, timestamp_ms, payload }) => [cursor.sequence, timestamp_ms, payload]);
      const seen = received
        .filter(({ seq }) => seq > 0)
        .map(({ seq, timestamp_ms, event }) => [seq, timestamp_ms, event]);
      expect(seen).toEqual(durable.filter(([seq]) => Number(seq) > 2));
      expect(received.filter(({ event }) => event.type === "text_delta")).toHaveLength(2);
    });

    it("[G6] follows what is to come, and leaves", async () => {
      const session = await client.createSession("One");
      const received = await collectWhileTurning(client, session);
      const seqs = received.flatMap(({ seq }) => (seq > 0 ? [seq] : []));
      expect(seqs).toEqual(seqs.map((_, index) => (seqs[0] ?? 0) + index));
      expect(received.at(-1)).toMatchObject({ event: { type: "run_completed", result: "You said: Two" } });
      await expect(client.subscribe(NOBODY)[Symbol.asyncIterator]().next()).rejects.toEqual(code("SESSION_NOT_FOUND"));
    });

    it("[G6] hears the end of a session's events when it is archived", async () => {
      const session = await client.createSession("One");
      let last: string | undefined;
      for await (const { event } of client.subscribe(session.id, { after: 0 })) {
        last = event.type;
        if (last === "run_completed") await session.archive();
      }
      expect(last).toBe("run_completed");
    });

    it("[G6] compacts, lists, expands and undoes; pins and unpins", async () => {
      const session = await client.createSession(`A heron stood in the pond. ${"It did not move. ".repeat(50)}`);
      for (const bird of ["crane", "egret", "stork", "ibis", "rail"]) await session.turn(`Then came a ${bird}.`);
      const before = await session.context();
      expect(await session.compact({ preview: true })).toMatchObject({ compacted: false });
      const { compacted, compaction } = await session.compact({ instructions: "birds" });
      expect([compacted, compaction?.summary]).toEqual([true, "They spoke of birds."]);
      expect(await session.compactions()).toMatchObject([{ compactionId: compaction?.compactionId, undone: false }]);
      const [seq = 0] = (await session.context()).parts.at(-1)?.seqs ?? [];
      await session.pin(seq);
      await session.unpin(seq);
      const expanded = await session.expandCompaction(String(compaction?.compactionId), { maxTokens: 10_000 });
      expect(expanded.expanded).not.toEqual([]);
      expect(await session.undoCompaction(String(compaction?.compactionId))).toEqual([compaction?.compactionId]);
      expect((await session.context()).sha256).toBe(before.sha256);
      const { events } = await client.dispatch("listEvents", { scope: { type: "session", session_id: session.id } });
      expect(events.map(({ payload }) => payload.type)).toContain("compaction_completed");
    });

    it("[G6] rewrites, reads and restores a transcript, and forks", async () => {
      const session = await client.createSession("A heron stood in the pond.");
      const before = await session.revision();
      expect(before.messages).toMatchObject([{ role: "user" }, { role: "block_assistant" }]);
      const crane = { role: "user", content: "A crane stood in the pond." } as const;
      const options = { note: "it was a crane", expectedParentRevision: before.revision };
      const done = await session.rewrite({ start: 0, end: 1 }, [crane], options);
      expect((await session.history()).messages[0]).toMatchObject(crane);
      expect(await session.rewrites()).toEqual([done.commit]);
      expect((await session.revision(before.revision, { limit: 1 })).messages).toEqual(before.messages.slice(0, 1));
      await expect(session.rewrite({ start: 0, end: 1 }, [crane])).rejects.toEqual(code("INVALID_PARAMS"));
      expect(await session.restore(before.revision)).toMatchObject({ parentRevision: done.revision });
      expect(await session.history()).toMatchObject({ messages: before.messages });
      const fork = await session.fork(0, { type: "message", message: crane });
      expect((await fork.turn("And then?")).text).toBe("You said: And then?");
      expect((await (await session.fork(1)).history()).messageCount).toBe(1);
    });

    it("[G6] searches memory, and what an agent remembers", async () => {
      await client.createSession("The brass key is under the third stone.");
      const { results } = await client.searchMemory("brass key & stone?", { everything: true, limit: 3 });
      expect(results[0]?.content).toContain("third stone");
      expect((await client.searchMemory("brass key")).results).toEqual([]);
      const ada = client.agent("ada");
      expect(await ada.remember("A heron stood in the pond.", { place: "pond" })).toEqual({
        count: 1,
        compactionDue: false,
      });
      expect(await ada.note("Herons come at dusk.", "Herons")).toBe(1);
      expect((await ada.context({ immediate: 1 })).prompt).toContain("A heron stood in the pond.");
      expect(await ada.status()).toMatchObject({ agent: "ada", count: 1 });
      expect(await ada.shouldCompact()).toBe(false);
      expect((await client.dispatch("listAgents", {})).agents).toMatchObject([{ agent: "ada" }]);
    });

    it("[G6] reads the full text of what was cut, and what the runtime can do", async () => {
      const session = await client.createSession("call read_log");
      const { messages } = await session.history();
      const [, blobId = ""] = /blob (sha256:[0-9a-f]{64})/.exec(JSON.stringify(messages)) ?? [];
      const { data, mediaType } = await client.readBlob(blobId);
      expect(new TextDecoder().decode(data)).toBe(LONG_OUTPUT);
      expect(mediaType).toMatch(/^text\/plain/);
      const { capabilities } = await client.dispatch("readCapabilities", {});
      expect(capabilities).toContainEqual(expect.objectContaining({ id: "session_store", status: "Available" }));
      expect((await client.dispatch("readModels", {})).providers).not.toEqual([]);
    });

    it("[G6] says of a session what its newest turn used and did", async () => {
      const session = await client.createSession("call read_log");
      const { usage, turns, toolCalls: tool_calls } = session.lastResult ?? {};
      expect(session).toMatchObject({ usage, turns, toolCalls: tool_calls });
      expect([session.turns, session.toolCalls, usage?.totalTokens === undefined]).toEqual([2, 1, false]);
      await session.turn("Hello");
      expect([session.turns, session.toolCalls]).toEqual([1, 0]);
      const other = client.session(session.id);
      expect([other.usage, other.turns, other.toolCalls]).toEqual([undefined, 0, 0]);
    });

    it("[G6] [I2] asks its function about calls, and rejects the turn where that answers what is no answer", async () => {
      const permissions = { ask: ["read_log"] };
      const onApproval = async () => "allow";
      // Without a token a client may not answer, and hears so instead of waiting for somebody who may.
      if (!hasTools) {
        const denied = client.createSession("call read_log", { permissions, onApproval });
        return expect(denied).rejects.toEqual(code("PERMISSION_DENIED", /scope approve/));
      }
      const session = await client.createSession("call read_log", { permissions, onApproval });
      expect(session.toolCalls).toBe(1);
      expect(await session.turn("call read_log")).toMatchObject({ toolCalls: 1 });
      const refused = code("INVALID_PARAMS", /^onApproval returned alow: decision: .*; return "allow", "deny", /);
      await expect(session.turn("call read_log", { onApproval: async () => "alow" })).rejects.toEqual(refused);
      expect(await session.turn("Hello")).toMatchObject({ text: "You said: Hello" });
    });

    it("[G6] throws the errors of the table", async () => {
      const session = await client.createSession("Hello");
      await expect(client.readSession(NOBODY)).rejects.toEqual(code("SESSION_NOT_FOUND", new RegExp(NOBODY)));
      await expect(client.readSession("x/../y")).rejects.toEqual(code("INVALID_PARAMS", /sessionId/));
      await expect(client.readSession("..")).rejects.toEqual(code("INVALID_PARAMS", /sessionId/));
      await expect(client.dispatch("readSession", {})).rejects.toEqual(code("INVALID_PARAMS", /session_id/));
      await expect(client.createSession("")).rejects.toEqual(code("INVALID_PARAMS", /prompt/));
      await expect(client.createSession("Hello", { maxTokens: -1 })).rejects.toEqual(code("INVALID_PARAMS"));
      await expect(session.turn("Hello", { flowToolOverlay: { allowed_tools: 3 as never } })).rejects.toEqual(
        code("INVALID_PARAMS", /allowedTools/),
      );
      await expect(session.undoCompaction(NOBODY)).rejects.toEqual(code("SESSION_NOT_FOUND"));
      await expect(client.agent("not a name!").status()).rejects.toEqual(code("INVALID_PARAMS", /agent/));
      await expect(client.searchMemory("")).rejects.toEqual(code("INVALID_PARAMS", /query/));
      await expect(client.listSessions({ limit: -1 })).rejects.toEqual(code("INVALID_PARAMS", /limit/));
      await expect(client.readBlob("sha256:none")).rejects.toEqual(code("INVALID_PARAMS"));
    });

    it("[G6] says which capability is missing", async () => {
      const { client: unkept, close: end } = await open("unkept");
      onTestFinished(end);
      const session = await unkept.createSession("Hello");
      expect(await session.turn("More")).toMatchObject({ text: "You said: More" });
      await expect(session.history()).rejects.toEqual(code("SESSION_PERSISTENCE_DISABLED", /^Session persistence is/));
      await expect(session.compact()).rejects.toEqual(code("SESSION_COMPACTION_DISABLED"));
      await expect(unkept.searchMemory("key")).rejects.toEqual(code("MEMORY_STORE_DISABLED"));
      await expect(unkept.createSession("Hello", { enableMemory: true })).rejects.toEqual(
        code("MEMORY_STORE_DISABLED"),
      );
      expect((await collectWhileTurning(unkept, session)).at(-1)?.event.type).toBe("run_completed");
    });

    it("[G6] keeps fifty turns at once apart, also where all begin with the same words", async () => {
      const prompts = Array.from({ length: 50 }, (_, index) => (index % 2 === 0 ? "The same" : `Number ${index}`));
      const streams = prompts.map((prompt) => client.createSessionStreaming(prompt));
      const received = await Promise.all(streams.map(listen));
      const ids = received.map(({ result }) => result?.sessionId);
      expect(new Set(ids).size).toBe(50);
      expect(received.map(({ events }) => typesOf(events))).toEqual(prompts.map(() => [...TURN, "run_completed"]));
      expect(received.map(({ events }) => events[0])).toEqual(
        prompts.map((prompt, index) => ({ type: "run_started", session_id: ids[index], prompt })),
      );
      expect(received.map(({ result }) => result?.text)).toEqual(prompts.map((prompt) => `You said: ${prompt}`));
    });

    it("[G6] works beside another client, and refuses calls once it is closed", async () => {
      const { client: one, close: end } = await open();
      onTestFinished(end);
      const [first, second] = await Promise.all([one.createSession("One"), client.createSession("Two")]);
      const following = one.subscribe(first.id)[Symbol.asyncIterator]();
      const next = following.next();
      await one.close();
      await one.close();
      expect((await next).done).toBe(true);
      await expect(first.turn("More")).rejects.toEqual(code("AGENT_ERROR", /closed/));
      expect(await second.turn("More")).toMatchObject({ text: "You said: More" });
    });

    if (hasTools) describeClientTools(() => client);
    else {
      it("[G6] refuses tools of its own in one sentence", async () => {
        const tools = [weather(() => "rain")];
        await expect(client.createSession("Hello", { tools })).rejects.toEqual(code("INVALID_PARAMS", /^tools: /));
      });
    }

    if (death !== undefined) {
      it("[G6] tells of a server that dies in the middle of a turn, and of nothing else after", async () => {
        const { client: dying, close: end } = await open();
        onTestFinished(end);
        const session = await dying.createSession("Hello");
        const waiting = await beginWaiting(await dying.createSession("Hello"));
        await expect(session.turn("call die")).rejects.toEqual(code("AGENT_ERROR", death));
        await expect(waiting.result).rejects.toEqual(code("AGENT_ERROR", death));
        await expect(session.turn("Hello")).rejects.toEqual(code("AGENT_ERROR"));
      });
    }
  });
}
