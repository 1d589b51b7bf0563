import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { McpAddress, McpProgram } from "@rkat/core/ports/tool";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import {
  modernProgram,
  openHttpServer,
  openModernServer,
  pidsOf,
  program,
  runtimeWith,
} from "../support/mcp-servers.ts";

let folder = "";
let closers: (() => Promise<void>)[] = [];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "rkat-mcp-versions-"));
});
afterEach(async () => {
  for (const close of closers.toReversed()) await close();
  closers = [];
  rmSync(folder, { recursive: true });
});

const call = (name: string, args = {}) => ({ name: `mcp__t__${name}`, args });
const calls = (...names: string[]) => ({ calls: names.map((name) => call(name, { text: "again" })) });

type Place = Pick<McpProgram, "command" | "args"> | Pick<McpAddress, "url" | "headers">;

/** A runtime with one server `t`, closed after the test. */
function runtimeOf(server: Place, script: Parameters<typeof runtimeWith>[0]) {
  const made = runtimeWith(script, { mcpServers: [{ name: "t", ...server }] });
  closers.push(made.runtime.close);
  return made;
}

const KINDS: Readonly<Record<string, () => Promise<Place>>> = {
  "a program of 2025": async () => program(join(folder, "notes")),
  "a program of 2025 that ends at an unknown message": async () => program(join(folder, "notes"), "strict"),
  "a program of 2025 that ignores an unknown message": async () => program(join(folder, "notes"), "mute"),
  "a program of 2026-07-28 alone": async () => modernProgram,
  "an address of 2025": async () => {
    const server = await openHttpServer("token");
    closers.push(server.close);
    return { url: `${server.url}/mcp`, headers: { Authorization: "Bearer token" } };
  },
  "an address of 2026-07-28 alone": async () => {
    const server = await openModernServer();
    closers.push(server.close);
    return { url: server.url };
  },
};

describe.each(Object.entries(KINDS))("as a server, %s", (_, open) => {
  it("[T1] [G9] has its tools called, and those it learns in a turn are there in one that follows", async () => {
    const learn = { calls: [call("learn", { name: "swim" })] };
    const steps = [calls("echo", "structured", "fail"), learn];
    const { runtime, results, offered, warnings } = runtimeOf(await open(), ({ messages, tools }) => {
      const isAsked = messages.at(-1)?.role === "user" && tools.some(({ name }) => name === "mcp__t__swim");
      return steps.shift() ?? (isAsked ? calls("swim") : { text: "ok" });
    });
    const session = await runtime.createSession("Go.");
    expect(warnings.filter((sentence) => !sentence.includes("unsound"))).toEqual([]);
    const { messages } = await session.history();
    const shown = messages.flatMap((message) => (message.role === "tool_results" ? message.results : []));
    expect(shown.map(({ content, is_error }) => ({ content, is_error }))).toEqual([
      { content: "You said: again", is_error: false },
      { content: '{"celsius":7}', is_error: false },
      { content: "no such page", is_error: true },
      { content: "learning", is_error: false },
    ]);
    // A server at an address says on a stream of its own that its tools have changed.
    const isOffered = async () => {
      await session.turn("And now?");
      expect(offered()).toContain("mcp__t__swim");
    };
    await vi.waitFor(isOffered, { timeout: 10_000 });
    expect(results()).toEqual([{ content: "learned", is_error: false }]);
  });
});

it("[T1] a program of 2025 that ends at an unknown message is started again once", async () => {
  const notes = join(folder, "notes");
  const { runtime } = runtimeOf(program(notes, "strict"), [{ text: "ok" }]);
  await runtime.createSession("Go.");
  expect(pidsOf(notes)).toHaveLength(2);
});
