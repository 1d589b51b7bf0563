import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { NO_INPUT } from "../../../test/support/command-line.ts";
import type { Io } from "./io.ts";
import { whileWaiting } from "./progress.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

function terminal(given: { readonly isTerminal: boolean; readonly env?: Io["env"] }): Io & { written(): string } {
  let text = "";
  const output = { isTerminal: given.isTerminal, columns: 80, write: (more: string | Uint8Array) => (text += more) };
  return {
    args: [],
    env: given.env ?? { FORCE_COLOR: "0" },
    cwd: "/",
    home: "/",
    version: "",
    nodeVersion: "",
    stdin: NO_INPUT,
    stdout: output,
    stderr: output,
    interrupt: new AbortController().signal,
    written: () => text,
  };
}

const CLEAR = "\r\u001b[K";

describe("[G5] a line while work takes long", () => {
  const take = async (io: Io, ms: number): Promise<string> => {
    const done = whileWaiting(io, "checking", () => new Promise<string>((end) => setTimeout(() => end("done"), ms)));
    await vi.advanceTimersByTimeAsync(ms);
    return done;
  };

  it("counts on a terminal and is gone at the end", async () => {
    const io = terminal({ isTerminal: true });
    expect(await take(io, 2_500)).toBe("done");
    expect(io.written()).toBe(
      ["", "", " 1 s", " 1 s", " 2 s", " 2 s"].map((time) => `${CLEAR}checking…${time}`).join("") + CLEAR,
    );
  });

  it("is not there for what is quick, in a pipe, on a terminal that cannot clear a line, or with NO_COLOR", async () => {
    const quick = terminal({ isTerminal: true });
    await take(quick, 300);
    const pipe = terminal({ isTerminal: false });
    await take(pipe, 5_000);
    const dumb = terminal({ isTerminal: true, env: { TERM: "dumb" } });
    await take(dumb, 5_000);
    const plain = terminal({ isTerminal: true, env: { NO_COLOR: "1" } });
    await take(plain, 5_000);
    expect([quick, pipe, dumb, plain].map((io) => io.written())).toEqual(["", "", "", ""]);
  });

  it("is gone when the work fails, too", async () => {
    const io = terminal({ isTerminal: true });
    const failing = () => new Promise<never>((_, fail) => setTimeout(() => fail(new Error("no")), 600));
    const done = whileWaiting(io, "checking", failing).catch((error: Error) => error.message);
    await vi.advanceTimersByTimeAsync(600);
    expect(await done).toBe("no");
    expect(io.written()).toBe(`${CLEAR}checking…${CLEAR}`);
  });
});
