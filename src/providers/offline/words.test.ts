import { describe, expect, it } from "vitest";
import { stem, termsOf } from "./words.ts";

describe("words", () => {
  it("[A8] takes off plurals, -ing and -ed alike", () => {
    expect(["keys", "key"].map(stem)).toEqual(["key", "key"]);
    expect(["deploying", "deployed", "deploys"].map(stem)).toEqual(["deploy", "deploy", "deploy"]);
    expect(["running", "runs"].map(stem)).toEqual(["run", "run"]);
    expect(["policies", "boxes", "status", "this"].map(stem)).toEqual(["policy", "box", "status", "this"]);
    expect(["decided", "chose"].map(stem)).toEqual(["decid", "decid"]);
  });

  it("[A8] keeps identifiers, paths and numbers whole, and finds their parts", () => {
    expect(termsOf("Where is src/api/server.ts?")).toEqual([
      "src/api/server.ts",
      "server.ts",
      "src",
      "api",
      "server",
      "ts",
    ]);
    expect(termsOf("Is France in createSession?")).toEqual(["franc", "createsession", "creat", "session"]);
    expect(termsOf("the client_id is 7443")).toEqual(["client_id", "client", "id", "7443"]);
  });

  it("[A8] reads scripts without spaces by pairs, and accents as plain letters", () => {
    expect(termsOf("端口是7443")).toEqual(["端口", "口是", "7443"]);
    expect(termsOf("Código")).toEqual(["codigo"]);
  });
});
