import type { Client, Tool } from "@rkat/client";
import { expect, it } from "vitest";

/** A tool that a client brings. */
export const weather = (execute: Tool["execute"]): Tool => ({
  name: "weather",
  description: "The weather in a city.",
  inputSchema: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  execute,
});

/** Tools of the client's own, for the clients that can bring some. */
export function describeClientTools(clientOf: () => Client): void {
  it("[G6] runs tools of its own, each session's apart, and shows the model what they throw", async () => {
    const client = clientOf();
    const calls: unknown[] = [];
    const sky = (word: string) =>
      weather((args, { sessionId, toolUseId, signal }) => {
        calls.push([args, sessionId, toolUseId !== "", signal.aborted]);
        return word;
      });
    const ask = 'call weather {"city":"Oslo"}';
    const [rain, snow] = await Promise.all([
      client.createSession(ask, { tools: [sky("rain")] }),
      client.createSession(ask, { tools: [sky("snow")] }),
    ]);
    expect([rain.text, snow.text]).toEqual(['It gave [["rain",false]]', 'It gave [["snow",false]]']);
    expect(new Set(calls)).toEqual(new Set([rain, snow].map(({ id }) => [{ city: "Oslo" }, id, true, false])));
    expect(await rain.turn(ask)).toMatchObject({ text: 'It gave [["rain",false]]' });
    expect((await rain.turn('call weather {"city":7}')).text).toMatch(/true\]\]$/);
    const broken = weather(() => {
      throw new Error("the sensor is wet");
    });
    expect((await client.createSession(ask, { tools: [broken] })).text).toMatch(/the sensor is wet.*true/);
    const blocks = weather(() => ({ content: [{ type: "text", text: "fog" }], isError: true }));
    expect((await client.createSession(ask, { tools: [blocks] })).text).toMatch(/fog.*true/);
    const object = weather(async () => ({ sky: "fog" }));
    expect((await client.createSession(ask, { tools: [object] })).text).toBe(
      'It gave [["{\\"sky\\":\\"fog\\"}",false]]',
    );
  });

  it("[G6] [I1] never runs a tool of its own that needs approval without one", async () => {
    const ran: string[] = [];
    const tools = [{ ...weather(() => ran.push("rain")), needsApproval: true }];
    const ask = 'call weather {"city":"Oslo"}';
    const made = clientOf().createSession(ask, { tools, onApproval: () => "deny" });
    // A server cannot be told of it, and what cannot be done is refused.
    expect(await made.then(({ text }) => text, String)).toMatch(
      /the user denied it|needsApproval of weather cannot be sent/,
    );
    expect(ran).toEqual([]);
  });

  it("[G6] lets a tool of its own go on when another turn of its session is refused", async () => {
    const client = clientOf();
    const busy = weather(async (_, { sessionId, signal }) => {
      const refused = await client
        .session(sessionId)
        .turn("Me, too")
        .catch((thrown) => thrown);
      return `${refused.code} ${signal.aborted}`;
    });
    const { text } = await client.createSession('call weather {"city":"Oslo"}', { tools: [busy] });
    expect(text).toBe('It gave [["SESSION_BUSY false",false]]');
  });

  it("[G6] tells a tool of its own that its turn was interrupted", async () => {
    const client = clientOf();
    const { promise: reported, resolve } = Promise.withResolvers<string>();
    const slow = weather(
      (_, { sessionId, signal }) =>
        new Promise(() => {
          signal.addEventListener("abort", () => resolve("aborted"), { once: true });
          void client.session(sessionId).interrupt();
        }),
    );
    const creating = client.createSession('call weather {"city":"Oslo"}', { tools: [slow] });
    await expect(creating).rejects.toMatchObject({ name: "RuntimeError", code: "REQUEST_CANCELLED" });
    expect(await reported).toBe("aborted");
  });
}
