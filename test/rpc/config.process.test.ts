import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseToml } from "@rkat/node/config/config-file";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { asFrame, type Frame, failure, type RpcClient } from "../support/rpc-client.ts";
import { startRpc } from "../support/rpc-process.ts";

let home: string;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "rkat-config-rpc-"));
});
afterEach(() => rmSync(home, { recursive: true }));

const FLAGS = ["--realm", "team", "--state-root", "state"];
const file = () => join(home, "state/team/config.toml");
const start = (env: Record<string, string> = {}) => startRpc(home, FLAGS, { env });
const agentOf = (envelope: Frame) => asFrame(asFrame(envelope.config).agent);

describe("the configuration over the wire", () => {
  it("[G2] is kept for the next start, and holds at the next turn of every process of the realm", async () => {
    const [one, other] = [start(), start()];
    const hello = { prompt: "What is 2 + 3?" };
    await expect(other.client.request("session/create", hello)).rejects.toEqual(failure(-32602, "INVALID_PARAMS"));
    const changed = await one.client.request("config/patch", { agent: { model: "offline" } });
    expect(changed).toMatchObject({
      generation: 1,
      realm_id: "team",
      backend: "embedded",
      resolved_paths: { config_path: file() },
    });
    expect(await other.client.request("session/create", hello)).toMatchObject({ text: "2 + 3 = 5" });
    expect(await other.client.request("config/get", {})).toEqual(changed);
    for (const { client } of [one, other]) client.end();
    expect(await Promise.all([one.exited, other.exited])).toMatchObject([{ code: 0 }, { code: 0 }]);

    const next = start();
    expect(await next.client.request("config/get")).toEqual(changed);
    expect(await next.client.request("session/create", hello)).toMatchObject({ text: "2 + 3 = 5" });
    next.client.end();
    await next.exited;
  });

  it("[G2] two processes that change it at once do not overwrite each other", async () => {
    const servers = [start(), start()];
    const clients = servers.map(({ client }) => client);
    const atOnce = clients.map((client, index) =>
      client.request("config/patch", { patch: { agent: { max_turns: 10 + index } }, expected_generation: 0 }),
    );
    const outcomes = await Promise.allSettled(atOnce);
    expect(outcomes.map(({ status }) => status).toSorted()).toEqual(["fulfilled", "rejected"]);
    const [lost] = outcomes.flatMap((outcome) => (outcome.status === "rejected" ? [outcome.reason] : []));
    expect(lost).toMatchObject({
      number: -32602,
      data: {
        code: "INVALID_PARAMS",
        message: "Generation conflict: expected 0, current 1",
        details: { type: "generation_conflict", expected_generation: 0, current_generation: 1 },
      },
    });

    await clients[0]?.request("config/set", { config: { agent: { max_turns: 1 } } });
    await Promise.all(clients.map((client) => countUp(client, 10)));
    const envelope = await clients[0]?.request("config/get");
    expect(envelope).toMatchObject({ generation: 22, config: { agent: { max_turns: 21 } } });
    for (const client of clients) client.end();
    await Promise.all(servers.map(({ exited }) => exited));
  });

  it("[F7] [G2] kill -9 between its writes leaves a whole one, with everything that was acknowledged", async () => {
    const text = (turns: number) => `${turns} `.repeat(4_000);
    const KILLS = 4;
    let sent = 0;
    let acknowledged = 0;
    for (let kill = 1; kill <= KILLS; kill += 1) {
      const { child, client, exited } = start();
      for (let burst = 0; burst < 40; burst += 1) {
        sent += 1;
        const turns = sent;
        const patch = { agent: { max_turns: turns, system_prompt: text(turns) } };
        const { result } = client.start("config/patch", patch);
        result.then(
          (envelope) => {
            acknowledged = Math.max(acknowledged, Number(agentOf(envelope).max_turns));
            // Another write is under way at this very moment.
            if (turns % 40 === kill * 3) child.kill("SIGKILL");
          },
          () => {},
        );
      }
      await exited;
      const { agent } = parseToml(readFileSync(file(), "utf8"), file());
      const { max_turns, system_prompt } = asFrame(agent);
      expect(system_prompt).toBe(text(Number(max_turns)));
      expect(max_turns).toBeGreaterThanOrEqual(acknowledged);
      expect(max_turns).toBeLessThanOrEqual(sent);
    }
    expect(acknowledged).toBeGreaterThan(0);
    const { client, exited } = start();
    const { generation } = await client.request("config/get");
    expect(await client.request("config/patch", { agent: { max_turns: 5 } })).toMatchObject({
      generation: Number(generation) + 1,
    });
    client.end();
    expect(await exited).toMatchObject({ code: 0 });
  }, 60_000);

  it("[H1] a file that is no TOML is one sentence at the start, and a warning to who runs already", async () => {
    const running = start();
    await running.client.request("config/patch", { agent: { model: "offline", max_turns: 7 } });
    writeFileSync(file(), "[agent\nmodel = ");
    const refused = await start().exited;
    expect(refused).toEqual({
      code: 2,
      stderr: expect.stringMatching(
        /^rkat-rpc: .*state.team.config\.toml is not valid TOML at line 1, column 7: .*\n$/,
      ),
    });
    expect(await running.client.request("session/create", { prompt: "What is 2 + 3?" })).toMatchObject({ turns: 1 });
    expect(await running.client.request("config/get")).toMatchObject({ config: { agent: { max_turns: 7 } } });
    await expect(running.client.request("config/patch", { agent: { max_turns: 8 } })).rejects.toEqual(
      failure(-32602, "INVALID_PARAMS", /^the realm's config\.toml cannot be read, .*set it as a whole, or fix it$/),
    );
    expect(await running.client.request("config/set", { agent: { max_turns: 8 } })).toMatchObject({ generation: 3 });
    running.client.end();
    expect((await running.exited).stderr).toMatch(/config\.toml is not valid TOML .*from before is used until/);
  });

  it("[F2] lives in the process where nothing is kept", async () => {
    const { client, exited } = start({ RKAT_FEATURES: "none" });
    await client.request("config/patch", { agent: { model: "offline" } });
    expect(await client.request("session/create", { prompt: "What is 2 + 3?" })).toMatchObject({ text: "2 + 3 = 5" });
    client.end();
    await exited;
    expect(existsSync(join(home, "state"))).toBe(false);
  });

  it("[G2] of the environment wins over what is set, and what is set over the project's file", async () => {
    mkdirSync(join(home, ".rkat"));
    writeFileSync(join(home, "rkat.toml"), "[agent]\nmax_turns = 3\nmax_tokens_per_turn = 30\n");
    const { client, exited } = start({ RKAT_MAX_TURNS: "5" });
    const { config } = await client.request("config/set", { agent: { max_turns: 4, max_tokens_per_turn: 40 } });
    expect(asFrame(config).agent).toMatchObject({ max_turns: 5, max_tokens_per_turn: 40 });
    client.end();
    await exited;
  });
});

/** Raises `agent.max_turns` by one so often, reading it again whenever somebody else was faster. */
async function countUp(client: RpcClient, times: number): Promise<void> {
  const TRIES_MAX = 1_000;
  let done = 0;
  for (let tries = 0; done < times && tries < TRIES_MAX; tries += 1) {
    const envelope = await client.request("config/get");
    const max_turns = Number(agentOf(envelope).max_turns) + 1;
    const change = { patch: { agent: { max_turns } }, expected_generation: envelope.generation };
    await client.request("config/patch", change).then(
      () => {
        done += 1;
      },
      (error) => expect(error).toMatchObject({ data: { details: { type: "generation_conflict" } } }),
    );
  }
  expect(done).toBe(times);
}
