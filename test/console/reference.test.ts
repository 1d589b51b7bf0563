import { WHY_UNSERVED } from "@rkat/core/contract/input";
import { OPERATIONS } from "@rkat/core/contract/operations";
import { openApiDocument } from "@rkat/server/rest/openapi";
import { describe, expect, it } from "vitest";
import { pythonMethods } from "../../docs/python-client.ts";
import {
  type Document,
  exampleIn,
  fieldsOf,
  IDIOMS,
  operationsOf,
  orderedFields,
  typeOf,
} from "../../packages/console/openapi.ts";
import { serveRest } from "../support/rest-server.ts";

// What the server serves is what the page reads, through JSON.
const document = JSON.parse(JSON.stringify(openApiDocument("1.2.3")("http://localhost"))) as Document;
const operations = operationsOf(document);
const place = { url: "http://localhost", hasToken: true };

describe("the reference of the operations", () => {
  it("[G8] has every operation with its scope, a meaning for every field, and one for every code", () => {
    const rows = operations.filter(({ scope }) => scope !== undefined);
    // Two operations that share a route are one there.
    expect(rows).toHaveLength(new Set(Object.values(OPERATIONS).map(({ http }) => http)).size);
    const scopes = new Map<string, string>(Object.entries(OPERATIONS).map(([name, { scope }]) => [name, scope]));
    for (const { name, scope } of rows) expect({ name, scope }).toEqual({ name, scope: scopes.get(name) });
    for (const { name, parameters, body, result } of rows) {
      const silent = [
        ...parameters.filter(({ description }) => description === undefined).map((one) => one.name),
        ...[...fieldsOf(body), ...fieldsOf(result)].filter(([, field]) => field.description === undefined),
      ];
      expect({ name, silent }).toEqual({ name, silent: [] });
      for (const [, field] of [...fieldsOf(body), ...fieldsOf(result)]) expect(typeOf(field)).not.toBe("");
    }
    for (const { meaning } of Object.values(document.components.schemas.Error?.["x-codes"] ?? {})) {
      expect(meaning).not.toBe("");
    }
  });

  it("[G8] explains common fields first, and those that need not be sent apart", () => {
    const fieldsIn = (name: string) =>
      orderedFields(fieldsOf(operations.find((operation) => operation.name === name)?.body));
    const names = (fields: ReturnType<typeof fieldsOf>) => fields.map(([name]) => name);
    const created = fieldsIn("createSession");
    expect(names(created.current).slice(0, 4)).toEqual(["prompt", "model", "tool_preset", "system_prompt"]);
    expect(names(created.retired).sort()).toEqual([...Object.keys(WHY_UNSERVED), "skill_references"].sort());
    expect(names(fieldsIn("startTurn").retired)).toContain("budget_limits");
    expect(names(fieldsIn("startTurn").current)[0]).toBe("prompt");
  });

  it("[G8] says how each operation is asked for in three languages, by names that are there", () => {
    const python = pythonMethods();
    for (const operation of operations.filter(({ scope }) => scope !== undefined)) {
      const written = (["curl", "TypeScript", "Python"] as const).map((one) => exampleIn(one, operation, place) ?? "");
      expect(written[0]).toMatch(/^curl .*http:\/\/localhost\//);
      expect(written.join()).not.toMatch(/undefined|\[object|\{\w+_id\}/);
      const idiom = IDIOMS[operation.name];
      if (idiom === undefined) continue;
      const [typeScript, inPython = typeScript] = idiom;
      const [, called] = /\.(\w+)\([^()]*\)$/.exec(inPython) ?? [];
      expect({ name: operation.name, called }).toEqual({
        name: operation.name,
        called: methodOf(python, operation.name),
      });
    }
  });

  it("[G8] has examples in TypeScript that run", async () => {
    const { runtime: client } = await serveRest();
    const { id } = await client.createSession("Hello!");
    await client.agent("ada").remember("The port is 7443.");
    for (const [typeScript] of Object.values(IDIOMS)) {
      const call = new Function("client", `return ${typeScript.replace("SESSION_ID", id)};`);
      // What a build leaves out is refused with its own code, by a call that is there.
      await call(client).catch((thrown: Error) => expect(thrown.message).toMatch(/memory|compaction/i));
    }
  });
});

function methodOf(python: Readonly<Record<string, string>>, name: string): string | undefined {
  return /\.?(\w+)$/.exec(python[name] ?? "")?.[1];
}
