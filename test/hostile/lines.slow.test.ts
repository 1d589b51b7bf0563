import { describe, it } from "vitest";
import { attackAcp } from "./acp.ts";
import { attackCli } from "./cli.ts";
import { expectHarmless, INPUTS, seed, TIMEOUT_MS } from "./expect-harmless.ts";
import { attackMcpStdio } from "./mcp-stdio.ts";
import { attackRpc } from "./rpc.ts";

/** Of the command line's inputs, those that start a process of their own. */
const PROCESSES = 4;

describe(`lines with something wrong in them, seed ${seed}`, () => {
  it(
    "[H1] [H5] JSON-RPC answers each as it should, keeps nothing and goes on",
    () => expectHarmless(attackRpc),
    TIMEOUT_MS,
  );

  it(
    "[G4] [H1] [H5] MCP answers each as it should, keeps nothing and goes on",
    () => expectHarmless(attackMcpStdio),
    TIMEOUT_MS,
  );

  it(
    "[K1] [H1] [H5] the Agent Client Protocol answers each as it should, keeps nothing and goes on",
    () => expectHarmless(attackAcp),
    TIMEOUT_MS,
  );

  it(
    "[H1] the command line refuses each in a sentence, with an exit code of the table",
    async () => {
      await expectHarmless((options) => attackCli({ ...options, processes: PROCESSES }), INPUTS >> 1);
    },
    TIMEOUT_MS,
  );
});
