import { request } from "node:http";
import { describe, expect, it } from "vitest";
import { serveRest } from "../../../test/support/rest-server.ts";
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

  it("[G3] answers only to pages of its own and of this machine", async () => {
    const { url } = await serveRest({}, { allowedHosts: ["agents.example"] });
    const at = (origin: string, host = "127.0.0.1") => ask(url, "/sessions", { host, origin });
    for (const origin of ["https://evil.example", "null", "http://localhost.evil.example", "file://", "", "x"]) {
      expect(await at(origin)).toEqual(FORBIDDEN);
    }
    for (const origin of ["http://localhost:5173", "http://127.0.0.1", "http://[::1]:1"]) {
      expect(await at(origin)).toEqual({ status: 200 });
    }
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
    const guard = createGuard({ host: "0.0.0.0", token: "t", allowedHosts: ["box.lan"] });
    const authorization = "Bearer t";
    const isOpen = false;
    expect(() => guard({ host: "box.lan:8081", authorization }, { isOpen })).not.toThrow();
    expect(() => guard({ host: "10.1.2.3:8081", authorization }, { isOpen })).not.toThrow();
    expect(() => guard({ host: "evil.test", authorization }, { isOpen })).toThrow(/is not one of this server/);
    expect(() => guard({ host: "box.lan", origin: "http://evil.test", authorization }, { isOpen })).toThrow(/Origin/);
    expect(() => guard({ host: "box.lan" }, { isOpen })).toThrow(/Bearer TOKEN/);
  });
});
