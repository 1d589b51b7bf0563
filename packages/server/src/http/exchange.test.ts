import { describe, expect, it } from "vitest";
import { createBodyReader } from "./body.ts";
import { createFetchExchange, sendResponse, TOOK_TOO_LONG, toRequest } from "./exchange.ts";

const HOUR = { bodyMsMax: 3_600_000 };

function exchange(init: RequestInit = {}, how = HOUR) {
  return createFetchExchange(new Request("http://localhost/a/b?c=d", init), "/b", how);
}

describe("an exchange of the Fetch API", () => {
  it("[S1] has the request's method, path and headers, with a Host from its address", () => {
    const { request } = exchange({ method: "DELETE", headers: { "X-One": "1" } });
    expect([request.method, request.url, request.headers]).toEqual([
      "DELETE",
      "/b?c=d",
      { host: "localhost", "x-one": "1" },
    ]);
    expect(toRequest(request)).toBe(request.source);
  });

  it("[S1] refuses a body that takes too long to arrive", async () => {
    const body = new ReadableStream({});
    const { request } = exchange({ method: "POST", body, duplex: "half" } as RequestInit, { bodyMsMax: 1 });
    await expect(createBodyReader()(request)).rejects.toThrow(TOOK_TOO_LONG);
  });

  it("[S1] hands over headers at once and chunks no faster than they are read", async () => {
    const { response, answer } = exchange();
    response.writeHead(201, { "x-one": "1" });
    response.flushHeaders();
    const answered = await answer;
    expect([answered.status, answered.headers.get("x-one")]).toEqual([201, "1"]);
    const chunk = "x".repeat(64 * 1_024);
    expect(response.write(chunk)).toBe(false);
    const drained = new Promise((resolve) => response.once("drain", resolve));
    const reader = answered.body?.getReader();
    expect((await reader?.read())?.value).toHaveLength(chunk.length);
    await drained;
    response.end();
    expect(await reader?.read()).toEqual({ done: true, value: undefined });
  });

  it("[S1] closes when its reader leaves, its client aborts, or it is destroyed", async () => {
    const leave = [
      async (answered: Response) => answered.body?.cancel(),
      async (_: Response, aborting: AbortController) => aborting.abort(),
    ];
    for (const how of leave) {
      const aborting = new AbortController();
      const { response, answer } = exchange({ signal: aborting.signal });
      response.write("begun");
      const closed = new Promise((resolve) => response.once("close", resolve));
      await how(await answer, aborting);
      await closed;
      expect(response.writableFinished).toBe(false);
    }
    const { response, answer } = exchange();
    response.write("begun");
    const text = (await answer).text();
    response.destroy();
    await expect(text).rejects.toThrow("the response was broken off");
    const never = exchange();
    never.response.destroy();
    expect((await never.answer).status).toBe(499);
  });

  it("[S1] has no body where there is none", async () => {
    for (const [method, status] of [
      ["HEAD", 200],
      ["GET", 204],
    ] as const) {
      const { response, answer } = exchange({ method });
      await sendResponse(response, new Response(status === 204 ? null : "text", { status }));
      expect((await answer).body).toBeNull();
    }
  });
});
