import { OPERATIONS, type OperationName } from "@rkat/core/contract/operations";
import { createInMemoryStore } from "@rkat/core/create-runtime";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { describe, expect, it } from "vitest";
import { composedRuntime, serveBoth, tokenFolder } from "../support/tokens.ts";

const UNKNOWN = "018f0000-0000-7000-8000-000000000000";

/** Two teams on one server, a session of each. */
async function twoTeams(runtime = composedRuntime()) {
  const { stateFolder, create, files } = tokenFolder();
  const scopes = ["read", "run", "config"] as const;
  const a = await create("team-a", { scopes: [...scopes], labels: { team: "a" } });
  const b = await create("team-b", { scopes: [...scopes], labels: { team: "b" } });
  const both = await serveBoth(stateFolder, runtime, "s3cret");
  const begin = async (
    bearer: Record<string, string>,
    prompt: string | readonly object[],
    more = {},
  ): Promise<string> => {
    const { body } = await both.call("POST /sessions", { prompt, ...more }, bearer);
    return String(body.session_id);
  };
  return { ...both, files, a, b, admin: { authorization: "Bearer s3cret" }, begin };
}

const BODIES: Partial<Record<OperationName, object>> = {
  startTurn: { prompt: "Go on." },
  resumeSession: { prompt: "Go on." },
  injectContext: { text: "x" },
  sendExternalEvent: { event_type: "x" },
  forkSession: { message_index: 1 },
  forkReplacing: {
    message_index: 0,
    replacement: { type: "message", message: { role: "user", content: "x" } },
  },
};

describe("a token with labels", () => {
  it("[I4] finds of another's session what it finds of none, by every route and tool", async () => {
    const { call, connect, a, b, begin } = await twoTeams();
    const theirs = await begin(b, "The heron is called Ada.");
    const client = await connect(a);
    // The keys of the table are its names.
    for (const name of Object.keys(OPERATIONS) as OperationName[]) {
      const { http } = OPERATIONS[name];
      if (!http.includes("{session_id}")) continue;
      const ask = async (id: string): Promise<unknown> => {
        const route = http.replace("{session_id}", id).replaceAll(/\{\w+\}/g, "1");
        const hasBody = /^(?:POST|PUT|PATCH) /.test(route);
        const { status, body } = await call(route, hasBody ? (BODIES[name] ?? {}) : undefined, a);
        return JSON.parse(JSON.stringify({ status, body }).replaceAll(id, "ID"));
      };
      const reported = await ask(theirs);
      expect(reported, name).toEqual(await ask(UNKNOWN));
      if (name in BODIES) expect(reported, name).toMatchObject({ status: 404, body: { code: "SESSION_NOT_FOUND" } });
    }
    for (const path of ["", "/status", "/events", "/history"]) {
      expect((await call(`GET /sessions/${theirs}${path}`, undefined, a)).status).toBe(404);
      expect((await call(`GET /sessions/test-realm:${theirs}${path}`, undefined, a)).status).toBe(404);
    }
    for (const tool of ["meerkat_read", "meerkat_history", "meerkat_event_stream_open", "meerkat_archive"]) {
      expect((await client.call(tool, { session_id: theirs })).payload.code, tool).toBe("SESSION_NOT_FOUND");
    }
    const scope = { type: "session", session_id: theirs };
    expect((await client.call("meerkat_events_list", { scope })).payload.code).toBe("SESSION_NOT_FOUND");
  });

  it("[I4] lists and makes sessions of its own alone, and forks of them are its own", async () => {
    const { call, a, b, admin, begin } = await twoTeams();
    const [mine, theirs] = [await begin(a, "Hello!", { labels: { kind: "x" } }), await begin(b, "Hello!")];
    const ids = async (bearer: Record<string, string>, query = ""): Promise<unknown[]> => {
      const { body } = await call(`GET /sessions${query}`, undefined, bearer);
      return (body.sessions as { session_id: string }[]).map(({ session_id }) => session_id);
    };
    expect(await ids(a)).toEqual([mine]);
    expect(await ids(a, "?label=kind=x")).toEqual([mine]);
    expect(await ids(a, "?label=team=b")).toEqual([]);
    expect((await ids(admin)).sort()).toEqual([mine, theirs].sort());
    const fork = await call(`POST /sessions/${mine}/fork`, { message_index: 1 }, a);
    expect((await ids(a)).sort()).toEqual([mine, String(fork.body.session_id)].sort());
    expect(await ids(b)).toEqual([theirs]);
    const other = await call("POST /sessions", { prompt: "Hello!", labels: { team: "b" } }, a);
    expect(other).toMatchObject({ status: 403, body: { message: "labels.team: sessions of this token have team=a" } });
    expect((await call(`POST /sessions/${mine}/messages`, { prompt: "Go on.", labels: { kind: "x" } }, a)).status).toBe(
      200,
    );
  });

  it("[I4] finds in memory what its own sessions said, by the operation and by the tools of a turn", async () => {
    const model = createScriptedModel((_, index) =>
      index % 2 === 0
        ? { calls: [{ name: "search_project_history", args: { query: "heron" } }] }
        : { text: "That was all." },
    );
    const { call, a, b, begin } = await twoTeams(composedRuntime({ model }));
    const theirs = await begin(b, "The heron is called Ada.");
    const mine = await begin(a, "Our heron is called Bo.", { enable_memory: true });
    for (const path of ["history", "search"]) {
      const { body } = await call(`GET /memory/${path}?query=heron`, undefined, a);
      expect(JSON.stringify(body)).not.toContain("Ada");
    }
    const { body } = await call("GET /memory/history?query=heron", undefined, a);
    expect(JSON.stringify(body)).toContain("called Bo");
    expect((await call(`GET /memory/history?query=heron&session_id=${theirs}`, undefined, a)).status).toBe(404);
    const history = JSON.stringify((await call(`GET /sessions/${mine}/history`, undefined, a)).body);
    expect(history).toContain("search_project_history");
    expect(history).not.toContain("Ada");
  });

  it("[I4] changes no configuration, whatever its scopes are, and reads it as before", async () => {
    const { stateFolder, create } = tokenFolder();
    const labelled = await create("team-a", { scopes: ["admin", "config"], labels: { team: "a" } });
    const whole = await create("ops", { scopes: ["config"] });
    const { call, connect } = await serveBoth(stateFolder);
    const client = await connect(labelled);
    const patch = { patch: { agent: { max_tokens_per_turn: 999 } } };
    const { body: before } = await call("GET /config", undefined, labelled);
    const refused = { code: "PERMISSION_DENIED", message: expect.stringContaining("this token has labels") };
    expect(await call("PATCH /config", patch, labelled)).toMatchObject({ status: 403, body: refused });
    const all = { config: { agent: { max_tokens_per_turn: 999 } } };
    expect(await call("PUT /config", all, labelled)).toMatchObject({ status: 403, body: refused });
    const changing = [
      ["meerkat_config", { action: "patch", ...patch }],
      ["meerkat_config", { action: "set", ...all }],
    ] as const;
    for (const [tool, input] of changing) expect((await client.call(tool, input)).payload).toMatchObject(refused);
    expect((await call("GET /config", undefined, labelled)).body).toEqual(before);
    expect((await call("PATCH /config", patch, whole)).status).toBe(200);
  });

  it("[I4] sets no variable that decides which program runs, nor does any token but one of admin without labels", async () => {
    const { stateFolder, create } = tokenFolder();
    const scopes = ["read", "run", "tools", "approve", "config"] as const;
    const bearers = {
      approver: await create("approver", { scopes: [...scopes] }),
      labelled: await create("labelled", { scopes: ["admin"], labels: { team: "a" } }),
      ops: await create("ops", { scopes: ["admin"] }),
    };
    const { call, runtime } = await serveBoth(stateFolder);
    const STEERING = [
      "PATH",
      "LD_PRELOAD",
      "GIT_SSH_COMMAND",
      "NODE_OPTIONS",
      "HOME",
      "LESSOPEN",
      "MANPAGER",
      "CC",
      "SSH_ASKPASS",
    ];
    for (const name of STEERING) {
      const asked = { prompt: "Go.", shell_env: { [name]: "/evil" } };
      for (const who of ["approver", "labelled"] as const)
        expect(await call("POST /sessions", asked, bearers[who]), `${who} ${name}`).toMatchObject({
          status: 403,
          body: { message: expect.stringContaining(`shell_env.${name}`) },
        });
      expect((await call("POST /sessions", asked, bearers.ops)).status, name).toBe(200);
      // The user of the process: the command line, the SDK and JSON-RPC over stdio ask so.
      expect(await runtime.dispatch("createSession", asked)).toHaveProperty("session_id");
    }
    for (const who of ["approver", "labelled"] as const)
      expect(
        (
          await call(
            "POST /sessions",
            { prompt: "Go.", shell_env: { GOOGLE_API_URL: "x", GEMINI_REGION: "y", LANG: "C" } },
            bearers[who],
          )
        ).status,
      ).toBe(200);
  });

  it("[I4] has its own tasks, no blob of another's, and nothing that is the whole project's", async () => {
    const big = "x".repeat(100_000);
    const tools = [{ name: "big", description: "", inputSchema: { type: "object" }, execute: () => big }];
    const planned = [{ name: "task_create", args: { subject: "secret plan", description: "x" } }, { name: "big" }];
    const model = createScriptedModel(({ messages }) => {
      const last = messages.at(-1);
      if (last?.role !== "user") return { text: "Done." };
      return { calls: JSON.stringify(last).includes("List") ? [{ name: "task_list" }] : planned };
    });
    const { call, a, b, begin } = await twoTeams(composedRuntime({ model, tools, store: createInMemoryStore() }));
    const theirs = await begin(b, "Plan.", { tool_preset: "safe" });
    const seen = JSON.stringify((await call(`GET /sessions/${theirs}/history`, undefined, b)).body);
    const [, blob = ""] = /the full output is blob (\S+)/.exec(seen) ?? [];
    expect((await call(`GET /blobs/${blob}`, undefined, b)).status).toBe(200);
    expect(await call(`GET /blobs/${blob}`, undefined, a)).toMatchObject({
      status: 400,
      body: { message: `blob_id: there is no blob ${blob}` },
    });
    const mine = await begin(a, "List them.", { tool_preset: "safe", tool_filter: { Deny: ["big"] } });
    const listed = JSON.stringify((await call(`GET /sessions/${mine}/history`, undefined, a)).body);
    expect(listed).toContain("task_list");
    expect(listed).not.toContain("secret plan");
    for (const route of ["GET /agents", "GET /agents/ada", "GET /agents/ada/context", "GET /memory/status"]) {
      expect((await call(route, undefined, a)).body, route).toMatchObject({ code: "PERMISSION_DENIED" });
    }
    expect((await call("POST /agents/ada/memories", { content: "x" }, a)).status).toBe(403);
    expect((await call("GET /memory/history?query=x&agent=ada", undefined, a)).status).toBe(403);
  });

  it("[I4][K1] shows no model what another has sent, whoever knows its name", async () => {
    const { call, a, b, begin } = await twoTeams(
      composedRuntime({ model: createScriptedModel(() => ({ text: "Seen." })), store: createInMemoryStore() }),
    );
    const photo = { type: "image", media_type: "image/png", source: "inline", data: "QUJD".repeat(2_000) };
    const theirs = await begin(b, [photo]);
    const seen = JSON.stringify((await call(`GET /sessions/${theirs}/history`, undefined, b)).body);
    const [blob_id = ""] = /sha256:[0-9a-f]{64}/.exec(seen) ?? [];
    const named = { type: "image", media_type: "image/png", source: "blob", blob_id };
    expect((await call("POST /sessions", { prompt: [named] }, b)).status).toBe(200);
    expect((await call(`GET /blobs/${blob_id}`, undefined, b)).status).toBe(200);
    for (const prompt of [[named], [{ ...named, type: "file", media_type: "application/pdf" }]]) {
      expect(await call("POST /sessions", { prompt }, a)).toMatchObject({
        status: 400,
        body: { message: `blob_id: there is no blob ${blob_id}` },
      });
    }
    // Whoever only writes of it has not sent it.
    await begin(a, `What is ${JSON.stringify([named])}?`);
    expect((await call(`GET /blobs/${blob_id}`, undefined, a)).status).toBe(400);
  });

  it("[I4] shares neither idempotency keys, request ids nor MCP connections with another", async () => {
    const { call, a, b, connect, mcpUrl } = await twoTeams();
    const key = { "idempotency-key": "k" };
    const first = await call("POST /sessions", { prompt: "Hello!" }, { ...b, ...key });
    const second = await call("POST /sessions", { prompt: "Hello!" }, { ...a, ...key });
    expect(second.body.session_id).not.toBe(first.body.session_id);
    expect(second.headers.get("idempotent-replayed")).toBeNull();
    await call("POST /sessions", { prompt: "Hello!" }, { ...b, "x-meerkat-request-id": "r" });
    expect((await call("POST /requests/r/cancel", undefined, a)).status).toBe(404);
    expect((await call("POST /requests/r/cancel", undefined, b)).status).toBe(200);
    const { transport } = await connect(b);
    const response = await fetch(mcpUrl, {
      method: "POST",
      headers: {
        ...a,
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
        "mcp-session-id": String(transport.sessionId),
      },
      body: JSON.stringify({ jsonrpc: "2.0", id: 9, method: "tools/list" }),
    });
    expect(response.status).toBe(404);
  });
});
