import type { Client } from "@rkat/client";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { ClientWay } from "./client.ts";

/** What the handles of a session and of an agent are derived from is the same wherever the runtime is. */
export function describeSessionMethods({ name, open }: ClientWay): void {
  describe(`methods: ${name}`, () => {
    let client: Client;
    let close: () => Promise<void>;
    beforeAll(async () => {
      ({ client, close } = await open());
    });
    afterAll(() => close());

    it("[G6] makes a session without a prompt, whose first turn brings one", async () => {
      const session = await client.createSession({ labels: { team: "red" } });
      expect([session.text, session.lastResult]).toEqual(["", undefined]);
      expect(await session.read()).toMatchObject({ messageCount: 0, labels: { team: "red" } });
      expect(await session.turn("Hello")).toMatchObject({ text: "You said: Hello" });
      await expect(client.createSession("")).rejects.toMatchObject({ message: "prompt: the prompt is empty" });
    });

    it("[G6] lets a session's first turn run behind its answer", async () => {
      const session = await client.createSession("Hello", { keepAlive: true });
      expect(session.lastResult).toMatchObject({ text: "", turns: 0 });
      await expect.poll(async () => (await session.read()).state, { timeout: 60_000 }).toBe("idle");
      expect(await session.read()).toMatchObject({ lastAssistantText: "You said: Hello" });
    });

    it("[G6] injects, tells of an event, and reads events as methods of the session", async () => {
      const session = await client.createSession("Hello");
      const once = { source: "clock", idempotencyKey: "noon" };
      expect(await session.inject("It is noon.", once)).toEqual({ status: "staged" });
      expect(await session.inject("It is noon.", once)).toEqual({ status: "duplicate" });
      const reported = await session.sendExternalEvent("door_opened", { payload: { door_id: 4, doorName: "north" } });
      expect(reported).toMatchObject({ outcomeType: "accepted" });
      await session.turn("And now?");
      const shown = JSON.stringify((await session.context()).messages);
      expect([shown.includes("door_id"), shown.includes("doorName")]).toEqual([true, true]);
      const { events, hasMore: has_more } = await session.listEvents({ after: 0, limit: 2 });
      expect([events.length, has_more]).toEqual([2, true]);
      for await (const { seq } of session.events({ after: 0 })) {
        expect(seq).toBe(events[0]?.cursor.sequence);
        break;
      }
    });

    it("[C18] lists what is pinned", async () => {
      const session = await client.createSession("Hello");
      const [first] = (await session.history()).messages;
      await session.pin(first?.seq ?? 0);
      expect(await session.pins()).toEqual({ pins: [first?.seq] });
    });

    it("[G6] has the operations about nothing in particular under their own names", async () => {
      await client.agent("ada").remember("A heron stood in the pond.");
      expect((await client.listAgents()).agents).toMatchObject([{ agent: "ada" }]);
      expect((await client.searchHistory("heron", { agent: "ada", limit: 1 })).results).toHaveLength(1);
      expect((await client.readModels()).providers).not.toEqual([]);
      expect(await client.patchConfig({ agent: { max_turns: 7 } })).toMatchObject({
        config: { agent: { max_turns: 7 } },
      });
    });

    it("[G6] takes both spellings inside an option, and leaves the keys of a user's data alone", async () => {
      const labels = { max_tokens: "a", maxTokens: "b" };
      for (const budgetLimits of [{ maxTokens: 5, maxToolCalls: 1 }, { max_tokens: 5 }]) {
        const { lastResult } = await client.createSession("Hello", { budgetLimits, labels });
        expect(lastResult).toMatchObject({ terminalCauseKind: "budget_exhausted" });
      }
      const [listed] = await client.listSessions({ labels });
      expect(listed?.labels).toEqual(labels);
      const metadata = { who_was_there: ["Mara"], whereAbouts: { north_gate: true } };
      await client.agent("eve").remember("The gate was open.", metadata);
      expect((await client.agent("eve").context()).immediate[0]?.metadata).toEqual(metadata);
    });

    it("[H1] names a wrong field as the caller wrote it, and a wrong option with the right one", async () => {
      const wrong = [
        [{ budgetLimits: { maxTokens: "many" } }, /^budgetLimits\.maxTokens: /],
        [{ budgetLimits: { maxTokns: 5 } }, /maxTokns is no limit; write maxTokens, maxToolCalls, .*maxDuration, /],
        [{ budgetLimit: {} }, /^budgetLimit is no option; did you mean budgetLimits\?$/],
        [{ labels: 5 }, /^labels: /],
      ] as const;
      for (const [options, message] of wrong) {
        const refused = { code: "INVALID_PARAMS", message: expect.stringMatching(message) };
        await expect(client.createSession("Hello", options as never)).rejects.toMatchObject(refused);
      }
      const session = client.session("01900000-0000-7000-8000-000000000000");
      await expect(session.history({ page: 2 } as never)).rejects.toMatchObject({
        message: "page is no option; there are limit, offset, signal",
      });
    });
  });
}
