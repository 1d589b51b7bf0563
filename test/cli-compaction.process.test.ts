import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { CAPABILITY_ABSENT } from "@rkat/core/contract/capability";
import type { Compaction } from "@rkat/core/contract/compaction";
import type { SessionContext } from "@rkat/core/contract/session-info";
import { beforeEach, describe, expect, it } from "vitest";
import { useCommandLine } from "./support/command-line.ts";
import { CONFIGURATION, FACTS, fact, NO_MODEL, OFFLINE, summarisedBy } from "./support/compacting-command-line.ts";

const line = useCommandLine();
const { run } = line;
const env = OFFLINE;

beforeEach(() => writeFileSync(join(line.cwd, "rkat.toml"), CONFIGURATION));

/** Runs a session of one turn a prompt and returns its id. */
async function talk(prompts: readonly string[] = FACTS): Promise<string> {
  const { code, stderr } = await run(["chat", "-t", "none"], { env, input: prompts.join("\n") });
  expect({ code, stderr }).toEqual({ code: 0, stderr: expect.stringContaining("Come back with") });
  return (await json("session", "list")).sessions[0].session_id;
}

/** What a command prints with `--json`, which succeeds. */
async function json(...args: string[]) {
  const { code, stdout, stderr } = await run([...args, "--json"], { env });
  expect({ args, code, stderr }).toEqual({ args, code: 0, stderr: "" });
  return JSON.parse(stdout);
}

const context = (id: string): Promise<SessionContext> => json("session", "context", id);
const compactions = async (id: string): Promise<readonly Compaction[]> =>
  (await json("compact", "list", id)).compactions;

/** What a command prints to a person, which succeeds. */
async function text(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await run(args, { env });
  expect({ args, code, stderr }).toEqual({ args, code: 0, stderr: "" });
  return stdout;
}

describe("rkat compact run", () => {
  it("[C18] compacts now, tells what that did, how to look at it and how to undo it", async () => {
    const id = await talk();
    const lines = (await text("compact", "run", "last")).split("\n");
    expect(lines).toEqual([
      expect.stringMatching(/^Compacted: 10 → 5 messages, about [\d,]+ → [\d,]+ tokens\.$/),
      expect.stringMatching(/^Nothing lost\. \d+ facts are no longer shown to the model and can be found again\.$/),
      `Show it: rkat compact show ${id.slice(0, 13)}`,
      `Undo it: rkat compact undo ${id.slice(0, 13)}`,
      "",
    ]);
    expect((await context(id)).parts.map(({ kind }) => kind)).toEqual(["summary", "turn", "turn"]);
  });

  it("[C18] previews what would go, what would stay and what it would cost, and changes nothing", async () => {
    const id = await talk();
    const before = await context(id);
    const preview = await text("compact", "run", id, "--preview");
    expect(preview).toMatch(/^Preview: nothing was changed and no model was called\n {3}messages +10 → 5\n/);
    expect(preview).toMatch(/\n {3}tokens +about [\d,]+ → about [\d,]+/);
    expect(preview).toMatch(
      /\n {3}taken out +6 messages: seqs 2–\d+, turns 1–3\n {3}kept +4 messages: .*, turns 4–5\n/,
    );
    expect(preview).toMatch(/\n {3}cost +about [\d,]+ tokens in \/ at most 300 out\n/);
    expect(preview).toMatch(/\n {3}recoverable {2}seq 2 +src\/lib\/file1\.ts\n/);
    expect(await json("compact", "run", id, "--preview")).toMatchObject({
      compacted: false,
      compaction: { compaction_id: "preview", cost: { max_output_tokens: 300 } },
    });
    expect(await context(id)).toEqual(before);
    expect(await compactions(id)).toEqual([]);
  });

  it("[C18] passes on what the summary must not omit, and --json is the operation's answer", async () => {
    const id = await talk();
    const answer = await json("compact", "run", id, "--instructions", "keep every ticket");
    expect(answer).toEqual({ compacted: true, compaction: expect.objectContaining({ trigger: "manual" }) });
    expect(await compactions(id)).toEqual([answer.compaction]);
    expect(await text("compact", "show", id)).toMatch(/\n {3}instructions +keep every ticket\n/);
  });

  it("[C8] says why there was nothing to do, which is no failure", async () => {
    await talk([fact(1)]);
    expect(await text("compact", "run", "last")).toMatch(/^Not compacted: nothing to remove: .*\.\n$/);
    expect(await json("compact", "run", "last")).toEqual({ compacted: false, reason: expect.any(String) });
  });

  it("[C18] stops when it is interrupted, and leaves the context as it was", async () => {
    const interrupt = new AbortController();
    const own = summarisedBy(() => {
      interrupt.abort(130);
      return { ends: "silent" };
    });
    await run(["chat", "-t", "none"], { env: NO_MODEL, own, input: FACTS.join("\n") });
    const before = await context("last");
    const given = { env: NO_MODEL, own, interrupt: interrupt.signal };
    expect(await run(["compact", "run", "last"], given)).toEqual({ code: 130, stdout: "", stderr: "Interrupted.\n" });
    expect(await context("last")).toEqual(before);
  });

  it("tells on a terminal that it has begun", async () => {
    await talk();
    const { code, stderr } = await run(["compact", "run", "last"], { env, isTerminal: true });
    expect({ code, stderr }).toEqual({
      code: 0,
      stderr: expect.stringMatching(/^compacting 10 messages, about \d+ tokens…\n$/),
    });
  });
});

describe("[C10] a summary that cannot be had", () => {
  const failed = "the compaction failed, and the context is as it was: LLM returned empty summary";
  const given = { env: NO_MODEL, own: summarisedBy(() => ({ text: "" })) };

  it("is an error of its own, and leaves the context as it was", async () => {
    await run(["chat", "-t", "none"], { ...given, input: FACTS.join("\n") });
    const before = await context("last");
    expect(await run(["compact", "run", "last"], given)).toEqual({
      code: 30,
      stdout: "",
      stderr: `Error: ${failed}\n`,
    });
    const { code, stdout, stderr } = await run(["compact", "run", "last", "--json"], given);
    expect({ code, stderr }).toEqual({ code: 30, stderr: `Error: ${failed}\n` });
    expect(JSON.parse(stdout)).toEqual({ compacted: false, reason: "LLM returned empty summary" });
    expect(await context("last")).toEqual(before);
  });
});

describe("rkat compact list and show", () => {
  it("[C15] list compactions as a table, newest first", async () => {
    const id = await talk();
    expect(await text("compact", "list", id)).toBe(`${id.slice(0, 13)} was not compacted yet.\n`);
    await json("compact", "run", id);
    await run(["chat", "--resume", id], { env, input: [fact(6), fact(7)].join("\n") });
    await json("compact", "run", id);
    await json("compact", "undo", id);
    const [older, newer] = await compactions(id);
    expect((await text("compact", "list", id)).split("\n")).toEqual([
      expect.stringMatching(/^ID +WHEN +WHY +MESSAGES +TOKENS +LOST +STATE$/),
      expect.stringMatching(new RegExp(`^${newer?.compaction_id.slice(0, 13)} +just now +manual .* 0 +undone$`)),
      expect.stringMatching(
        new RegExp(`^${older?.compaction_id.slice(0, 13)} +just now +manual +10 → 5 .* 0 +stands$`),
      ),
      "",
    ]);
    expect(await text("session", "show", id)).toMatch(/\ncompacted +2 times, 1 undone\n/);
  });

  it("[C15] [R2] show the summary and where every specific is now, a few of each kind unless all are asked for", async () => {
    const id = await talk([1, 2, 3, 4, 5, 6, 7, 8, 9].map(fact));
    await json("compact", "run", id);
    const [compaction] = await compactions(id);
    const { receipt, summary = "", compaction_id } = compaction ?? {};
    const shown = await text("compact", "show", id);
    expect(shown).toMatch(new RegExp(`^Compaction ${compaction_id}\n {3}when +just now, `));
    expect(shown).toContain("\n   why         manual: it was requested\n   written by  offline\n");
    for (const sentence of summary.split("\n")) expect(shown).toContain(`\n   ${sentence}`.trimEnd());
    const { total = 0, in_summary = 0, in_tail = 0, pinned = 0, recoverable = 0, verdict = "" } = receipt ?? {};
    const inView = `${in_summary + in_tail + pinned} in view (${in_summary} in the summary)`;
    expect(shown).toContain(
      `Receipt\n   ${verdict}\n   ${total} facts: ${inView}, ${recoverable} recoverable, 0 lost\n`,
    );
    expect(shown).toMatch(/\n {3}… and \d+ more \(--all\)\n/);
    const whole = await text("compact", "show", id, "--all");
    expect(whole).not.toContain("(--all)");
    for (const item of receipt?.items ?? []) expect(whole).toContain(item.text.slice(0, 60));
  });

  it("[C16] show what the summary invented, and that it was cut", async () => {
    const own = summarisedBy(() => ({ text: "Person1 owns src/lib/file1.ts. The port is 49999." }));
    const given = { env: NO_MODEL, own };
    await run(["chat", "-t", "none"], { ...given, input: FACTS.join("\n") });
    const { stdout } = await run(["compact", "run", "last"], given);
    expect(stdout).toMatch(/ 1 invented fact was cut from the summary\.\n/);
    const shown = await text("compact", "show", "last");
    expect(shown).toMatch(/\n {3}Person1 owns src\/lib\/file1\.ts\.\n\nReceipt\n/);
    expect(shown).toMatch(/\nInvented: .* cut from the summary\n {3}number {2}49999\n {6}cut: The port is 49999\.\n/);
  });

  it("name a compaction by its id, a beginning, last, or how far back it is", async () => {
    const id = await talk();
    await json("compact", "run", id);
    await run(["chat", "--resume", id], { env, input: [fact(6), fact(7)].join("\n") });
    await json("compact", "run", id);
    const ids = (await compactions(id)).map(({ compaction_id }) => compaction_id);
    const [older = "", newer = ""] = ids;
    const named: string[][] = [[], ["last"], ["~0"], [newer], [newer.slice(0, 18).toUpperCase()]];
    for (const words of named)
      expect(await json("compact", "show", id, ...words)).toMatchObject({ compaction_id: newer });
    for (const word of ["~1", "~", older]) {
      const wanted = word === "~" ? newer : older;
      expect(await json("compact", "show", id, word)).toMatchObject({ compaction_id: wanted });
    }
    const refusals: Readonly<Record<string, readonly [number, RegExp]>> = {
      "~2": [10, /^Error: ~2 is further back than the oldest compaction; rkat compact list \S+ shows them\n$/],
      ffff: [10, /^Error: no compaction of the session begins with ffff; write its id, a beginning/],
      [newer.slice(0, 4)]: [2, /^Error: \S+ begins 2 compactions: .*; write more of the one you mean\n$/],
    };
    for (const [word, [code, stderr]] of Object.entries(refusals)) {
      const refused = await run(["compact", "show", id, word], { env });
      expect(refused).toEqual({ code, stdout: "", stderr: expect.stringMatching(stderr) });
    }
  });

  it("refuse a session that is not there or was never compacted", async () => {
    expect(await run(["compact", "list", "last"], { env })).toMatchObject({ code: 10 });
    expect(existsSync(join(line.cwd, ".rkat"))).toBe(false);
    const id = await talk([fact(1)]);
    for (const word of ["show", "undo", "expand"]) {
      expect(await run(["compact", word, id], { env })).toEqual({
        code: 10,
        stdout: "",
        stderr: expect.stringMatching(/^Error: session \S+ was not compacted yet; rkat compact run \S+ does it\n$/),
      });
    }
  });

  it("let nothing that was said steer the terminal", async () => {
    const id = await talk(["Keep /tmp/a\u001b]0;owned\u0007.txt and src/\u001b[31mred.ts in mind.", ...FACTS]);
    await json("compact", "run", id);
    const shown = await text("compact", "show", id, "--all");
    expect([...shown].filter((char) => char === "\u001b" || char === "\u0007")).toEqual([]);
  });
});

describe("rkat compact undo and expand", () => {
  it("[C13] undo gives back the very context there was, and says how large it is", async () => {
    const id = await talk();
    const before = await context(id);
    await json("compact", "run", id);
    const size = `The context is now 10 messages, about ${before.estimated_tokens} tokens\\.`;
    expect(await text("compact", "undo", id)).toMatch(new RegExp(`^Undid \\S{13}\\. ${size}\n$`));
    expect(await context(id)).toEqual(before);
    expect(await run(["compact", "undo", id], { env })).toMatchObject({
      code: 10,
      stderr: expect.stringMatching(/^Error: every compaction of session \S+ was undone already; /),
    });
    expect(await text("compact", "undo", id, "last")).toMatch(new RegExp(`^\\S{13} was undone already\\. ${size}\n$`));
  });

  it("[C13] undo of an older one takes those built on it with it, and keeps later turns", async () => {
    const id = await talk();
    await json("compact", "run", id);
    await run(["chat", "--resume", id], { env, input: [fact(6), fact(7)].join("\n") });
    await json("compact", "run", id);
    const [older, newer] = await compactions(id);
    const undone = await text("compact", "undo", id, "~1");
    const built = `, and ${newer?.compaction_id.slice(0, 13)}, built on it`;
    expect(undone).toContain(`Undid ${older?.compaction_id.slice(0, 13)}${built}. The context is now 14 messages`);
    expect((await context(id)).parts.map(({ kind }) => kind)).toEqual(Array.from({ length: 7 }, () => "turn"));
  });

  it("[C13] warns when what comes back is more than the threshold lets stand", async () => {
    const long = FACTS.map((each) => each.repeat(5));
    const id = await talk(long);
    const [made] = await compactions(id);
    expect(made).toMatchObject({ trigger: "threshold" });
    expect(await text("compact", "undo", id)).toMatch(
      /\n! It is over the 1,500 tokens at which it is compacted, so the next turn compacts it again\n$/,
    );
  });

  it("[C13] expand brings turns back, as many as fit, and says what it left out", async () => {
    const id = await talk();
    await json("compact", "run", id);
    const [compaction] = await compactions(id);
    const [taken] = compaction?.discarded ?? [];
    const part = await text("compact", "expand", id, "--from", "2", "--to", "4");
    expect(part).toMatch(/^Brought back seqs 2–4\. The context is now 7 messages, about \d+ tokens\.\n$/);
    expect(await run(["compact", "expand", id, "--max-tokens", "3"], { env })).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/^Error: max_tokens: 3 is not enough, /),
    });
    const room = String(((await context(id)).parts.at(-1)?.estimated_tokens ?? 0) + 10);
    const some = await text("compact", "expand", id, "--max-tokens", room);
    expect(some).toMatch(/^Brought back seqs \d+–\d+\. .*\n! Left out seqs 7–\d+: there was no room; --max-tokens N /);
    expect(await json("compact", "expand", id)).toMatchObject({ left_out: [], messages: 11 });
    expect(await text("compact", "expand", id)).toMatch(/^Nothing to bring back: these turns are in the context\. /);
    expect(await text("session", "context", id)).toMatch(
      /^0 {2}you {2}seq \d+ {2}summary\n[\s\S]*\n1 {2}you {2}seq 2 {2}expanded\n/,
    );
    expect(await text("compact", "show", id)).toMatch(/\n {3}brought back +seqs 2–/);
    expect(taken?.from_seq).toBe(2);
  });
});

describe("rkat session pin", () => {
  it("[C18] keeps a message through a compaction, until it is unpinned", async () => {
    const id = await talk();
    const pinned = await text("session", "pin", id, "2");
    expect(pinned).toMatch(
      /^Pinned seq 2, you: The owner of src\/lib\/file1\.ts is .*\nEvery compaction keeps the seq 2\.\n$/,
    );
    expect(await text("session", "pins", id)).toBe("Every compaction keeps the seq 2.\n");
    await json("compact", "run", id);
    const [compaction] = await compactions(id);
    expect(compaction?.receipt).toMatchObject({ pinned: expect.any(Number) });
    expect((await context(id)).parts.map(({ kind }) => kind)).toContain("pinned");
    expect(await text("session", "context", id)).toMatch(/\n\d {2}you {2}seq 2 {2}pinned\n/);
    expect(await text("session", "unpin", id, "2")).toMatch(
      /^No longer pinned: seq 2, you: .*\nNothing is pinned\.\n$/,
    );
    expect(await json("session", "pin", id, "7")).toEqual({ pinned: true, seq: 7, pins: [7] });
    expect(await json("session", "unpin", id, "7")).toEqual({ pinned: false, seq: 7, pins: [] });
    expect(await run(["session", "pin", id, "3"], { env })).toEqual({
      code: 2,
      stdout: "",
      stderr: "Error: seq: there is no message at 3; the nearest before it is at 2\n",
    });
    expect(await run(["session", "pin", id, "two"], { env })).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/^Error: argument 'seq': 'two' is invalid; write a whole number/),
    });
  });
});

describe("[C19] without session-compaction", () => {
  const id = "019a2b3c-4d5e-7abc-8def-0123456789ab";
  const { code: name, message } = CAPABILITY_ABSENT["session-compaction"];
  beforeEach(() => writeFileSync(join(line.cwd, "rkat.toml"), ""));

  it.each([
    ...["run", "list", "show", "undo", "expand"].map((word) => `compact ${word} ${id}`),
    `session pin ${id} 2`,
    `session unpin ${id} 2`,
    "run hello --compact-threshold 5000",
    "chat --compact-threshold 5000",
    "run hello --evict false",
    "chat --evict-at 0.5",
  ])("%s is refused with one sentence, as text and as JSON", async (words) => {
    for (const RKAT_FEATURES of ["none", "session-store"]) {
      const given = { env: { ...env, RKAT_FEATURES }, input: "hello" };
      const refused = await run([...words.split(" "), "--json"], given);
      expect(refused).toMatchObject({ code: 40, stderr: expect.stringContaining(`Error: ${message}\n`) });
      expect(JSON.parse(refused.stdout)).toEqual({ error: { code: name, category: "capability", message } });
    }
  });

  it.each(["/compact", "/undo", "/receipt"])("%s in a chat is refused with it, too", async (slash) => {
    const given = { env: { ...env, RKAT_FEATURES: "session-store" }, input: `hello\n${slash}` };
    expect(await run(["chat"], given)).toMatchObject({
      code: 40,
      stderr: expect.stringContaining(`Error: ${message}\n`),
    });
  });

  it("a context has no mark where compaction would start", async () => {
    const given = { env: { ...env, RKAT_FEATURES: "session-store" }, input: "hello\n/context" };
    const { code, stdout } = await run(["chat"], given);
    expect(code).toBe(0);
    expect(stdout).toMatch(/\n▚█·+\n▚ tools +980\n█ turns +\d+ {2}1 turn\n· free +126,\d+\n$/);
  });

  it("refuses a configuration of it, whatever is asked for", async () => {
    writeFileSync(join(line.cwd, "rkat.toml"), CONFIGURATION);
    const given = { env: { ...env, RKAT_FEATURES: "session-store" } };
    expect(await run(["run", "hello"], given)).toMatchObject({ code: 40, stderr: `Error: ${message}\n` });
  });
});

it("every word of it has a help with an example, in at most 100 columns", async () => {
  const commands = ["run", "list", "show", "undo", "expand"].map((word) => ["help", "compact", word]);
  for (const args of [...commands, ["help", "compact"], ["help", "session", "pin"], ["help", "session", "unpin"]]) {
    const stdout = await text(...args);
    expect(stdout).toContain("\nExamples\n  rkat ");
    expect(stdout.split("\n").filter((each) => each.length > 100)).toEqual([]);
  }
});

describe("what is seen of a context", () => {
  it("[C20] [C21] is drawn as bars, and a summary's sentences lead to their messages", async () => {
    const id = await talk();
    await text("compact", "run", id);
    const shown = await text("session", "context", id);
    expect(shown).toMatch(/\n5 messages, about [\d,]+ .*tokens\n[≡▓█·│]+\n[\s\S]*▓ summary +[\d,]+\n█ turns /);
    const calls = await text("session", "calls", id);
    expect(calls).toMatch(
      /^SEQ +TURN +TOKENS\n(?:\d+ +\d+ +[\d,]+ +[▚≡▓█·│]+\n)+\d+ +▼ compacted: [\d,]+ → [\d,]+ tokens\n/,
    );
    expect(await text("session", "context", id, "--calls")).toBe(calls);
    const { calls: reported } = await json("session", "calls", id);
    expect(await text("session", "calls", id, "--limit", "4")).toContain(`--before ${reported[1].seq}\n`);
    const { sentences } = await json("compact", "sources", id);
    expect(sentences.length).toBeGreaterThan(0);
    expect(sentences.every(({ seqs }: { seqs: number[] }) => seqs.length > 0)).toBe(true);
    expect(await text("compact", "sources", id)).toContain(`${sentences[0].text}\n   seq ${sentences[0].seqs[0]}`);
  });
});
