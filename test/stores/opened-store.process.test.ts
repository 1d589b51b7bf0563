import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { defaultConfig } from "@rkat/core/config/settings";
import { openRuntime } from "@rkat/node/open-runtime";
import { newRealmKey } from "@rkat/node/sealed-realm";
import { afterAll, describe, expect, it } from "vitest";
import { useCommandLine } from "../support/command-line.ts";
import { databaseFor, withPostgres } from "../support/postgres.ts";

const root = mkdtempSync(join(tmpdir(), "rkat-opened-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const FACT = "The staging port is 4711.";

/** A program with a compacted session, which keeps running until it is closed. */
async function runProgram(place: { readonly stateFolder: string } | { readonly store: string }) {
  const runtime = await openRuntime({ ...place, model: "offline", env: {} });
  const session = await runtime.createSession(FACT);
  for (const n of [1, 2, 3, 4, 5]) await session.turn(`Ticket ABC-${n} is about ${"the harbour wall ".repeat(40)}`);
  await session.compact();
  return { runtime, session };
}

/** What the commands of a person show of a place. */
async function seen(line: ReturnType<typeof useCommandLine>, place: string): Promise<readonly string[]> {
  const commands = [
    ["session", "list"],
    ["session", "show", "last"],
    ["compact", "show", "last"],
    ["memory", "search", "staging port"],
  ];
  const shown: string[] = [];
  for (const words of commands) {
    const { code, stdout, stderr } = await line.run([...words, "--store", place], { env: { NO_COLOR: "1" } });
    // Vectors may not be ready yet.
    expect({ words, code, stderr }).toEqual({
      words,
      code: 0,
      stderr: expect.stringMatching(/^(.*by words alone.*\n)?$/),
    });
    shown.push(stdout);
  }
  return shown;
}

describe("a state folder as a program made it", () => {
  const line = useCommandLine();

  it("[S2] is opened by every command while the program runs, and nothing is made in the working folder", async () => {
    const stateFolder = join(line.cwd, ".state");
    const { runtime, session } = await runProgram({ stateFolder });
    const [list, show, compaction, memory] = await seen(line, ".state");
    expect(list).toContain(session.id.slice(0, 13));
    expect(show).toContain(session.id);
    expect(show).toMatch(/Resume with: rkat resume \S+ PROMPT --store \.state\n/);
    expect(compaction).toContain("staging port");
    expect(memory).toContain(FACT);
    const resumed = await line.run(["resume", "last", "Which port?", "--store", stateFolder, "-m", "offline"]);
    expect(resumed).toMatchObject({ code: 0, stdout: expect.stringContaining("4711") });
    // The program sees the turn of the command line.
    expect(JSON.stringify(await session.history())).toContain("Which port?");
    await runtime.close();
    expect(await line.run(["doctor", "--verify", "--store", ".state"])).toMatchObject({ code: 0 });
    expect(readdirSync(line.cwd)).toEqual([".state"]);
  });

  it("[S2] wins over a database of the configuration", async () => {
    const stateFolder = join(line.cwd, ".state");
    const { runtime } = await runProgram({ stateFolder });
    await runtime.close();
    writeFileSync(
      join(line.cwd, "rkat.toml"),
      '[store]\nurl = "postgres://nobody@127.0.0.1:1/none"\nrealm = "other"\n',
    );
    const env = { RKAT_STORE_URL: "postgres://nobody@127.0.0.1:1/none", RKAT_TRUST: "1" };
    const { code, stdout } = await line.run(["session", "list", "--store", ".state"], { env });
    expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringContaining("staging port") });
  });

  it("[S2] is refused in one sentence where it cannot be opened, and nothing is made", async () => {
    const folder = (name: string): string => {
      mkdirSync(join(line.cwd, name, "src"), { recursive: true });
      return name;
    };
    const config = { ...defaultConfig(), encryption: { key_env: "REALM_KEY" } };
    const sealed = { config, env: { REALM_KEY: newRealmKey() }, stateFolder: join(line.cwd, "sealed") };
    await (await openRuntime(sealed)).close();
    await (await openRuntime({ env: {}, stateFolder: join(line.cwd, "newer") })).close();
    await (await openRuntime({ env: {}, stateFolder: join(line.cwd, "app", ".state") })).close();
    writeFileSync(join(line.cwd, "newer", "format"), "99 99\n");
    writeFileSync(join(line.cwd, "file"), "");
    const refused: readonly (readonly [words: readonly string[], sentence: string])[] = [
      [["nowhere"], "there is no folder"],
      [["file"], "is a file; name the stateFolder of a program"],
      [[folder("other")], "nothing is kept in"],
      [["app"], `did you mean ${join(line.cwd, "app", ".state")}?`],
      [["sealed"], "is encrypted; name its key in [encryption]"],
      [["newer"], "is of version 99 and this program knows 3; update rkat"],
      [["sealed", "--realm", "team"], "a folder is one realm; leave --realm out"],
      [["sealed", "--state-root", "."], "--state-root another place; use one of them"],
      [["mysql://me:hush@db/x"], "a store at mysql:// is not known"],
    ];
    for (const [[place = "", ...more], sentence] of refused) {
      const { code, stdout, stderr } = await line.run(["session", "list", "--store", place, ...more]);
      expect({ place, code: code > 0, stdout, stderr }).toEqual({
        place,
        code: true,
        stdout: "",
        stderr: expect.stringContaining(sentence),
      });
      expect(stderr.trim().split("\n")).toHaveLength(1);
      expect(stderr).not.toContain("hush");
    }
    expect(existsSync(join(line.cwd, "nowhere"))).toBe(false);
    expect(readdirSync(join(line.cwd, "other"))).toEqual(["src"]);
  });
});

withPostgres("a database as a program made it", () => {
  const line = useCommandLine();

  it("[S2] is opened by every command while the program runs", async () => {
    const store = await databaseFor("opened");
    const { runtime, session } = await runProgram({ store });
    const [list, show, compaction, memory] = await seen(line, store);
    expect(list).toContain(session.id.slice(0, 13));
    expect(show).toContain(session.id);
    expect(compaction).toContain("staging port");
    expect(memory).toContain(FACT);
    await runtime.close();
  });
});
