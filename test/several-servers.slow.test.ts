import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { conformanceToml } from "@rkat/conformance/conformance";
import { type ModelServer, openModelServer } from "@rkat/conformance/model-server";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { usePausedModel } from "./support/paused-model.ts";
import { databaseFor, withPostgres } from "./support/postgres.ts";
import { createCaller, eventsUntil, readEvents, type SseEvent } from "./support/rest-server.ts";
import { type Started, startRkat } from "./support/rkat-process.ts";

const TOKEN = "several-servers";
const BEARER = { authorization: `Bearer ${TOKEN}` };
const MS_MAX = 60_000;
const root = mkdtempSync(join(tmpdir(), "rkat-several-"));
const started: Started[] = [];
let models: ModelServer;
beforeAll(async () => {
  models = await openModelServer(0);
});
afterEach(async () => {
  for (const { child } of started) child.kill("SIGKILL");
  await Promise.all(started.splice(0).map(({ ended }) => ended));
});
afterAll(async () => {
  await models.close();
  rmSync(root, { recursive: true, force: true });
});

/** A folder to work in, configured for the models of the scenarios. */
function newFolder(): string {
  const folder = mkdtempSync(join(root, "machine-"));
  const toml = conformanceToml(models.url, ["session-store", "memory-store", "session-compaction"]);
  // Short, since a test waits for it; longer than a busy machine keeps a server from renewing it.
  writeFileSync(join(folder, "rkat.toml"), `${toml}\n[store]\nlease = "5s"\n`);
  return folder;
}

/** Where the servers of one crowd work: on one folder, or on machines of their own with one database. */
type Place = () => Promise<() => { readonly folder: string; readonly env: Record<string, string> }>;

const onFolder: Place = async () => {
  const folder = newFolder();
  return () => ({ folder, env: {} });
};

const onDatabase: Place = async () => {
  const url = await databaseFor("servers");
  return () => ({ folder: newFolder(), env: { RKAT_STORE_URL: url, RKAT_STORE_REALM: "crowd" } });
};

const isDurable = ({ id }: SseEvent): boolean => id !== undefined;
const numbersOf = (events: readonly SseEvent[]) => events.filter(isDurable).map(({ id }) => id);

function describeServers(place: Place): void {
  const pausedModel = usePausedModel();

  async function startTwo(config = "") {
    const next = await place();
    const start = async () => {
      const { folder, env } = next();
      const toml = join(folder, "rkat.toml");
      // Two servers on one folder share it.
      if (!readFileSync(toml, "utf8").includes(config)) appendFileSync(toml, config);
      const server = startRkat(folder, ["serve", "--port", "0", "--json"], {
        env: { ...env, ...pausedModel.env(), RKAT_TOKEN: TOKEN, XDG_DATA_HOME: join(folder, "data") },
      });
      started.push(server);
      await server.saw('"}\n');
      const { url } = JSON.parse(server.said()) as { readonly url: string }; // What --json says.
      const call = createCaller(url);
      return {
        url,
        call: (route: string, body?: unknown) => call(route, body, BEARER),
        events: (id: unknown, after: number | undefined) =>
          readEvents(`${url}/sessions/${id}/events`, {
            ...BEARER,
            ...(after === undefined ? {} : { "last-event-id": String(after) }),
          }),
        /** The numbers of the events that are kept. */
        kept: async (id: unknown): Promise<readonly number[]> => {
          const { body } = await call(`GET /sessions/${id}/events/list`, undefined, BEARER);
          const rows = body.events as readonly { readonly cursor: { readonly sequence: number } }[]; // As the table says.
          return rows.map(({ cursor }) => cursor.sequence);
        },
        kill: async () => {
          server.child.kill("SIGKILL");
          await server.ended;
        },
      };
    };
    return Promise.all([start(), start()]);
  }

  it(
    "[I4] [F11] let the same tokens in, whichever machine made or revoked them, and stay closed without any",
    async () => {
      const next = await place();
      const places = [next(), next()] as const;
      const run = async (at: 0 | 1, ...args: readonly string[]) => {
        const { folder, env } = places[at];
        const { code, stdout, stderr } = await startRkat(folder, args, { env }).ended;
        expect({ args, code, stderr }).toMatchObject({ args, code: 0 });
        return stdout.trim();
      };
      const create = (at: 0 | 1, name: string) => run(at, "token", "create", "--name", name, "--scope", "read");
      const early = await create(0, "early");
      const calls = await Promise.all(
        places.map(async ({ folder, env }) => {
          const server = startRkat(folder, ["serve", "--port", "0", "--json"], { env });
          started.push(server);
          await server.saw('"}\n');
          const call = createCaller((JSON.parse(server.said()) as { readonly url: string }).url); // What --json says.
          return async (secret: string) =>
            (await call("GET /sessions", undefined, { authorization: `Bearer ${secret}` })).status;
        }),
      );
      const statuses = (secret: string) => Promise.all(calls.map((status) => status(secret)));
      const become = (secret: string, status: number) =>
        vi.waitFor(async () => expect(await statuses(secret)).toEqual(calls.map(() => status)), { timeout: MS_MAX });
      expect(await statuses(early)).toEqual([200, 200]);
      expect(await statuses("wrong")).toEqual([401, 401]);
      const late = await create(1, "late");
      await become(late, 200);
      expect(await run(0, "token", "list")).toContain("late");
      await run(1, "token", "revoke", "early");
      await become(early, 401);
      await run(0, "token", "revoke", "late");
      await become(late, 401);
      expect(await statuses("")).toEqual([401, 401]);
      const again = await create(0, "early");
      await become(again, 200);
      expect(await statuses(early)).toEqual([401, 401]);
    },
    3 * MS_MAX,
  );

  it(
    "[F11] answer for a session that was made at another: turns, reads, lists, compaction, memory",
    async () => {
      const [one, two] = await startTwo();
      const made = await one.call("POST /sessions", { prompt: "My name is Ada.", model: "offline" });
      const id = made.body.session_id;
      const further = await two.call(`POST /sessions/${id}/messages`, { prompt: "What is my name?" });
      expect(further).toMatchObject({ status: 200, body: { text: expect.stringContaining("Ada") } });
      await one.call(`POST /sessions/${id}/messages`, { prompt: "The colour of the harbour is teal." });
      const { body: compacted } = await two.call(`POST /sessions/${id}/compact`, {});
      expect(compacted).toMatchObject({ compacted: true });
      await one.call(`POST /sessions/${id}/messages`, { prompt: "Thanks." });
      for (const path of [
        `/sessions/${id}`,
        `/sessions/${id}/history`,
        `/sessions/${id}/context`,
        `/sessions/${id}/compactions`,
        "/sessions",
        "/usage",
      ]) {
        const [here, there] = [await one.call(`GET ${path}`), await two.call(`GET ${path}`)];
        expect({ path, ...there.body }).toEqual({ path, ...here.body });
        expect(here.status).toBe(200);
      }
      for (const { call } of [one, two]) {
        const found = await call("GET /memory/history?query=colour%20of%20the%20harbour");
        expect(JSON.stringify(found.body)).toContain("teal");
        expect((await call("GET /runtime/host_info")).body).toMatchObject({
          realm: (await one.call("GET /runtime/host_info")).body.realm,
        });
      }
    },
    MS_MAX,
  );

  it(
    "[F11] tell a turn of another as it runs, each event once, and go on at any of them after Last-Event-ID",
    async () => {
      const [one, two] = await startTwo();
      const { body } = await one.call("POST /sessions", { prompt: "Later.", initial_turn: "deferred" });
      const id = body.session_id;
      const received = eventsUntil(two.events(id, 0), "run_completed");
      const turn = one.call(`POST /sessions/${id}/messages`, { prompt: "Tell a story." });
      await vi.waitUntil(() => pausedModel.asked.length === 1, { timeout: MS_MAX });
      pausedModel.finish();
      expect((await turn).body).toMatchObject({ text: "Once upon a time." });
      const events = await received;
      const numbers = numbersOf(events);
      expect(numbers).toEqual(await one.kept(id));
      expect(events.find(({ type }) => type === "run_completed")?.data.payload).toMatchObject({
        result: "Once upon a time.",
      });
      const middle = numbers[1];
      for (const { events: listen } of [one, two]) {
        const rest = numbersOf(await eventsUntil(listen(id, middle), "run_completed"));
        expect(rest).toEqual(numbers.slice(2));
      }
    },
    MS_MAX,
  );

  it(
    "[F11] interrupt a turn that runs at another",
    async () => {
      const [one, two] = await startTwo();
      const { body } = await two.call("POST /sessions", { prompt: "Later.", initial_turn: "deferred" });
      const id = body.session_id;
      const turn = one.call(`POST /sessions/${id}/messages`, { prompt: "Tell a story." });
      await vi.waitUntil(() => pausedModel.asked.length === 1, { timeout: MS_MAX });
      const busy = await two.call(`POST /sessions/${id}/messages`, { prompt: "Me, too." });
      expect(busy.body).toMatchObject({ code: "SESSION_BUSY" });
      expect((await two.call(`POST /sessions/${id}/interrupt`)).body).toMatchObject({ interrupted: true });
      expect((await turn).body).toMatchObject({ code: "REQUEST_CANCELLED" });
    },
    MS_MAX,
  );

  it(
    "[F11] take over what a killed one held: its turn is told to have ended with it, and the next one runs",
    async () => {
      // Else the second might continue the turn before it is asked for the next one.
      const [one, two] = await startTwo("[turns]\nresume = false\n");
      const { body } = await one.call("POST /sessions", { prompt: "My name is Ada.", model: "offline" });
      const id = body.session_id;
      const received = eventsUntil(two.events(id, 0), "run_failed");
      const lost = one.call(`POST /sessions/${id}/messages`, { prompt: "Tell a story.", model: "openai/m" });
      const broken = lost.catch((error: Error) => error.message);
      await vi.waitUntil(() => pausedModel.asked.length === 1, { timeout: MS_MAX });
      await one.kill();
      expect(await broken).toContain("fetch failed");
      const next = await vi.waitUntil(
        async () => {
          const asked = await two.call(`POST /sessions/${id}/messages`, {
            prompt: "What is my name?",
            model: "offline",
          });
          return asked.body.code === "SESSION_BUSY" ? undefined : asked;
        },
        { timeout: MS_MAX, interval: 100 },
      );
      expect(next).toMatchObject({ status: 200, body: { text: expect.stringContaining("Ada") } });
      const events = await received;
      expect(numbersOf(events)).toEqual((await two.kept(id)).slice(0, numbersOf(events).length));
      expect(events.at(-1)?.data.payload).toMatchObject({
        error: "the process ended before the turn did",
      });
      const { body: history } = await two.call(`GET /sessions/${id}/history`);
      expect(JSON.stringify(history)).toContain("Tell a story.");
    },
    MS_MAX,
  );

  it(
    "[F11] [I2] answer at one what another has asked",
    async () => {
      const [one, two] = await startTwo();
      const turn = one.call("POST /sessions", {
        prompt: "Make a task, aaaaaaaa.",
        model: "conformance-tools",
        tool_preset: "safe",
        permissions: { ask: ["task_*"] },
      });
      const asked = await vi.waitUntil(
        async () => {
          const { body } = await two.call("GET /approvals");
          const [first] = body.approvals as { session_id: string; approval_id: string }[]; // As the table says.
          return first;
        },
        { timeout: MS_MAX, interval: 100 },
      );
      const path = `/sessions/${asked.session_id}/approvals/${asked.approval_id}`;
      const answered = await two.call(`POST ${path}`, { decision: "allow" });
      expect(answered).toMatchObject({ status: 200, body: { answered: true } });
      expect(await turn).toMatchObject({ status: 200, body: { session_id: asked.session_id, tool_calls: 2 } });
    },
    MS_MAX,
  );
}

describe("several servers on one folder", () => describeServers(onFolder));
withPostgres("several servers on one database", () => describeServers(onDatabase));
