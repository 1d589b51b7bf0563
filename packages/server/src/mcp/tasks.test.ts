import { createScriptedModel } from "@rkat/core/providers/scripted";
import { afterEach, describe, expect, it } from "vitest";
import { serveAlone, TASKS, VERSION, WITH_FORMS, WITH_TASKS } from "../../../../test/support/mcp-alone.ts";

const open: { close(): Promise<void> }[] = [];
const serve = (...given: Parameters<typeof serveAlone>) => {
  const served = serveAlone(...given);
  open.push(served);
  return served;
};
afterEach(async () => {
  for (const served of open.splice(0).reverse()) await served.close();
});

const tasks = { capabilities: WITH_TASKS };
const forms = { capabilities: WITH_FORMS };
const both = { capabilities: { ...WITH_TASKS, ...WITH_FORMS } };
const CREATE = {
  calls: [{ id: "c1", name: "task_create", args: { subject: "Feed the heron", description: "Twice." } }],
};
const RUN = { prompt: "Go.", tool_preset: "safe", permissions: { ask: ["task_create"] } };

describe("a request without a connection", () => {
  it("[T1] learns what the server speaks, and is told who it is", async () => {
    const { ask } = serve();
    const { status, result, headers } = await ask("server/discover");
    expect(status).toBe(200);
    expect(headers.get("mcp-session-id")).toBe(null);
    expect(result).toMatchObject({
      resultType: "complete",
      supportedVersions: [VERSION],
      capabilities: { tools: {}, logging: {}, extensions: { [TASKS]: {} } },
      instructions: expect.stringContaining("meerkat_run"),
      _meta: { "io.modelcontextprotocol/serverInfo": { name: "rkat-mcp" } },
    });
  });

  it("[T1] lists the same tools in the same order each time, in 30,000 bytes, and calls one", async () => {
    const { ask, call } = serve();
    const { result } = await ask("tools/list");
    expect(result.tools.length).toBeLessThanOrEqual(30);
    expect(Buffer.byteLength(JSON.stringify({ tools: result.tools }))).toBeLessThanOrEqual(30_000);
    expect((await ask("tools/list")).result).toEqual(result);
    const run = await call("meerkat_run", { prompt: "What is 2 + 3?" });
    expect(run.result).toMatchObject({ resultType: "complete", structuredContent: { turns: 1 } });
  });

  it("[T1] names in a sentence what is wrong with it", async () => {
    const { ask, call } = serve();
    const wrong = async (answered: ReturnType<typeof ask>) => {
      const { status, error } = await answered;
      return [status, error.code, error.message];
    };
    expect(await wrong(ask("tools/call", { name: 7 }))).toEqual([
      400,
      -32602,
      expect.stringMatching(/^params\.name: /),
    ]);
    expect(await wrong(ask("tools/list", {}, { headers: { "mcp-method": "tools/call" } }))).toEqual([
      400,
      -32020,
      expect.any(String),
    ]);
    expect(
      await wrong(ask("tools/list", {}, { meta: { "io.modelcontextprotocol/protocolVersion": "2031-01-01" } })),
    ).toEqual([400, expect.any(Number), expect.any(String)]);
    for (const method of ["ping", "initialize", "logging/setLevel", "tasks/result", "tasks/list"]) {
      expect(await wrong(ask(method))).toEqual([404, -32601, "Method not found"]);
    }
    expect((await call("nope", {})).error).toMatchObject({ code: -32602, message: "Unknown tool: nope" });
    expect((await call("meerkat_read", { session_id: "x" })).result).toMatchObject({ isError: true });
  });

  it("[T1] gets results that say how complete they are and how long they may be kept", async () => {
    const { ask, call } = serve();
    for (const method of ["server/discover", "tools/list"]) {
      const { result } = await ask(method);
      expect(result).toMatchObject({
        resultType: "complete",
        ttlMs: expect.any(Number),
        cacheScope: expect.any(String),
      });
      expect(["public", "private"]).toContain(result.cacheScope);
    }
    const { result, headers } = await call("meerkat_run", { prompt: "hi" });
    expect(result.resultType).toBe("complete");
    expect(result.ttlMs).toBeUndefined();
    expect(headers.get("mcp-session-id")).toBe(null);
  });

  it("[T1] is told the versions that are served, and which part of its envelope is missing", async () => {
    const { ask } = serve();
    const later = { "io.modelcontextprotocol/protocolVersion": "2031-01-01" };
    const { status, error } = await ask(
      "tools/list",
      {},
      { meta: later, headers: { "mcp-protocol-version": "2031-01-01" } },
    );
    expect([status, error.code, error.data]).toEqual([
      400,
      -32022,
      { supported: expect.arrayContaining([VERSION]), requested: "2031-01-01" },
    ]);
    const bare = await ask("tools/list", {}, { meta: { "io.modelcontextprotocol/clientCapabilities": undefined } });
    expect([bare.status, bare.error.code]).toEqual([400, -32602]);
    expect(bare.error.message).toContain("clientCapabilities");
  });

  it("[T1] has no stream to open and no connection to end: GET and DELETE are refused, a notification is accepted", async () => {
    const { handler } = serve();
    const headers = {
      authorization: "Bearer a-token-of-the-test",
      accept: "application/json, text/event-stream",
      "content-type": "application/json",
      "mcp-protocol-version": VERSION,
    };
    const send = (init: RequestInit) => handler(new Request("http://127.0.0.1/mcp", { headers, ...init }));
    expect((await send({ method: "GET" })).status).toBeGreaterThanOrEqual(400);
    expect((await send({ method: "DELETE" })).status).toBeGreaterThanOrEqual(400);
    const body = JSON.stringify({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: 99 } });
    const method = { "mcp-method": "notifications/cancelled" };
    expect((await send({ method: "POST", body, headers: { ...headers, ...method } })).status).toBe(202);
  });

  it("[T1] is sent events only if it says from which level on", async () => {
    const { call } = serve();
    const args = { prompt: "hi", stream: true };
    const methods = ({ messages }: { messages: readonly { method?: string }[] }) =>
      messages.map(({ method }) => method);
    expect(methods(await call("meerkat_run", args))).toEqual([undefined]);
    const logged = await call("meerkat_run", args, { meta: { "io.modelcontextprotocol/logLevel": "info" } });
    expect(methods(logged)).toContain("notifications/message");
    const quiet = await call("meerkat_run", args, { meta: { "io.modelcontextprotocol/logLevel": "error" } });
    expect(methods(quiet)).toEqual([undefined]);
  });

  it("[T1] shares its event streams with the other requests of its caller, and the oldest makes room", async () => {
    const { call } = serve();
    const { session_id } = (await call("meerkat_run", { prompt: "hi" })).result.structuredContent;
    const opened: string[] = [];
    for (let count = 0; count < 65; count += 1) {
      const { result } = await call("meerkat_event_stream_open", { session_id });
      opened.push(result.structuredContent.stream_id);
    }
    await call("meerkat_resume", { session_id, prompt: "again" });
    const statusOf = async (stream_id: string | undefined) =>
      (await call("meerkat_event_stream_read", { stream_id })).result.structuredContent.status;
    expect(await statusOf(opened[0])).toBe("closed");
    expect(await statusOf(opened[64])).toBe("event");
  });
});

describe("a client pinned to 2026-07-28", () => {
  it("[T1] connects, lists tools, calls one, and sees its progress", async () => {
    const client = await serve().connect();
    expect(client.getProtocolEra()).toBe("modern");
    expect((await client.listTools()).tools.map(({ name }) => name)).toContain("meerkat_run");
    const steps: unknown[] = [];
    const args = { prompt: "What is 2 + 3?" };
    const result = await client.callTool(
      { name: "meerkat_run", arguments: args },
      { onprogress: ({ message }) => steps.push(message) },
    );
    expect(result.structuredContent).toMatchObject({ content: [{ text: expect.stringContaining("5") }] });
    expect(steps).toEqual(["model call 1"]);
    await client.close();
  });

  it("[T1] interrupts a turn by leaving its request", async () => {
    const model = createScriptedModel([{ text: "half", ends: "silent" }]);
    const { connect, call } = serve({ model });
    const client = await connect();
    const leaving = new AbortController();
    const asked = client.callTool(
      { name: "meerkat_run", arguments: { prompt: "Go." } },
      { signal: leaving.signal, onprogress: () => leaving.abort("enough") },
    );
    await expect(asked).rejects.toThrow();
    const { sessions } = (await call("meerkat_sessions", {})).result.structuredContent;
    const { session_id } = sessions[0];
    await expect
      .poll(async () => (await call("meerkat_read", { session_id })).result.structuredContent.state)
      .toMatchObject({ state: "idle" });
    await client.close();
  });

  it("[T1] asks its user for an approval, by the answer to its request", async () => {
    const model = createScriptedModel([CREATE, CREATE, { text: "Done." }]);
    const client = await serve({ model }).connect({ capabilities: WITH_FORMS });
    const asked: string[] = [];
    client.setRequestHandler("elicitation/create", ({ params }) => {
      asked.push(params.message);
      return { action: "accept", content: { decision: "once" } };
    });
    const { structuredContent } = await client.callTool({ name: "meerkat_run", arguments: RUN });
    expect(structuredContent).toMatchObject({ content: [{ text: "Done." }], turns: 3, tool_calls: 2 });
    expect(asked).toEqual([1, 2].map(() => expect.stringMatching(/^May it run\?\ntask_create .*heron/)));
    await client.close();
  });
});

describe("an approval that a request asks for", () => {
  const asking = async () => {
    const model = createScriptedModel([CREATE, { text: "Done." }]);
    const served = serve({ model });
    const { result } = await served.call("meerkat_run", RUN, forms);
    expect(result).toMatchObject({ resultType: "input_required", requestState: expect.any(String) });
    const [key = ""] = Object.keys(result.inputRequests);
    return { ...served, model, key, result, requestState: result.requestState };
  };

  it("[T1] is asked again when it is not answered, and a no reaches the model", async () => {
    const { call, key, requestState, model, result } = await asking();
    const again = await call("meerkat_run", RUN, forms, {
      requestState,
      inputResponses: { other: { action: "accept" } },
    });
    expect(again.result).toMatchObject({ resultType: "input_required", inputRequests: result.inputRequests });
    const inputResponses = { [key]: { action: "decline" } };
    const ended = await call("meerkat_run", RUN, forms, { requestState, inputResponses });
    expect(ended.result).toMatchObject({ resultType: "complete", structuredContent: { content: [{ text: "Done." }] } });
    expect(JSON.stringify(model.requests.at(-1)?.messages)).toContain("not run: the user denied it");
  });

  it("[T1] that its user dismisses is left to others, and the request gets the end of the turn", async () => {
    const { call, key, requestState, runtime, result } = await asking();
    const inputResponses = { [key]: { action: "cancel" } };
    const waiting = call("meerkat_run", RUN, forms, { requestState, inputResponses });
    const { approvals } = await runtime.dispatch("listApprovals", {});
    expect(approvals.map(({ approval_id }) => approval_id)).toEqual(Object.keys(result.inputRequests));
    const [{ session_id, approval_id } = { session_id: "", approval_id: "" }] = approvals;
    await runtime.dispatch("answerApproval", { session_id, approval_id, decision: "allow" });
    expect((await waiting).result).toMatchObject({ resultType: "complete", structuredContent: { tool_calls: 1 } });
  });

  it("[T1] refuses a state that names no turn, or one of another session", async () => {
    const { call, requestState } = await asking();
    const session_id = "018f0000-0000-7000-8000-000000000000";
    const refused = { code: -32602, message: "requestState: there is no such turn here" };
    expect((await call("meerkat_run", RUN, forms, { requestState: "x" })).error).toMatchObject(refused);
    const args = { session_id, prompt: "Go." };
    expect((await call("meerkat_resume", args, forms, { requestState })).error).toMatchObject(refused);
  });

  it("[T1] is not asked of a client that cannot", async () => {
    const model = createScriptedModel([CREATE, { text: "Done." }]);
    const { call, runtime } = serve({ model });
    const waiting = call("meerkat_run", RUN);
    await expect.poll(async () => (await runtime.dispatch("listApprovals", {})).approvals.length).toBe(1);
    const { approvals } = await runtime.dispatch("listApprovals", {});
    const { session_id = "", approval_id = "" } = approvals[0] ?? {};
    await runtime.dispatch("answerApproval", { session_id, approval_id, decision: "allow" });
    expect((await waiting).result.resultType).toBe("complete");
  });
});

describe("a turn as a task", () => {
  it("[T1] is created once it is stored, and polled to its end from any connection", async () => {
    const model = createScriptedModel([{ text: "Done." }]);
    const { call, ask } = serve({ model });
    const { result: created } = await call("meerkat_run", { prompt: "Go." }, tasks);
    const { taskId } = created;
    expect(created).toMatchObject({
      ...{ resultType: "task", status: "working", ttlMs: null, pollIntervalMs: expect.any(Number) },
      ...{ createdAt: expect.stringMatching(/^\d{4}-.*Z$/), lastUpdatedAt: expect.any(String) },
    });
    await expect.poll(async () => (await ask("tasks/get", { taskId }, tasks)).result.status).toBe("completed");
    const { result } = await ask("tasks/get", { taskId }, tasks);
    expect(result).toMatchObject({ resultType: "complete", taskId, createdAt: created.createdAt });
    expect(result.result.structuredContent).toMatchObject({ content: [{ text: "Done." }], turns: 1 });
    // A later turn does not change it.
    const { session_id } = result.result.structuredContent;
    await call("meerkat_resume", { session_id, prompt: "Again." });
    const later = (await ask("tasks/get", { taskId }, tasks)).result;
    expect(later).toMatchObject({
      status: "completed",
      result: { structuredContent: { content: [{ text: "Done." }] } },
    });
  });

  it("[P1] that is over is found by its beginning, and by no other place", async () => {
    const { runtime } = serve({ model: createScriptedModel([{ text: "Done." }]) });
    const { session_id } = await runtime.dispatch("createSession", { prompt: "Go." });
    const end = (turn: number) => runtime.dispatch("finishTurn", { session_id, turn });
    expect(await end(2)).toMatchObject({ text: "Done.", turns: 1 });
    await expect(end(3)).rejects.toMatchObject({ code: "INVALID_PARAMS" });
  });

  it("[T1] gives its result to a server that was started since", async () => {
    const first = serve({ model: createScriptedModel([{ text: "Done." }]) });
    const { taskId } = (await first.call("meerkat_run", { prompt: "Go." }, tasks)).result;
    await expect.poll(async () => (await first.ask("tasks/get", { taskId }, tasks)).result.status).toBe("completed");
    await first.close();
    const second = serve({}, first.store);
    expect((await second.ask("tasks/get", { taskId }, tasks)).result).toMatchObject({
      status: "completed",
      result: { structuredContent: { content: [{ text: "Done." }] } },
    });
  });

  it("[T1] needs approval by its state, and goes on with the answer", async () => {
    const model = createScriptedModel([CREATE, { text: "Done." }]);
    const { call, ask } = serve({ model });
    const { taskId } = (await call("meerkat_run", RUN, both)).result;
    const get = async (asked: typeof tasks = both) => (await ask("tasks/get", { taskId }, asked)).result;
    await expect.poll(async () => (await get()).status).toBe("input_required");
    const { inputRequests } = await get();
    const [key = ""] = Object.keys(inputRequests);
    expect(inputRequests[key]).toMatchObject({ method: "elicitation/create", params: { mode: "form" } });
    // A client that cannot ask is told what the task waits for.
    expect(await get(tasks)).toMatchObject({
      status: "working",
      statusMessage: "waits for approval of tool calls",
    });
    const update = (inputResponses: object) => ask("tasks/update", { taskId, inputResponses }, both);
    expect((await update({ unknown: { action: "accept" } })).result).toMatchObject({ resultType: "complete" });
    expect((await get()).status).toBe("input_required");
    await update({ [key]: { action: "accept", content: { decision: "once" } } });
    await expect.poll(async () => (await get()).status).toBe("completed");
    expect((await get()).result.structuredContent).toMatchObject({ tool_calls: 1, content: [{ text: "Done." }] });
  });

  it("[T1] is cancelled, and stays so", async () => {
    const { call, ask } = serve({ model: createScriptedModel([{ text: "half", ends: "silent" }]) });
    const { taskId } = (await call("meerkat_run", { prompt: "Go." }, tasks)).result;
    expect((await ask("tasks/get", { taskId }, tasks)).result.status).toBe("working");
    expect((await ask("tasks/cancel", { taskId }, tasks)).result).toMatchObject({ resultType: "complete" });
    await expect.poll(async () => (await ask("tasks/get", { taskId }, tasks)).result.status).toBe("cancelled");
    expect((await ask("tasks/cancel", { taskId }, tasks)).status).toBe(200);
  });

  it("[T1] that fails has completed with the error of its call", async () => {
    const failure = { kind: "invalid_request", message: "no such model" } as const;
    const { call, ask } = serve({ model: createScriptedModel([{ ends: { failure } }]) });
    const { taskId } = (await call("meerkat_run", { prompt: "Go." }, tasks)).result;
    await expect.poll(async () => (await ask("tasks/get", { taskId }, tasks)).result.status).toBe("completed");
    const { result } = await ask("tasks/get", { taskId }, tasks);
    expect(result.result).toMatchObject({
      isError: true,
      content: [{ text: expect.stringContaining("no such model") }],
    });
  });

  it("[T1] is not made of what cannot be found again, nor of what is wrong from the start", async () => {
    const { call } = serve({}, null);
    expect((await call("meerkat_run", { prompt: "Go." }, tasks)).result.resultType).toBe("complete");
    expect((await call("meerkat_run", {}, tasks)).result).toMatchObject({ resultType: "complete", isError: true });
    expect((await call("meerkat_capabilities", {}, tasks)).result.resultType).toBe("complete");
  });

  it("[T1] is refused by an unknown id, and to a client that does not know tasks", async () => {
    const { call, ask } = serve();
    const { session_id } = (await call("meerkat_run", { prompt: "Go." })).result.structuredContent;
    const unknown = [`${session_id}.1`, `${session_id}.99`, "018f0000-0000-7000-8000-000000000000.2", "x"];
    for (const method of ["tasks/get", "tasks/update", "tasks/cancel"]) {
      for (const taskId of unknown) {
        const { error } = await ask(method, { taskId, inputResponses: {} }, tasks);
        expect(error).toMatchObject({ code: -32602, message: "taskId: there is no such turn here" });
      }
      const missing = { code: -32021, data: { requiredCapabilities: WITH_TASKS } };
      const refused = await ask(method, { taskId: `${session_id}.2`, inputResponses: {} });
      expect(refused).toMatchObject({ status: 400, error: missing });
    }
    const listen = { notifications: { taskIds: [`${session_id}.2`] } };
    expect((await ask("subscriptions/listen", listen)).error).toMatchObject({ code: -32021 });
    expect((await ask("subscriptions/listen", listen, tasks)).messages[0]).toMatchObject({
      method: "notifications/subscriptions/acknowledged",
      params: { notifications: {} },
    });
  });
});
