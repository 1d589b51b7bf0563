import { Scope } from "@rkat/core/contract/caller";
import { OPERATIONS, type OperationName } from "@rkat/core/contract/operations";
import { EXTRA_TOOLS } from "@rkat/core/contract/wire/mcp-tools";
import { createTools } from "@rkat/server/mcp/tools";
import { describe, expect, it } from "vitest";
import { type Bearer, serveBoth, tokenFolder } from "../support/tokens.ts";

// The keys of the table are its names.
const NAMES = Object.keys(OPERATIONS) as OperationName[];
const ID = "018f0000-0000-7000-8000-000000000000";
const PLACES: Readonly<Record<string, string>> = { session_id: ID, agent: "ada", blob_id: "sha256:x", seq: "1" };

/** A token for each scope alone. */
async function tokens(create: ReturnType<typeof tokenFolder>["create"]): Promise<ReadonlyMap<Scope, Bearer>> {
  const made = Scope.options.map(async (scope) => [scope, await create(scope, { scopes: [scope] })] as const);
  return new Map(await Promise.all(made));
}

function isAllowed(scope: Scope, needed: Scope): boolean {
  return scope === needed || scope === "admin";
}

function denial(needed: Scope, name: Scope): RegExp {
  return new RegExp(`needs the scope ${needed}, which ${name} does not have$`);
}

/** The arguments by which a tool that stands for several operations calls this one. */
function argsOf(operation: OperationName): Record<string, unknown> {
  const config = { readConfig: "get", setConfig: "set", patchConfig: "patch" };
  const action = { ...config, listSkills: "list", readSkill: "inspect" }[operation as string];
  const skill_key = { source_uuid: "x", skill_name: "x" };
  const layer = { setConfig: { config: {} }, patchConfig: { patch: {} }, readSkill: { skill_key } }[
    operation as string
  ];
  return action === undefined ? {} : { action, ...layer };
}

describe("every operation with every scope", () => {
  it("[I4] is allowed over REST to a token with its scope or admin, and to no other", async () => {
    const { stateFolder, create } = tokenFolder();
    const all = await tokens(create);
    const { call } = await serveBoth(stateFolder);
    for (const name of NAMES) {
      const { http, scope: needed } = OPERATIONS[name];
      const route = http.replaceAll(/\{(\w+)\}/g, (_, place: string) => PLACES[place] ?? "x");
      for (const [scope, bearer] of all) {
        const hasBody = /^(?:POST|PUT|PATCH) /.test(route);
        const { status, body } = await call(route, hasBody ? {} : undefined, bearer);
        const reported = `${name} with ${scope}: ${status} ${JSON.stringify(body)}`;
        if (isAllowed(scope, needed)) expect([401, 403, 500], reported).not.toContain(status);
        else expect({ status, code: body.code }, reported).toEqual({ status: 403, code: "PERMISSION_DENIED" });
        if (!isAllowed(scope, needed)) expect(body.message).toMatch(denial(needed, scope));
      }
      expect((await call(route)).status, `${name} without a token`).toBe(401);
    }
  });

  it("[I4] is allowed over MCP to a token with its scope or admin, and to no other", async () => {
    const { stateFolder, create } = tokenFolder();
    const all = await tokens(create);
    const { connect } = await serveBoth(stateFolder);
    const tools = createTools({ memoryOnly: false });
    for (const [scope, bearer] of all) {
      const { call } = await connect(bearer);
      for (const name of NAMES) {
        const row = OPERATIONS[name];
        // Of two rows with one tool the tool calls the later, unless its arguments say which.
        if (!("mcp" in row)) continue;
        const isCalled = tools.get(row.mcp)?.operation === name || Object.keys(argsOf(name)).length > 0;
        if (!isCalled) continue;
        const { payload } = await call(row.mcp, argsOf(name));
        const reported = `${name} with ${scope}: ${JSON.stringify(payload)}`;
        if (isAllowed(scope, row.scope)) expect(payload.code, reported).not.toBe("PERMISSION_DENIED");
        else expect(payload, reported).toMatchObject({ code: "PERMISSION_DENIED", message: denial(row.scope, scope) });
      }
    }
    await expect(connect({})).rejects.toThrow(/401|Unauthorized|Bearer/);
  });

  it("[I4] and so is whatever else is served", async () => {
    const { stateFolder, create } = tokenFolder();
    const all = await tokens(create);
    const { call, connect } = await serveBoth(stateFolder);
    const reads = ["/runtime/host_info", "/runtime/capabilities", "/runtime/health", "/openapi.json", "/docs"];
    const routes: readonly (readonly [string, Scope])[] = [
      ...reads.map((path) => [`GET ${path}`, "read"] as const),
      [`GET /sessions/${ID}/status`, "read"],
      [`GET /sessions/${ID}/events`, "read"],
      ["POST /requests/x/cancel", "run"],
    ];
    for (const [route, needed] of routes) {
      for (const [scope, bearer] of all) {
        const { status } = await call(route, undefined, bearer);
        expect(status === 403, `${route} with ${scope}: ${status}`).toBe(!isAllowed(scope, needed));
      }
      expect((await call(route)).status).toBe(401);
    }
    expect((await call("GET /health")).status).toBe(200);
    const ofNobody = await connect(all.get("approve") ?? {});
    // What a client opened itself it may read and close; it could not open it.
    const others = { meerkat_event_stream_open: { session_id: ID } };
    const own = ["meerkat_event_stream_read", "meerkat_event_stream_close"];
    expect([...Object.keys(others), ...own].sort()).toEqual(Object.keys(EXTRA_TOOLS).sort());
    for (const [name, args] of Object.entries(others)) {
      expect((await ofNobody.call(name, args)).payload, name).toMatchObject({ code: "PERMISSION_DENIED" });
    }
  });

  it("[I4] a loopback server without tokens lets everybody read, run and set what is harmless, and no more", async () => {
    const { stateFolder, create } = tokenFolder();
    const { call } = await serveBoth(stateFolder);
    const { body } = await call("POST /sessions", { prompt: "Hello!" });
    expect((await call(`GET /sessions/${body.session_id}`)).status).toBe(200);
    expect((await call("PATCH /config", { agent: { max_turns: 9 } })).status).toBe(200);
    for (const patch of [{ shell: { program: "/bin/evil" } }, { ceiling: { tools: "full" } }]) {
      expect(await call("PATCH /config", patch)).toMatchObject({ status: 403, body: { code: "PERMISSION_DENIED" } });
    }
    await create("web", { scopes: ["read"] });
    expect((await call("GET /sessions")).status).toBe(401);
  });

  it("[I4] RKAT_TOKEN may do everything, also set what is started and where things are sent", async () => {
    const { stateFolder, create } = tokenFolder();
    const config = await create("config", { scopes: ["config"] });
    const admin = { authorization: "Bearer s3cret" };
    const { call } = await serveBoth(stateFolder, undefined, "s3cret");
    const patch = { providers: { mine: { base_url: "https://elsewhere.example" } } };
    expect(await call("PATCH /config", patch, config)).toMatchObject({
      status: 403,
      body: { message: /so it cannot be changed over HTTP$/ },
    });
    expect((await call("PATCH /config", patch, admin)).status).toBe(200);
    expect((await call("GET /sessions", undefined, admin)).status).toBe(200);
  });
});
