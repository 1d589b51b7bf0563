import { OPERATIONS } from "@rkat/core/contract/operations";
import { describe, expect, it } from "vitest";
import { serveOperated, serveRest } from "../../../../test/support/rest-server.ts";
import { openApiDocument } from "./openapi.ts";

const document = openApiDocument("1.2.3")("http://127.0.0.1:8080");

/** Every `$ref` anywhere in a value. */
function refsIn(value: unknown): readonly string[] {
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) => (key === "$ref" ? [String(inner)] : refsIn(inner)));
}

describe("the OpenAPI document", () => {
  it("[G1] [G3] has every operation of the table at its route", () => {
    for (const [name, { http, summary }] of Object.entries(OPERATIONS)) {
      const [method = "", path = ""] = http.split(" ");
      const operation = document.paths[path]?.[method.toLowerCase()];
      // Two rows share a route, and the first is described.
      const isFirst = Object.values(OPERATIONS).find((row) => row.http === http)?.summary === summary;
      expect(operation).toMatchObject(isFirst ? { operationId: name, summary } : { operationId: expect.any(String) });
      const places = [...path.matchAll(/\{(\w+)\}/g)].map(([, place]) => place);
      const named = operation?.parameters.filter((one) => one.in === "path" && one.required).map((one) => one.name);
      expect(named).toEqual(places);
    }
    expect(document.paths["/sessions"]?.get?.parameters.map(({ name }) => name)).toEqual([
      "cursor",
      "label",
      "limit",
      "offset",
      "archived",
    ]);
  });

  it("[G3] is whole: every reference resolves, every id is its own", () => {
    const refs = refsIn(document);
    const schemas = Object.keys(document.components.schemas).map((name) => `#/components/schemas/${name}`);
    expect(refs.filter((ref) => !schemas.includes(ref))).toEqual([]);
    expect(schemas.filter((schema) => !refs.includes(schema))).toEqual([]);
    const ids = Object.values(document.paths).flatMap((methods) =>
      Object.values(methods).map(({ operationId }) => operationId),
    );
    expect(new Set(ids).size).toBe(ids.length);
    expect(document).toMatchObject({ openapi: "3.1.0", info: { title: "rkat", version: "1.2.3" } });
  });

  it("[G3] can be read by common tools: it says where, under which licence, and has no tuples", async () => {
    expect(document).toMatchObject({
      servers: [{ url: "http://127.0.0.1:8080" }],
      info: { license: { name: "MIT", identifier: "MIT" } },
    });
    expect(JSON.stringify(document)).not.toContain("prefixItems");
    const seqs = { type: "array", items: { type: "integer" }, minItems: 2, maxItems: 2 };
    expect(document.components.schemas.ReadContextResult).toMatchObject({
      properties: { parts: { items: { properties: { seqs } } } },
    });
    const statuses = [200, 400, 401, 403, 404, 409, 413, 422, 429, 499];
    for (const methods of Object.values(document.paths))
      for (const { responses } of Object.values(methods))
        expect(Object.keys(responses)).toEqual([...statuses.map(String), "default"]);
    const { url, call } = await serveRest();
    expect((await call("GET /openapi.json")).body.servers).toEqual([{ url }]);
  });

  it("[G3] says that a further turn may name its session in its body, too", () => {
    const { properties, required } = document.components.schemas.StartTurnRequest ?? {};
    expect(properties?.session_id).toMatchObject({ type: "string", format: "uuid" });
    expect(required).toEqual(["prompt"]);
  });

  it("[G3] is served, and as a page that loads nothing", async () => {
    const { call, url } = await serveRest();
    expect((await call("GET /openapi.json")).body).toMatchObject({ openapi: "3.1.0", paths: { "/sessions": {} } });
    const page = await fetch(`${url}/docs`);
    const html = await page.text();
    expect(page.headers.get("content-security-policy")).toContain("default-src 'none'");
    expect(html).not.toMatch(/<script|src=|https?:/);
    for (const { http } of Object.values(OPERATIONS)) expect(html).toContain(`<code>${http}</code>`);
  });

  it("[G3] lists only what is served", async () => {
    const { call } = await serveOperated();
    for (const [path, methods] of Object.entries(document.paths)) {
      for (const method of Object.keys(methods)) {
        const at = path.replaceAll(/\{\w+\}/g, "01900000-0000-7000-8000-000000000000");
        const { body } = await call(`${method.toUpperCase()} ${at}`);
        expect(body.error ?? "").not.toMatch(/there is nothing at|does not take/);
      }
    }
  });
});
