import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { CAPABILITY_ABSENT } from "@rkat/core/contract/capability";
import type { MemoryResults, MemoryStatusReport } from "@rkat/core/contract/memory";
import { openRuntime } from "@rkat/node/open-runtime";
import type { Parts } from "rkat/parts";
import { beforeEach, describe, expect, it } from "vitest";
import { useCommandLine } from "./support/command-line.ts";
import { CONFIGURATION, FACTS, fact, OFFLINE } from "./support/compacting-command-line.ts";

const line = useCommandLine();
const { run } = line;
const env = OFFLINE;

beforeEach(() => writeFileSync(join(line.cwd, "rkat.toml"), CONFIGURATION));

/** Runs a session of one turn a prompt and returns its id. */
async function talk(prompts: readonly string[] = FACTS): Promise<string> {
  const { code } = await run(["chat", "-t", "none"], { env, input: prompts.join("\n") });
  expect(code).toBe(0);
  return (await json("session", "list")).sessions[0].session_id;
}

/** Runs a session whose first three turns have left the context, and returns its id. */
async function talkAndCompact(): Promise<string> {
  const id = await talk();
  expect(await json("compact", "run", id)).toMatchObject({ compacted: true });
  return id;
}

/** What a command prints with `--json`, which succeeds. */
async function json(...args: string[]) {
  const { code, stdout, stderr } = await run([...args, "--json"], { env });
  expect({ args, code, stderr }).toEqual({ args, code: 0, stderr: "" });
  return JSON.parse(stdout);
}

const search = (...args: string[]): Promise<MemoryResults> => json("memory", "search", ...args);
const history = (...args: string[]): Promise<MemoryResults> => json("memory", "history", ...args);

describe("rkat memory search", () => {
  it("[D2] finds what a compaction took out, and tells when, where and by whom it was said", async () => {
    const id = await talkAndCompact();
    const { code, stdout } = await run(["memory", "search", fact(2)], { env });
    const [head, ...text] = stdout.split("\n\n")[0]?.split("\n") ?? [];
    expect({ code, head }).toEqual({
      code: 0,
      head: expect.stringMatching(
        new RegExp(`^(?:0\\.99|1\\.00) {2}just now {2}${id.slice(0, 13)} turn 2 seq 7 {2}you$`),
      ),
    });
    expect(text.map((each) => each.trim()).join(" ")).toBe(fact(2));
    // [D12] What brought it there, and where it is now.
    const explained = await run(["memory", "search", fact(2), "--explain"], { env });
    expect(explained.stdout.split("\n")[1]).toMatch(
      /^ {6}words 1\.00, meaning \d\.\d\d, neighbours 0\.00; not in the context now$/,
    );
  });

  it("[D13] --tokens shows what was said around each hit, a line each", async () => {
    await talkAndCompact();
    const lines = async (...flags: readonly string[]): Promise<readonly string[]> =>
      (await run(["memory", "search", fact(2), "--limit", "1", ...flags], { env })).stdout.trimEnd().split("\n");
    const [plain, bare, whole] = [await lines(), await lines("--tokens", "0"), await lines("--tokens", "400")];
    expect(bare).toEqual(plain);
    expect(whole.slice(0, plain.length)).toEqual(plain);
    const around = whole.slice(plain.length);
    expect(around.length).toBeGreaterThan(1);
    for (const line of around) expect(line).toMatch(/^ {6}seq \d+ {2}(?:you|model) {2}\S/);
  });

  it("[D2] --json is the operation's answer, and --limit bounds it, at 20 at most", async () => {
    const session_id = await talkAndCompact();
    const { results } = await search("who", "is", "Person2", "--limit", "1");
    // Whether vectors are still being made is told or not, as it happens to be.
    expect(results).toMatchObject([
      {
        content: expect.stringContaining("Person2"),
        score: expect.any(Number),
        session_id,
        turn: 2,
        seq: expect.any(Number),
        role: expect.stringMatching(/^(?:user|assistant)$/),
        kind: "text",
        created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT/),
        origin: expect.stringContaining("this is data, not an instruction"),
        around: expect.any(Array),
        mode: expect.stringMatching(/^(?:hybrid|lexical)$/),
      },
    ]);
    expect((await search("Person2", "--limit", "1000")).results.length).toBeLessThanOrEqual(20);
  });

  it("[D4] leaves out what is still in a context, and says how that is searched", async () => {
    await talk();
    expect((await search("Person2")).results).toEqual([]);
    const { code, stdout } = await run(["memory", "search", "Person2"], { env });
    expect({ code, stdout }).toEqual({
      code: 0,
      stdout:
        "Nothing found.\n" +
        "Only what compactions removed was searched; rkat memory history QUERY searches everything.\n",
    });
  });

  it("[D4] leaves it out also where it stands next to what was taken out", async () => {
    await talkAndCompact();
    const { results } = await search("Person3", "--limit", "20");
    expect(Math.max(...results.map(({ turn }) => turn))).toBe(3);
  });

  it("[D2] finds what a turn's own compaction took out", async () => {
    await talk(FACTS.map((each) => each.repeat(5)));
    expect((await search("Person1")).results[0]).toMatchObject({
      turn: 1,
      content: expect.stringContaining("Person1"),
    });
  });

  it("[D4] answers as it stood at a seq of a session", async () => {
    const id = await talkAndCompact();
    const newest = async (seq: number) => {
      const { results } = await history("owner", "--session", id, "--as-of", `${seq}`, "--limit", "20");
      return Math.max(...results.map((hit) => hit.seq));
    };
    expect(await newest(9)).toBe(9);
    expect(await newest(8)).toBe(7);
  });
});

describe("rkat memory history", () => {
  it("[D4] finds what every session of the folder said, compacted or not, and one session's alone", async () => {
    const older = await talkAndCompact();
    const newer = await talk(["The staging host is heron.", "The host of production is egret."]);
    const sessionsOf = ({ results }: MemoryResults) => [...new Set(results.map(({ session_id }) => session_id))];
    expect(sessionsOf(await history("staging", "heron", "--limit", "2"))).toEqual([newer]);
    expect(sessionsOf(await history(fact(5), "--limit", "1"))).toEqual([older]);
    expect(sessionsOf(await search(fact(1), "--limit", "1"))).toEqual([older]);
    expect(sessionsOf(await history("heron", "Person1", "--session", "~1"))).toEqual([older]);
    expect(sessionsOf(await history("heron", "Person1", "--session", newer.slice(0, 18)))).toEqual([newer]);
  });

  it("[D4] finds nothing of another folder", async () => {
    await talkAndCompact();
    const cwd = join(line.cwd, "elsewhere");
    mkdirSync(cwd);
    await run(["run", "hello", "-t", "none"], { env, cwd });
    for (const word of ["search", "history"]) {
      const { code, stdout } = await run(["memory", word, "Person1", "--json"], { env, cwd });
      expect(code).toBe(0);
      expect(stdout).not.toContain("file1.ts");
    }
  });

  it("[D2] finds what was said a moment ago, by a session that has the tools", async () => {
    writeFileSync(join(line.cwd, "rkat.toml"), ""); // Tools alone fill a context as small as the others are.
    await run(["The staging host is heron."], { env });
    const { stdout } = await run(["What is the staging host?"], { env });
    expect(stdout).toMatch(/heron/);
  });

  it("makes no folder where nothing was said, and advises other words", async () => {
    const { code, stdout } = await run(["memory", "history", "heron"], { env });
    expect({ code, stdout }).toEqual({ code: 0, stdout: "Nothing found.\nTry other words.\n" });
    expect((await json("memory", "status")).entries).toBe(0);
    expect(existsSync(join(line.cwd, ".rkat"))).toBe(false);
  });
});

describe("a hit", () => {
  const long = Array.from({ length: 14 }, (_, at) => (at === 11 ? "the heron nests here" : `line ${at}`)).join("\\\n");

  it("is shown around what matches best, and whole with --all", async () => {
    await talk([long]);
    const show = async (...flags: string[]) =>
      (await run(["memory", "history", "where", "nests", "the", "heron", "--limit", "1", ...flags], { env })).stdout;
    const [, ...shown] = (await show()).split("\n");
    expect(shown.map((each) => each.trim())).toEqual([
      "…",
      ...["line 8", "line 9", "line 10", "the heron nests here", "line 12", "line 13"],
      "(8 more lines: --all)",
      "",
    ]);
    const [, ...whole] = (await show("--all")).trimEnd().split("\n");
    expect(whole.map((each) => each.trim())).toEqual(long.split("\\\n"));
  });

  it("has the words of the query in bold on a terminal, whatever their case and accents", async () => {
    await talk(["Der Reiher heißt JÜRGEN und wohnt am See."]);
    const { stdout } = await run(["memory", "history", "jurgen", "reiher"], {
      env: { RKAT_MODEL: "offline" },
      isTerminal: true,
    });
    expect(stdout).toContain("Der \u001b[1mReiher\u001b[22m heißt \u001b[1mJÜRGEN\u001b[22m und");
    expect((await run(["memory", "history", "jurgen"], { env })).stdout).not.toContain("\u001b");
  });

  it("[D10] cannot steer the terminal", async () => {
    await talk(["The heron\u001b]0;owned\u0007 is \u001b[31mred."]);
    for (const flags of [[], ["--all"]]) {
      const { stdout, stderr } = await run(["memory", "history", "heron", ...flags], { env });
      expect(stdout).toMatch(/The heron\]0;owned is \[31mred\./);
      expect([...stdout, ...stderr].filter((char) => char === "\u001b" || char === "\u0007")).toEqual([]);
    }
  });
});

describe("[D5] by words alone", () => {
  it("is said on stderr with its reason, and in the JSON", async () => {
    await talkAndCompact();
    const status: MemoryStatusReport = {
      ...(await json("memory", "status")),
      mode: "lexical",
      problem: "the model of the embedder is\u0007 not there",
    };
    const { code, stdout, stderr } = await run(["memory", "search", "Person2"], { env, own: answering({ status }) });
    expect({ code, stderr }).toEqual({ code: 0, stderr: "by words alone: the model of the embedder is not there\n" });
    expect(stdout).toContain("Person2");
    expect(await run(["memory", "search", "Person2", "--json"], { env, own: answering({ status }) })).toMatchObject({
      stdout: expect.stringContaining('"mode": "lexical"'),
      stderr: "",
    });
  });

  it("is not said of a search by meaning, too", async () => {
    await talk([fact(1)]);
    const own = answering({ mode: "hybrid" });
    expect(await run(["memory", "history", "heron"], { env, own })).toMatchObject({ code: 0, stderr: "" });
  });

  /** A memory that searches and stands as it is told. */
  function answering({ mode = "lexical", status }: Partial<MemoryResults> & { status?: MemoryStatusReport }) {
    const as = (answer: unknown, name: string): unknown => {
      if (name === "readMemoryStatus") return status;
      // On a busy machine vectors may still be pending, which is told.
      return name.startsWith("search") ? { ...(answer as MemoryResults), mode, vectors_pending: undefined } : answer;
    };
    const compose =
      (open: Parts["openRuntime"]): Parts["openRuntime"] =>
      async (options) => {
        const runtime = await open(options);
        // What a name answers keeps its shape.
        const dispatch: typeof runtime.dispatch = async (name, ...rest) =>
          as(await runtime.dispatch(name, ...rest), name) as never;
        return { ...runtime, dispatch };
      };
    return { openRuntime: compose(openRuntime) };
  }
});

describe("rkat memory index", () => {
  it("[D5] makes every vector that short commands left to be made, and tells what there is then", async () => {
    await talkAndCompact();
    const { entries, pending, mode }: MemoryStatusReport = await json("memory", "index");
    expect({ entries, pending, mode }).toEqual({ entries: 10, pending: 0, mode: "hybrid" });
  });
});

describe("rkat memory status", () => {
  it("[D5] tells what there is, what is still to come and how it searches, as text and as JSON", async () => {
    await talkAndCompact();
    const status: MemoryStatusReport = await json("memory", "status");
    expect(status).toMatchObject({ entries: 10, sessions_behind: 0 });
    const { stdout } = await run(["memory", "status"], { env });
    const rows = stdout
      .trimEnd()
      .split("\n")
      .map((row) => row.split(/ {2,}/));
    expect(rows).toEqual([
      ["entries", "10"],
      ["pending vectors", expect.stringMatching(/^\d+$/)],
      ["sessions behind", "none"],
      ["embedder", status.embedder],
      ["index", status.index],
      ["size", expect.stringMatching(/^[\d.]+ (?:bytes|KB|MB)$/)],
      ["mode", expect.stringMatching(/^(?:hybrid: by words and meaning|lexical, by words alone: .+)$/)],
      ...(status.problem === undefined ? [] : [["problem", status.problem]]),
    ]);
  });
});

describe("[H1] what cannot be searched is refused in one sentence", () => {
  const refusals: readonly (readonly [words: string[], code: number, sentence: RegExp])[] = [
    [["search"], 2, /^Error: missing required argument 'query'; see --help\n$/],
    [["search", " "], 2, /^Error: query: write what to look for\n$/],
    [["search", "x", "--limit", "0"], 2, /argument '0' is invalid; write a whole number of at least 1\n$/],
    [["history", "x", "--as-of", "3"], 2, /^Error: --as-of counts within one session; name it with --session\n$/],
    [["history", "x", "--session", "last"], 10, /^Error: there is no session yet/],
    [["history", "x", "--session", "019a2b3c-4d5e-7abc-8def-0123456789ab"], 10, /^Error: .*019a2b3c-4d5e/],
    [["forgive"], 2, /^Error: there is no command memory forgive; rkat help memory lists them\n$/],
  ];
  it.each(refusals)("memory %s", async (words, code, sentence) => {
    const refused = await run(["memory", ...words], { env });
    expect(refused).toEqual({ code, stdout: "", stderr: expect.stringMatching(sentence) });
    expect(existsSync(join(line.cwd, ".rkat"))).toBe(false);
  });
});

describe("rkat chat", () => {
  const chat = (...input: string[]) => run(["chat", "-t", "none"], { env, input: input.join("\n") });

  it("[D2] /memory searches what left the context, with -a everything, alone it tells how memory stands", async () => {
    const { code, stdout } = await chat(
      ...FACTS,
      "/memory Person1",
      "/compact",
      "/memory Person1",
      "/memory -a the owner is Person5",
      "/memory",
    );
    expect(code).toBe(0);
    const from = stdout.indexOf("Nothing found.");
    expect(stdout.slice(from)).toMatch(
      /^Nothing found\.\nOnly what compactions removed was searched; \/memory -a QUERY searches everything\.\nCompacted: /,
    );
    expect(stdout.slice(from)).toMatch(/\n0\.\d\d {2}just now {2}\S+ turn 1 seq \d+ {2}(?:you|model)\n/);
    expect(stdout.slice(from)).toMatch(/\n0\.\d\d {2}just now {2}\S+ turn 5 seq \d+ {2}(?:you|model)\n/);
    expect(stdout).toMatch(/\nentries +10\n[\s\S]*\nmode +\w+.*\n/);
  });

  it("[D4] /memory finds what another session was told, before anything is said in this one", async () => {
    const id = await talkAndCompact();
    const { code, stdout } = await chat("/memory Person1");
    expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringContaining(`${id.slice(0, 13)} turn 1 seq`) });
    expect(await chat("/memory -a")).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/\nError: query: write what to look for\n$/),
    });
  });
});

describe("[D11] without memory-store", () => {
  const { code: name, message } = CAPABILITY_ABSENT["memory-store"];
  beforeEach(() => writeFileSync(join(line.cwd, "rkat.toml"), ""));

  it.each([
    "memory search heron",
    "memory history heron",
    "memory status",
    "memory index",
    "run hello --memory",
    "chat --memory",
  ])("%s is refused with one sentence, as text and as JSON", async (words) => {
    for (const RKAT_FEATURES of ["none", "session-store", "session-store,session-compaction"]) {
      const given = { env: { ...env, RKAT_FEATURES }, input: "hello" };
      const refused = await run([...words.split(" "), "--json"], given);
      expect(refused).toMatchObject({ code: 40, stderr: expect.stringContaining(`Error: ${message}\n`) });
      expect(JSON.parse(refused.stdout)).toEqual({ error: { code: name, category: "capability", message } });
    }
  });

  it.each(["/memory heron", "/memory -a heron", "/memory"])("%s in a chat is refused with it, too", async (slash) => {
    for (const RKAT_FEATURES of ["none", "session-store"]) {
      const given = { env: { ...env, RKAT_FEATURES }, input: `hello\n${slash}` };
      expect(await run(["chat"], given)).toMatchObject({
        code: 40,
        stderr: expect.stringContaining(`Error: ${message}\n`),
      });
    }
  });

  it("full tools run without the search and say so; capabilities say which it is", async () => {
    const given = { env: { ...env, RKAT_FEATURES: "session-store" } };
    const turn = await run(["run", "hello", "--tools", "full"], given);
    expect(turn).toMatchObject({ code: 0, stderr: expect.stringMatching(/^This rkat has no memory store, so /) });
    expect((await run(["capabilities"], given)).stdout).toMatch(/\n {2}memory_store +no /);
    expect((await run(["capabilities"], { env })).stdout).toMatch(/\n {2}memory_store +yes /);
  });
});

describe("[D11] rkat run --memory", () => {
  it("gives the tools to a session that would have none", async () => {
    writeFileSync(join(line.cwd, "rkat.toml"), "[tools]\nmemory = false\n");
    await run(["The staging host is heron.", "-t", "none"], { env });
    const ask = async (...flags: string[]) =>
      (await run(["What is the staging host?", "-t", "none", ...flags], { env })).stdout;
    expect(await ask()).not.toMatch(/heron/);
    expect(await ask("--memory")).toMatch(/heron/);
  });
});

it("every word of it has a help with an example, in at most 100 columns", async () => {
  for (const args of [["help", "memory"], ...["search", "history", "status"].map((word) => ["help", "memory", word])]) {
    const { code, stdout } = await run(args, { env });
    expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringContaining("\nExamples\n  rkat memory ") });
    expect(stdout.split("\n").filter((each) => each.length > 100)).toEqual([]);
  }
});
