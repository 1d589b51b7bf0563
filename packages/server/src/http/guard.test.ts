import { request } from "node:http";
import { createSystemClock } from "@rkat/core/runtime/system-clock";
import { describe, expect, it } from "vitest";
import { serveRest } from "../../../../test/support/rest-server.ts";
import { parseMcpFlags } from "../mcp/start.ts";
import { parseRestFlags } from "../rest/start.ts";
import { createCallers } from "./callers.ts";
import { createGuard, tokenFor } from "./guard.ts";

/** Asks with headers that `fetch` would not let through. */
function ask(url: string, path: string, headers: Record<string, string>): Promise<{ status?: number; code?: string }> {
  return new Promise((resolve, reject) => {
    const sent = request(`${url}${path}`, { headers }, async (response) => {
      let text = "";
      for await (const chunk of response) text += chunk;
      const { code } = text.startsWith("{") ? JSON.parse(text) : {};
      resolve({ ...(response.statusCode === undefined ? {} : { status: response.statusCode }), ...(code && { code }) });
    });
    sent.on("error", reject);
    sent.end();
  });
}

const FORBIDDEN = { status: 403, code: "FORBIDDEN_ORIGIN" };
const UNAUTHORIZED = { status: 401, code: "UNAUTHORIZED" };

describe("who may speak to a server", () => {
  it("[G3] answers only to names of its own", async () => {
    const { url } = await serveRest({}, { allowedHosts: ["agents.example"] });
    for (const host of ["evil.example", "127.0.0.1.evil.example", "localhost@evil.example", "10.0.0.1", "a b", "?"]) {
      expect(await ask(url, "/sessions", { host })).toEqual(FORBIDDEN);
    }
    for (const host of ["localhost", "LOCALHOST:1234", "127.0.0.1:8080", "[::1]:8080", "agents.example"]) {
      expect(await ask(url, "/sessions", { host })).toEqual({ status: 200 });
    }
    expect(await ask(url, "/health", { host: "evil.example" })).toEqual(FORBIDDEN);
  });

  it("[G3] answers only to pages of its own, not to those of other servers of this machine", async () => {
    const { url } = await serveRest({}, { allowedHosts: ["agents.example"] });
    const at = (origin: string, host = new URL(url).host) => ask(url, "/sessions", { host, origin });
    const strangers = ["https://evil.example", "null", "http://localhost.evil.example", "file://", "", "x"];
    for (const origin of [...strangers, "http://localhost:5173", "http://127.0.0.1", "http://[::1]:1"]) {
      expect(await at(origin)).toEqual(FORBIDDEN);
    }
    expect(await at(url)).toEqual({ status: 200 });
    expect(await at("https://agents.example", "agents.example")).toEqual({ status: 200 });
    expect(await at("https://agents.example:444", "agents.example")).toEqual(FORBIDDEN);
  });

  it("[G3] asks for the token when there is one; only /health is open", async () => {
    const { url, call } = await serveRest({}, { token: "s3cret" });
    const with_ = (authorization: string) => ask(url, "/sessions", { authorization });
    expect(await ask(url, "/health", {})).toEqual({ status: 200 });
    for (const path of ["/sessions", "/docs", "/openapi.json", "/nope", "/requests/x/cancel"]) {
      expect(await ask(url, path, {})).toEqual(UNAUTHORIZED);
    }
    for (const wrong of ["Bearer", "Bearer s3cre", "Bearer s3cret2", "Basic s3cret", "s3cret", "Bearer s3cret, x"]) {
      expect(await with_(wrong)).toEqual(UNAUTHORIZED);
    }
    expect(await with_("Bearer s3cret")).toEqual({ status: 200 });
    expect(await with_("bearer s3cret")).toEqual({ status: 200 });
    const refused = await call("POST /sessions", { prompt: "hi" });
    expect(refused.headers.get("www-authenticate")).toBe("Bearer");
    expect(JSON.stringify(refused.body)).not.toContain("s3cret");
  });
});

describe("a server that other machines can reach", () => {
  it("[G3] [G4] [H1] needs a token, and answers to its addresses by it", () => {
    expect(() => tokenFor("0.0.0.0", undefined)).toThrow(/so a token is needed: set RKAT_TOKEN/);
    expect(() => tokenFor("box.lan", " ")).toThrow(/token is needed/);
    expect(() => tokenFor("127.0.0.1", "a b")).toThrow(/visible characters/);
    expect([tokenFor("127.0.0.1", undefined), tokenFor("[::1]", ""), tokenFor("::", "t")]).toEqual([
      undefined,
      undefined,
      "t",
    ]);
    const place = { host: "0.0.0.0", token: "t", allowedHosts: ["box.lan"] };
    const guard = createGuard(place, createCallers({ ...place, clock: createSystemClock() }));
    const authorization = "Bearer t";
    const isOpen = false;
    const from = (headers: Record<string, string>) => ({ headers, rawHeaders: [], method: "GET", url: "/" });
    expect(() => guard(from({ host: "box.lan:8081", authorization }), { isOpen })).not.toThrow();
    expect(() => guard(from({ host: "10.1.2.3:8081", authorization }), { isOpen })).not.toThrow();
    expect(() => guard(from({ host: "evil.test", authorization }), { isOpen })).toThrow(/is not one of this server/);
    expect(() => guard(from({ host: "box.lan", origin: "http://evil.test", authorization }), { isOpen })).toThrow(
      /Origin/,
    );
    expect(() => guard(from({ host: "box.lan" }), { isOpen })).toThrow(/^send the server's token as .*Bearer TOKEN/);
    const wrong = from({ host: "box.lan", authorization: "Bearer other" });
    expect(() => guard(wrong, { isOpen })).toThrow(/^this token is not one of the server's; send/);
  });
});

describe("pages of other origins", () => {
  const page = "https://app.example";
  const asks = { origin: page, "access-control-request-method": "POST" };

  it("[G3] are kept out without a flag, also when they ask first", async () => {
    const { url, call } = await serveRest();
    expect(await call("GET /sessions", undefined, { origin: page })).toMatchObject({ status: 403 });
    const response = await fetch(`${url}/sessions`, { method: "OPTIONS", headers: asks });
    expect(response.status).toBe(403);
    const near = await call("GET /sessions", undefined, { origin: url });
    for (const { headers } of [response, near]) {
      expect([...headers.keys()].filter((name) => name.startsWith("access-control") || name === "vary")).toEqual([]);
    }
  });

  it("[G3] [G6] are let in by it, told so before they send, and never without the token", async () => {
    const { url, call } = await serveRest({}, { allowedOrigins: [page], token: "s3cret" });
    const preflight = (origin: string) =>
      fetch(`${url}/sessions/x/events`, { method: "OPTIONS", headers: { ...asks, origin } });
    const asked = await preflight(page);
    expect([asked.status, asked.headers.get("access-control-allow-origin"), asked.headers.get("vary")]).toEqual([
      200,
      page,
      "Origin",
    ]);
    const allowed = asked.headers.get("access-control-allow-headers")?.toLowerCase().split(", ");
    expect(allowed).toEqual(
      expect.arrayContaining(["authorization", "content-type", "last-event-id", "x-meerkat-request-id"]),
    );
    expect(asked.headers.get("access-control-allow-methods")).toContain("DELETE");
    expect((await preflight("https://app.example.evil")).status).toBe(403);

    const refused = await call("GET /sessions", undefined, { origin: page });
    expect([refused.status, refused.headers.get("access-control-allow-origin")]).toEqual([401, page]);
    const bearer = { origin: page, authorization: "Bearer s3cret" };
    const created = await call("POST /sessions", { prompt: "hi" }, { ...bearer, accept: "text/event-stream" });
    expect([created.status, created.headers.get("access-control-allow-origin")]).toEqual([200, page]);
    const own = await call("GET /sessions", undefined, { authorization: "Bearer s3cret" });
    expect([own.status, own.headers.get("access-control-allow-origin"), own.headers.get("vary")]).toEqual([
      200,
      null,
      "Origin",
    ]);
  });

  it("[G3] [H1] are named by origins and nothing else", () => {
    const { allowedOrigins } = parseRestFlags(["--allow-origin", "https://APP.example:443/", "--allow-origin", page]);
    expect(allowedOrigins).toEqual([page, page]);
    expect(parseRestFlags([]).allowedOrigins).toEqual([]);
    for (const wrong of ["*", "null", "app.example", "https://app.example/path", "file:///x", "https://"]) {
      expect(() => parseRestFlags(["--allow-origin", wrong])).toThrow(/--allow-origin .*: write one such as/);
    }
  });
});

describe("what a server over HTTP is started with", () => {
  it("[H4] [H1] has safe tools and half a minute of grace unless it says otherwise", () => {
    expect(() => parseRestFlags(["--app", "a.ts", "--store", ".state"])).toThrow(
      ".state: the module of --app decides where its sessions are kept; leave one of them out",
    );
    expect(parseRestFlags([])).toMatchObject({ ceiling: "safe", graceMs: 30_000 });
    expect(parseMcpFlags(["--http"]).http).toMatchObject({ ceiling: "safe", graceMs: 30_000 });
    expect(parseRestFlags(["--tools", "full", "--grace", "1m30s"])).toMatchObject({ ceiling: "full", graceMs: 90_000 });
    for (const wrong of ["all", "", "Safe", "constructor"])
      expect(() => parseRestFlags([`--tools=${wrong}`])).toThrow(
        /^--tools .*: write one of none, safe, workspace, full$/,
      );
    for (const wrong of ["30", "", "-1s", "25d"])
      expect(() => parseRestFlags([`--grace=${wrong}`])).toThrow(/^--grace .*: write a duration/);
    expect(() => parseMcpFlags(["--tools", "full"])).toThrow(/^--tools is for a server over HTTP; add --http$/);
  });
});
