import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { SCENARIOS } from "../src/conformance/conformance.ts";
import type { CallStep } from "../src/conformance/scenario.ts";
import { BUILDS, CAPABILITY_ABSENT, type Capability } from "../src/contract/capability.ts";
import { ERRORS } from "../src/contract/error.ts";
import { CLIENTS, essenceOf, type Opened, tell, useStage, type Way } from "./parity/stage.ts";

const WAYS: readonly Way[] = ["rpc", "rest", "mcp", "mcp-http", "cli", ...CLIENTS];
const ALL: readonly Capability[] = ["session-store", "memory-store", "session-compaction"];
/** What is about processes, and two commands at once, is told to a process a command. */
const BY_PROCESSES = ["busy-and-interrupt", "restart", "token-budget", "provider-fails"];
const MS_MAX = 240_000;

describe("every scenario on every surface", () => {
  const open = useStage();
  const opened = new Map<Way, Promise<Opened>>();
  const on = (way: Way): Promise<Opened> => {
    const known = opened.get(way) ?? open(way, ALL);
    opened.set(way, known);
    return known;
  };

  for (const { name, title } of SCENARIOS) {
    it(`[G7] ${name}: ${title}`, { timeout: MS_MAX }, async () => {
      const telling = await tell(await on("runtime"), name);
      expect(telling.verdict).toEqual({ kind: "ok" });
      const ways = WAYS.map((way) => (way === "cli" && BY_PROCESSES.includes(name) ? "cli processes" : way));
      for (const way of ways) {
        const same = await tell(await on(way), name);
        if (NOT_APPLICABLE[name]?.includes(way)) {
          expect({ way, kind: same.verdict.kind }).toEqual({ way, kind: "not applicable" });
          continue;
        }
        expect({ way, verdict: same.verdict }).toEqual({ way, verdict: { kind: "ok" } });
        expect({ way, told: essenceOf(same) }).toEqual({ way, told: essenceOf(telling) });
      }
    });
  }
});

/** What a surface has no form for; `docs/conformance.md` says why. */
const NOT_APPLICABLE: Readonly<Record<string, readonly Way[]>> = {
  "client-tools": ["cli"],
  files: ["cli"],
  deferred: ["cli"],
  "inject-once": ["cli"],
  import: ["cli"],
  "wrong-fields": ["cli"],
  pins: ["mcp", "mcp-http"],
  prune: ["mcp", "mcp-http"],
  "asked-call": ["cli", "mcp", "mcp-http"],
};

/** Builds that leave something out. */
const { F: _, ...LESSER } = BUILDS;

/** What a capability changes. */
const TELLING = [
  "create",
  "further-turn",
  "compaction-of-live-session",
  "compaction-asked-for",
  "memory-asked-for",
  "unknown-session",
  "unknown-live-session",
  "unknown-turn",
  "unknown-compactions",
  "archive",
  "history-search",
];

describe("builds", () => {
  const open = useStage();
  for (const [build, features] of Object.entries(LESSER)) {
    it(
      `[G7] [F2] ${build}: what is left out is left out on every surface, and refused alike`,
      async () => {
        const runtime = await open("runtime", features);
        expect([...runtime.present].sort()).toEqual([...features].sort());
        // One after the other: ten programs that start at once on a busy machine are each too late.
        const ways: { readonly way: Way; readonly opened: Opened }[] = [];
        for (const way of WAYS) ways.push({ way, opened: await open(way, features) });
        for (const name of TELLING) {
          const telling = await tell(runtime, name);
          expect({ name, verdict: telling.verdict }).not.toMatchObject({ verdict: { kind: "failed" } });
          for (const { way, opened } of ways) {
            expect({ way, present: opened.present }).toEqual({ way, present: runtime.present });
            const same = await tell(opened, name);
            if (same.verdict.kind === "not applicable") continue;
            expect({ way, name, verdict: same.verdict }).toEqual({ way, name, verdict: telling.verdict });
            expect({ way, name, told: essenceOf(same) }).toEqual({ way, name, told: essenceOf(telling) });
          }
        }
      },
      MS_MAX,
    );
  }

  for (const way of ["runtime", "rpc", "rest", "mcp", "mcp-http", "cli processes"] as const) {
    it(
      `[F3] ${way}: without a store, what needs one says so in the same words`,
      async () => {
        const { driver } = await open(way, []);
        const session_id = "00000000-0000-7000-8000-000000000000";
        // The number of each surface, 501 and exit 40 among them, is compared with the table by the driver.
        const { code, message } = CAPABILITY_ABSENT["session-store"];
        const disabled = { ok: false, code, message };
        expect(message).toBe("Session persistence is disabled (build without 'session-store').");
        expect(await driver.call("resumeSession", { session_id, prompt: "Are you there?" })).toEqual(disabled);
        expect(await driver.call("readSession", { session_id })).toEqual(disabled);
        expect(await driver.call("listSessions", {})).toEqual(disabled);
        expect(await driver.call("readHistory", { session_id })).toEqual(disabled);
        expect(await driver.call("archiveSession", { session_id })).toEqual(disabled);
      },
      MS_MAX,
    );
  }
});

/** Codes that no scenario comes to, and why. */
const UNREACHED: Readonly<Record<string, string>> = {
  SESSION_NOT_RUNNING: "reserved: an interrupt of an idle session does nothing",
  DUPLICATE_INPUT: "of the header Idempotency-Key, which REST alone has",
  SESSION_STORE_ERROR: "a disk that fails",
  AGENT_ERROR: "limits of a thousand requests at once",
  SCHEDULE_NOT_FOUND: "reserved",
  SUPERVISOR_ROTATION_INCOMPLETE: "reserved",
  UNAUTHORIZED: "of HTTP, before any operation",
  FORBIDDEN_ORIGIN: "of HTTP, before any operation",
  PERMISSION_DENIED: "of what a server was started with, or of a file: surfaces differ in that",
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
    const page = readFileSync(join(import.meta.dirname, "../docs/conformance.md"), "utf8");
    const rows = [...page.matchAll(/^\| `([a-z-]+)` +\|((?: +(?:yes|–) +\|)+)$/gm)];
    const told = rows.map(([, name, cells = ""]) => [name, [...cells.matchAll(/yes|–/g)].map(([cell]) => cell)]);
    const surfaces: readonly Way[] = ["runtime", "rpc", "rest", "mcp", "mcp-http", "cli"];
    const stated = SCENARIOS.map(({ name }) => [
      name,
      surfaces.map((way) => (NOT_APPLICABLE[name]?.includes(way) ? "–" : "yes")),
    ]);
    expect(told).toEqual(stated);
  });
});

function callsIn(step: CallStep): readonly CallStep[] {
  return [step, ...(step.meanwhile?.steps ?? [])];
}
