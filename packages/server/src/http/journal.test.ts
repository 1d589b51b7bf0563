import { describe, expect, it } from "vitest";
import { createJournal, type LineStream, type LogForm } from "./journal.ts";

/** A journal, and what it has written. */
function open(form: LogForm, stream: Partial<LineStream> = {}) {
  const written: string[] = [];
  const write = (text: string) => written.push(text);
  const parts = { form, command: "rkat serve", now: () => Date.UTC(2026, 0, 2, 3, 4, 5, 6) };
  // Not spread, so that what a test changes of the stream later is seen.
  return { journal: createJournal({ stream: Object.assign(stream, { write }), ...parts }), written };
}

const FACTS = { id: "a-1", route: "/sessions/{session_id}", status: 404, token: undefined, error: 'no "x" here' };

describe("the log of a server", () => {
  it("[I6] is a line of key=value for each fact, or of JSON", () => {
    const text = open("text");
    text.journal.log("warn", "request", FACTS);
    expect(text.written).toEqual([
      'time=2026-01-02T03:04:05.006Z level=warn kind=request id=a-1 route=/sessions/{session_id} status=404 error="no \\"x\\" here"\n',
    ]);
    const json = open("json");
    json.journal.log("warn", "request", FACTS);
    expect(json.written.map((line) => JSON.parse(line))).toEqual([
      {
        time: "2026-01-02T03:04:05.006Z",
        level: "warn",
        kind: "request",
        id: "a-1",
        route: "/sessions/{session_id}",
        status: 404,
        error: 'no "x" here',
      },
    ]);
  });

  it("[I6] tells its own sentences in every form, and nothing else when it is off", () => {
    const off = open("off");
    off.journal.log("error", "request", FACTS);
    off.journal.say("listening at x; try\n  curl x");
    off.journal.pass("agent a: 2 memories");
    expect(off.written).toEqual(["rkat serve: listening at x; try\n  curl x\n", "agent a: 2 memories\n"]);
    const json = open("json");
    json.journal.say("listening at x; try\n  curl x");
    expect(JSON.parse(json.written.join(""))).toMatchObject({
      kind: "notice",
      message: "listening at x; try\n  curl x",
    });
  });

  it.each(["text", "json"] as const)(
    "[I6] [H2] has no sign in a line of %s that ends it or steers a terminal",
    (form) => {
      const { journal, written } = open(form);
      const signs = Array.from({ length: 0x2100 }, (_, code) => String.fromCharCode(code)).join("");
      journal.log("info", "request", { error: `a\nlevel=info kind=forged${signs}` });
      const line = written.join("").slice(0, -1);
      expect(line).toMatch(/^[^\p{Cc}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069]+$/u);
      if (form === "json") expect(JSON.parse(line).error).toContain(signs);
    },
  );

  it("[I6] [H5] drops lines while nobody takes them, counts them, and says so when somebody does again", () => {
    const stream = { writableLength: 0, destroyed: false };
    const { journal, written } = open("json", stream);
    journal.log("info", "request", {});
    stream.writableLength = 1_048_576;
    for (let line = 0; line < 3; line += 1) journal.log("info", "request", {});
    journal.say("a sentence");
    expect(written.length).toBe(1);
    expect(journal.dropped()).toBe(4);
    stream.writableLength = 0;
    journal.log("info", "audit", {});
    const reported = written.join("").trimEnd().split("\n");
    expect(reported.map((line) => JSON.parse(line))).toMatchObject([
      { kind: "request" },
      { kind: "dropped", level: "warn", lines: 4 },
      { kind: "audit" },
    ]);
    stream.destroyed = true;
    journal.log("info", "audit", {});
    expect(journal.dropped()).toBe(5);
  });
});
