import { PassThrough } from "node:stream";
import { text } from "node:stream/consumers";
import { loadConfig } from "@rkat/node/config/load-config";
import { openRuntime } from "@rkat/node/open-runtime";
import { openDatabaseTokens } from "@rkat/postgres";
import { expect, it } from "vitest";
import { startMcp } from "../mcp/start.ts";
import { startRest } from "../rest/start.ts";
import { startRpc } from "../rpc/start.ts";
import type { ServerIo, ServerParts } from "./start.ts";

type Start = (io: ServerIo, parts: ServerParts) => Promise<number>;
const STARTS: readonly (readonly [string, Start])[] = [
  ["rkat-rpc", startRpc],
  ["rkat-mcp", startMcp],
  ["rkat-rest", (io, parts) => startRest({ ...io, command: "rkat-rest", purpose: "server" }, parts)],
];

/** What a server says and ends with; it never comes to serving. */
async function call(start: Start, ...args: string[]) {
  const stdout = new PassThrough();
  let reported = "";
  const stderr = {
    write: (sentence: string): void => {
      reported += sentence;
    },
  };
  const io = { args, env: {}, cwd: "/nonexistent", home: "/nonexistent", version: "1.2.3", stdin: new PassThrough() };
  const interrupt = new AbortController().signal;
  const exit = await start({ ...io, stdout, stderr, interrupt }, { loadConfig, openRuntime, openDatabaseTokens });
  stdout.end();
  return { exit, out: await text(stdout), reported };
}

it.each(STARTS)("[H1] %s shows its help, its version, and which flag is wrong", async (name, start) => {
  for (const flag of ["--help", "-h"]) {
    const help = { exit: 0, out: expect.stringMatching(new RegExp(`^Usage: ${name} \\[options\\]\n`)), reported: "" };
    expect(await call(start, flag)).toEqual(help);
  }
  for (const flag of ["--version", "-V"]) {
    expect(await call(start, flag)).toEqual({ exit: 0, out: "1.2.3\n", reported: "" });
  }
  const refused = `${name}: Unknown option '--nope'; see --help\n`;
  expect(await call(start, "--nope")).toEqual({ exit: 2, out: "", reported: refused });
  const both = await call(start, "--realm", "a", "--isolated");
  expect(both).toEqual({ exit: 2, out: "", reported: expect.stringMatching(/--realm names a realm and --isolated/) });
});
