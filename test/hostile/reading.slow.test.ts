import { spawn } from "node:child_process";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { hostileTexts } from "./texts.ts";

/** What takes steps in proportion to its text is done in a fraction of this, what does not never is. */
const KILL_MS = 240_000;
const PIECE_CHARS = 8_000;

async function read(chars: number, only: readonly string[]) {
  const script = join(import.meta.dirname, "reading-process.ts");
  const child = spawn(process.execPath, [script, String(chars), ...(only.length > 0 ? [only.join("|")] : [])], {
    stdio: ["ignore", "pipe", "inherit"],
    timeout: KILL_MS,
    killSignal: "SIGKILL",
  });
  let text = "";
  for await (const part of child.stdout) text += part;
  const lines = text.split("\n").filter((line) => line !== "");
  return lines.map((line): { reader: string; texts: number; yields: number } => JSON.parse(line));
}

describe("whoever reads texts", () => {
  it("[H5] comes to an end with every hostile text", { timeout: KILL_MS + 10_000 }, async () => {
    const done = await read(1_500, []);
    expect(hostileTexts(1).length).toBeGreaterThan(90);
    expect(done.map(({ texts }) => texts)).toEqual(Array.from({ length: 8 }, () => hostileTexts(1).length));
  });

  it("[H5] comes to an end with half a megabyte of blanks, and lets others in often", {
    timeout: KILL_MS + 10_000,
  }, async () => {
    const runs = ['" "', '"-----BEGIN PRIVATE KEY-----\\n"'];
    const done = await read(500_000, runs);
    expect(done.map(({ texts }) => texts)).toEqual(Array.from({ length: 8 }, () => runs.length));
    const long = done.filter(({ reader }) => /^(?:specifics|occurrence|groundedness in)/.test(reader));
    for (const { yields } of long) expect(yields).toBeGreaterThan((runs.length * 500_000) / PIECE_CHARS);
  });
});
