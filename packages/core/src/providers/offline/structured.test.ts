import { describe, expect, it } from "vitest";
import type { Message } from "../../contract/message.ts";
import type { JsonObject } from "../../contract/session.ts";
import type { ModelPart } from "../../ports/model.ts";
import { createOfflineModel } from "./offline.ts";

const created_at = "2026-01-01T00:00:00Z";

async function collect(stream: AsyncIterable<ModelPart>): Promise<ModelPart[]> {
  const parts: ModelPart[] = [];
  for await (const part of stream) parts.push(part);
  return parts;
}

async function extract(outputSchema: JsonObject, ...texts: readonly string[]): Promise<unknown> {
  const messages = texts.map((content): Message => ({ role: "user", content, created_at }));
  const request = { messages, tools: [], outputSchema };
  const parts = await collect(createOfflineModel().stream(request, new AbortController().signal));
  return JSON.parse(parts.flatMap((part) => (part.type === "text_delta" ? [part.delta] : [])).join(""));
}

describe("offline model: structured output", () => {
  it("[A8] fills fields of every kind from what was said", async () => {
    const schema = {
      type: "object",
      properties: {
        name: { type: "string" },
        deployKey: { type: "string", description: "where the deploy key is" },
        database: { enum: ["sqlite", "lmdb", "postgres"] },
        is_encrypted: { type: "boolean" },
        server: { $ref: "#/$defs/Server" },
        contact: { type: "string", format: "email" },
        files: { type: "array", items: { type: "string" } },
      },
      required: ["name", "deployKey", "database", "is_encrypted", "server", "contact", "files"],
      $defs: {
        Server: {
          type: "object",
          properties: { port: { type: "integer" }, host: { type: ["string", "null"] } },
          required: ["port", "host"],
        },
      },
    };
    const said = [
      "My name is Ada. The deploy key is in vault/prod.",
      "We use LMDB, and the disk is not encrypted.",
      "The server port is 7443. Actually the server port is 8443.",
      "Write to ada@example.com. The file a.ts is new. The file b.ts is old.",
    ];
    expect(await extract(schema, ...said)).toEqual({
      name: "Ada",
      deployKey: "in vault/prod",
      database: "lmdb",
      is_encrypted: false,
      server: { port: 8443, host: null },
      contact: "ada@example.com",
      files: ["The file a.ts is new.", "The file b.ts is old."],
    });
  });

  it("[A8] gives what is required, and nothing else, when nothing was said about it", async () => {
    const schema = {
      type: "object",
      properties: {
        title: { type: "string", minLength: 9, maxLength: 12 },
        stars: { type: "integer", minimum: 1, maximum: 5 },
        size: { enum: ["small", "low"] },
        tags: { type: "array", items: { type: "string" }, minItems: 2 },
        due: { type: "string", format: "date" },
        note: { type: "string" },
        kind: { const: "review" },
        extra: { anyOf: [{ type: "number" }, { type: "null" }] },
      },
      required: ["title", "stars", "size", "tags", "due", "kind", "extra", "free"],
    };
    expect(await extract(schema, "Please follow up.")).toEqual({
      title: "unknown..",
      stars: 1,
      size: "small",
      tags: ["unknown", "unknown"],
      due: "1970-01-01",
      kind: "review",
      extra: null,
      free: "unknown",
    });
  });

  it("[A8] puts the plain answer into a field that asks for the answer", async () => {
    const schema = { type: "object", properties: { answer: { type: "string" } }, required: ["answer"] };
    expect(await extract(schema, "The port is 7443.", "What is the port?")).toEqual({
      answer: "You told me: “The port is 7443”.",
    });
  });

  it("[A8] ends on a schema that contains itself", async () => {
    const schema = {
      $ref: "#/$defs/Node",
      $defs: { Node: { type: "object", properties: { next: { $ref: "#/$defs/Node" } }, required: ["next"] } },
    };
    expect(await extract(schema, "Hello")).toHaveProperty("next.next");
  });

  it("[A8] takes nothing from the request that carries the schema", async () => {
    const schema = { type: "object", properties: { host: { type: "string" } }, required: ["host"] };
    const asked = `Answer with JSON of this schema.\n\n${JSON.stringify(schema)}`;
    expect(await extract(schema, "The host is db.internal.", asked)).toEqual({ host: "db.internal" });
  });
});
