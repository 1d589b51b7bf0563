import { describe, expect, it } from "vitest";
import { termsOf } from "./rank.ts";

describe("words", () => {
  it.each([["keys key"], ["deploying deployed deploys"], ["running runs ran"], ["policies policy"], ["boxes box"]])(
    "[A8] takes %s for one",
    (words) => {
      expect(new Set(termsOf(words)).size).toBe(1);
    },
  );

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
