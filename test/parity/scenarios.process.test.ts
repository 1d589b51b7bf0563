import { readFileSync } from "node:fs";
import { join } from "node:path";
import { SCENARIOS } from "@rkat/conformance/conformance";
import { CAPABILITY_ABSENT } from "@rkat/core/contract/capability";
import { ERRORS } from "@rkat/core/contract/error";
import { describe, expect, it } from "vitest";
import type { Way } from "./stage.ts";
import { callsIn, NOT_APPLICABLE } from "./surfaces.ts";

/** Codes that no scenario comes to, and why. */
const UNREACHED: Readonly<Record<string, string>> = {
  DUPLICATE_INPUT: "of the header Idempotency-Key, which REST alone has",
  SESSION_STORE_ERROR: "a disk that fails",
  AGENT_ERROR: "limits of a thousand requests at once",
  SUPERVISOR_ROTATION_INCOMPLETE: "reserved",
  UNAUTHORIZED: "of HTTP, before any operation",
  FORBIDDEN_ORIGIN: "of HTTP, before any operation",
  DUPLICATE_REQUEST_ID: "of the header X-Meerkat-Request-Id, which REST alone has",
  PAYLOAD_TOO_LARGE: "of the transport, before any operation",
  METHOD_NOT_FOUND: "of a name that is no operation",
  INTERNAL_ERROR: "a defect",
};

describe("the scenarios", () => {
  it("[G7] come to every code that can be reached from outside on every surface", () => {
    const calls = SCENARIOS.flatMap(({ steps }) => steps.flatMap((step) => ("call" in step ? callsIn(step) : [])));
    const reached = new Set<string>([
      ...calls.flatMap(({ error }) => (error === undefined ? [] : [error.code])),
      ...Object.values(CAPABILITY_ABSENT).map(({ code }) => code),
    ]);
    expect([...reached, ...Object.keys(UNREACHED)].toSorted()).toEqual(Object.keys(ERRORS).toSorted());
  });
});

describe("docs/conformance.md", () => {
  it("[G7] says which scenario is told to which surface", () => {
    const page = readFileSync(join(import.meta.dirname, "../../docs/conformance.md"), "utf8");
    const rows = [...page.matchAll(/^\| `([a-z-]+)` +\|((?: +(?:yes|–) +\|)+)$/gm)];
    const reported = rows.map(([, name, cells = ""]) => [name, [...cells.matchAll(/yes|–/g)].map(([cell]) => cell)]);
    const surfaces: readonly Way[] = ["runtime", "rpc", "rest", "mcp", "mcp-http", "cli"];
    const stated = SCENARIOS.map(({ name }) => [
      name,
      surfaces.map((way) => (NOT_APPLICABLE[name]?.includes(way) ? "–" : "yes")),
    ]);
    expect(reported).toEqual(stated);
  });
});
