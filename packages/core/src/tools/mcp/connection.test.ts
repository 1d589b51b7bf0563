import { expect, it } from "vitest";
import { fillHeaders } from "./variables.ts";

it("[H3] [G9] a header that cannot be sent is named, and what it holds is not", () => {
  const env = { KEY: "secret-aaaa\nX-Inject: secret-bbbb" };
  expect(() => fillHeaders({ "X-Key": `Bearer \${KEY}` }, env)).toThrow(
    "its header X-Key contains a character that is invalid in a header, such as a line break",
  );
  expect(fillHeaders({ "X-Key": `Bearer \${KEY}` }, { KEY: "k" })).toEqual({ "X-Key": "Bearer k" });
});
