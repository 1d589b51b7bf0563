import { createInMemoryStore, createRuntime, type Runtime } from "@rkat/core/create-runtime";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { createHandler, type Grant, type HandlerOptions, serve } from "@rkat/server";
import { describe, expect, it, onTestFinished } from "vitest";
import { createCaller } from "../support/rest-server.ts";

const SECRET = "a-secret-of-the-test";
const TOKENS = [{ name: "test", secret: SECRET, scopes: ["admin" as const] }];

function open(model = createScriptedModel(() => ({ text: "Hello." }))): Runtime {
  const runtime = createRuntime({ env: {}, model, store: createInMemoryStore() });
  onTestFinished(() => runtime.close());
  return runtime;
}

function handle(runtime: Runtime, options: HandlerOptions = {}) {
  const handler = createHandler(runtime, options);
  onTestFinished(() => handler.close(0));
  return async (route: string, { body, headers = {} }: { body?: unknown; headers?: Record<string, string> } = {}) => {
    const [method = "", path = ""] = route.split(" ");
    const sent = body === undefined ? {} : { body: JSON.stringify(body) };
    const type = body === undefined ? {} : { "content-type": "application/json" };
    const response = await handler(
      new Request(`http://localhost${path}`, { method, headers: { ...type, ...headers }, ...sent }),
    );
    const text = await response.text();
    return { status: response.status, body: text.startsWith("{") ? JSON.parse(text) : text };
  };
}

describe("authorize", () => {
  /** The caller is whom the header names; what it may do depends on the name. */
  const authorize = async ({ headers }: Request): Promise<Grant | undefined> => {
    const name = headers.get("x-user");
    if (name === null) return undefined;
    return { name, scopes: name === "reader" ? ["read"] : ["read", "run"], labels: { user: name } };
  };
  const as = (user: string) => ({ headers: { "x-user": user } });

  it("[S1] says who asks, what it may do, and which sessions are there for it", async () => {
    const ask = handle(open(), { authorize });
    expect((await ask("GET /sessions")).status).toBe(401);
    expect((await ask("GET /access", as("ada"))).body).toEqual({
      name: "ada",
      scopes: ["read", "run"],
      labels: { user: "ada" },
    });
    const run = await ask("POST /sessions", { ...as("ada"), body: { prompt: "Hi." } });
    expect(run).toMatchObject({ status: 200, body: { text: "Hello." } });
    expect((await ask("POST /sessions", { ...as("reader"), body: { prompt: "Hi." } })).status).toBe(403);
    expect((await ask("GET /sessions", as("ada"))).body.sessions).toHaveLength(1);
    expect((await ask("GET /sessions", as("bob"))).body.sessions).toHaveLength(0);
    expect((await ask(`GET /sessions/${run.body.session_id}`, as("bob"))).status).toBe(404);
  });

  it("[S1] a request with the same Idempotency-Key of the same caller runs once", async () => {
    const model = createScriptedModel(() => ({ text: "Hello." }));
    const ask = handle(open(model), { authorize });
    const asked = (user: string) => ({
      body: { prompt: "Hi." },
      headers: { ...as(user).headers, "idempotency-key": "k1" },
    });
    const first = await ask("POST /sessions", asked("ada"));
    expect(await ask("POST /sessions", asked("ada"))).toEqual(first);
    expect(model.requests).toHaveLength(1);
    expect((await ask("POST /sessions", asked("bob"))).body.session_id).not.toBe(first.body.session_id);
  });

  it("[S1] that fails, or returns what is no caller, lets no request in", async () => {
    const log: string[] = [];
    const failing = () => {
      throw new Error("the database of users is away");
    };
    const ask = handle(open(), { authorize: failing, log: (line) => log.push(line) });
    const refused = { status: 500, body: { message: "the caller could not be identified" } };
    expect(await ask("GET /sessions")).toMatchObject(refused);
    expect(log.join("\n")).toContain("authorize failed: the database of users is away");
    const ada = { name: "ada", scopes: ["read"] };
    const odd = ["", false, 0, true, null, "user", ["ada"], new Map([["user", "ada"]]), { user: undefined }];
    for (const wrong of [
      { name: "a b", scopes: [] },
      { name: "a", scopes: ["all"] },
      { scopes: ["read"] },
      "ada",
      ...odd.map((labels) => ({ ...ada, labels })),
      ...[Number.NaN, -1, "5", null, Number.POSITIVE_INFINITY].map((maxCostPerDay) => ({ ...ada, maxCostPerDay })),
    ]) {
      const { status, body } = await handle(open(), { authorize: () => wrong as Grant })("GET /sessions");
      expect({ status, message: body.message }).toEqual({
        status: 500,
        message: expect.stringMatching(/^authorize must return nothing or \{ name, scopes, labels \}/),
      });
    }
  });

  it("[S1] callers with other labels share no chat and no request, also under one name", async () => {
    const asked = Promise.withResolvers<void>();
    const model = createScriptedModel(() => {
      asked.resolve();
      return { text: "the secret of a", ends: "silent" };
    });
    const ofTenant = ({ headers }: Request): Grant => {
      return { name: "app", scopes: ["read", "run"], labels: { tenant: headers.get("x-tenant") ?? "" } };
    };
    const ask = handle(open(model), { authorize: ofTenant });
    const from = (tenant: string) => ({ headers: { "x-tenant": tenant } });
    const message = { id: "m1", role: "user", parts: [{ type: "text", text: "Hi." }] };
    const headers = { ...from("a").headers, "x-meerkat-request-id": "r1" };
    const chat = ask("POST /ui/chat", { headers, body: { id: "chat-1", messages: [message] } });
    await asked.promise;
    expect((await ask("GET /ui/chat/chat-1/stream", from("b"))).status).toBe(204);
    expect((await ask("DELETE /ui/chat/chat-1/stream", from("b"))).status).toBe(404);
    expect((await ask("POST /requests/r1/cancel", from("b"))).status).toBe(404);
    expect((await ask("POST /requests/r1/cancel", from("a"))).body).toMatchObject({ cancelled: true });
    expect((await chat).body).toContain("the secret of a");
  });

  it("[S1] is handed the request, also where Node listens", async () => {
    const seen: string[] = [];
    const authorizeSeen = (request: Request) => {
      seen.push(`${request.method} ${new URL(request.url).pathname} ${request.headers.get("cookie")}`);
      return authorize(request);
    };
    const server = await serve(open(), { port: 0, authorize: authorizeSeen });
    onTestFinished(server.close);
    const headers = { ...as("ada").headers, cookie: "login=1" };
    expect((await fetch(`${server.url}/sessions?limit=1`, { headers })).status).toBe(200);
    expect(seen).toEqual(["GET /sessions login=1"]);
  });
});

describe("createHandler", () => {
  it("[S1] refuses in a sentence what it cannot serve", () => {
    const runtime = open();
    const promise: unknown = Promise.resolve(runtime);
    expect(() => createHandler(promise as Runtime)).toThrow(
      "pass what createRuntime returns, or what openRuntime resolves to",
    );
    expect(() => createHandler(runtime, { basePath: "api" })).toThrow("basePath api: write a path such as /api/agent");
    expect(() => createHandler(runtime, { tokens: [{ ...TOKENS[0], secret: "short" } as never] })).toThrow(
      "tokens[0].secret",
    );
    expect(() => createHandler(runtime, { tokens: TOKENS, authorize: () => undefined })).toThrow("not both");
  });

  it("[S1] allows further hosts and origins where they are named", async () => {
    const handler = createHandler(open(), {
      tokens: TOKENS,
      allowedHosts: ["app.example"],
      allowedOrigins: ["https://page.example"],
    });
    onTestFinished(() => handler.close(0));
    const ask = (origin: string) =>
      handler(new Request("https://app.example/sessions", { headers: { origin, authorization: `Bearer ${SECRET}` } }));
    expect((await ask("https://app.example")).status).toBe(200);
    const page = await ask("https://page.example");
    expect(page.headers.get("access-control-allow-origin")).toBe("https://page.example");
    expect((await ask("https://evil.example")).status).toBe(403);
  });

  it("[S1] ends a request whose body breaks off, whenever that is", async () => {
    const callers = Promise.withResolvers<Grant>();
    const handler = createHandler(open(), { authorize: () => callers.promise });
    onTestFinished(() => handler.close(0));
    const broken = Promise.withResolvers<void>();
    const body = new ReadableStream({
      pull: (controller) => {
        controller.error(new Error("the client has left"));
        broken.resolve();
      },
    });
    const headers = { "content-type": "application/json" };
    // Streams as bodies need it; the type of a request does not have it yet.
    const streamed = { method: "POST", headers, body, duplex: "half" } as RequestInit;
    const answer = handler(new Request("http://localhost/sessions", streamed));
    await broken.promise;
    callers.resolve({ name: "ada", scopes: ["run"] });
    expect((await answer).status).toBe(499);
  });

  it("[S1] begins no turn once it closes, and ends the streams of events", async () => {
    const runtime = open();
    const handler = createHandler(runtime, { tokens: TOKENS });
    const { id } = await runtime.createSession("Hi.");
    const headers = { authorization: `Bearer ${SECRET}`, "content-type": "application/json" };
    const events = await handler(new Request(`http://localhost/sessions/${id}/events`, { headers }));
    const text = events.text();
    await handler.close();
    expect(await text).toContain("event: done");
    const turn = new Request("http://localhost/sessions", { method: "POST", headers, body: '{"prompt":"Hi."}' });
    expect((await handler(turn)).status).toBe(503);
    await handler.close();
  });
});

describe("serve", () => {
  it("[S1] listens, needs a token on this machine, too, and leaves the runtime open", async () => {
    const runtime = open();
    const lines: string[] = [];
    const server = await serve(runtime, { port: 0, tokens: TOKENS, log: (line) => lines.push(line) });
    const call = createCaller(server.url);
    expect((await call("GET /sessions")).status).toBe(401);
    expect((await call("GET /health")).status).toBe(200);
    const authorization = `Bearer ${SECRET}`;
    expect((await call("POST /sessions", { prompt: "Hi." }, { authorization })).body).toMatchObject({ text: "Hello." });
    expect(await call("GET /ready", undefined, { authorization })).toMatchObject({ body: { status: "ready" } });
    await server.close();
    await server.close();
    await expect(fetch(`${server.url}/health`)).rejects.toThrow();
    expect(await runtime.listSessions()).toHaveLength(1);
    expect(lines.find((line) => line.includes("operation=createSession"))).toContain("token=test");
    expect(lines.join("\n")).not.toContain(SECRET);
  });
});
