import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ChatOpenAI } from "@langchain/openai";
import OpenAI from "openai";
import { openAiBaseUrlWire } from "../wire/openai-chat.ts";
import type { Scenario } from "../wire/scenario.ts";
import { openWireServer, type Reply } from "../wire/server.ts";
import { startRkat } from "./rkat-process.ts";

export const MODEL = "gpt-4.1";
export const LOOK = { type: "object" as const, properties: { at: { type: "string" as const } }, required: ["at"] };
export const chatTools = ["look", "hear"].map((name) => ({
  type: "function" as const,
  function: { name, parameters: LOOK },
}));

export const says = (...text: string[]): Reply => ({ kind: "answer", scenario: { text } });
export const calls = (name: string, args: object): Reply => {
  const call = { id: `call_${crypto.randomUUID()}`, name, args: JSON.stringify(args) };
  const scenario: Scenario = { toolCalls: [call] };
  return { kind: "answer", scenario };
};

/** `rkat serve` as a process, with a provider behind it that speaks OpenAI's wire, and clients before it. */
export async function openClientServer() {
  const folder = mkdtempSync(join(tmpdir(), "rkat-clients-"));
  mkdirSync(join(folder, ".rkat"));
  writeFileSync(join(folder, ".rkat/config.toml"), '[retry]\ninitial_delay = "1ms"\nmax_delay = "1ms"\n');
  const provider = await openWireServer(openAiBaseUrlWire);
  const env = { OPENAI_API_KEY: "k", OPENAI_BASE_URL: `${provider.url}/v1`, RKAT_TRUST: "1" };
  const server = startRkat(folder, ["serve", "--port", "0", "--json"], { env });
  await server.saw("\n");
  const { url } = JSON.parse(server.said()) as { url: string };
  const baseURL = `${url}/v1`;
  let place = 0;
  let before = { calls: 0, sessions: 0 };
  const count = async () => {
    const response = await fetch(`${url}/sessions?limit=200`);
    const { sessions } = (await response.json()) as { sessions: readonly unknown[] };
    return { calls: provider.requests.length, sessions: sessions.length };
  };
  return {
    provider,
    baseURL,
    openai: (options: { maxRetries?: number } = { maxRetries: 0 }) =>
      new OpenAI({ baseURL, apiKey: "none", ...options }),
    langchain: (more: Partial<ConstructorParameters<typeof ChatOpenAI>[0]> = {}) =>
      new ChatOpenAI({ model: MODEL, apiKey: "none", maxRetries: 0, configuration: { baseURL }, ...more }),
    /** Begins a case: what it says is nobody else's, so that it goes on with no other's session. */
    begin: async (): Promise<string> => {
      provider.takeBack();
      before = await count();
      place += 1;
      return `Look at place ${place}.`;
    },
    /** What the provider was sent in the first call of the case. */
    firstCall: () => provider.requests[before.calls]?.body,
    /** What a case has cost: calls of the provider, and sessions made. */
    cost: async () => {
      const after = await count();
      return { calls: after.calls - before.calls, sessions: after.sessions - before.sessions };
    },
    close: async () => {
      server.child.kill();
      await server.ended;
      await provider.close();
      rmSync(folder, { recursive: true });
    },
  };
}
