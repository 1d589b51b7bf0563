import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, expect, it, vi } from "vitest";
import { SUMMARY_USAGE } from "../support/held-summaries.ts";
import { databaseFor, withPostgres } from "../support/postgres.ts";

// Two processes are started, one after the other, and the machine may be busy.
vi.setConfig({ testTimeout: 120_000 });

const root = mkdtempSync(join(tmpdir(), "rkat-prepared-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

interface Report {
  readonly id: string;
  /** How many summaries its model was asked for. */
  readonly asked: number;
  readonly compactions: readonly object[];
  readonly usage: { readonly inputTokens: number };
  readonly prepared?: string;
}

async function work(...args: readonly string[]): Promise<Report> {
  const script = join(import.meta.dirname, "prepared-process.ts");
  const { stdout } = await promisify(execFile)(process.execPath, [script, ...args]);
  return JSON.parse(stdout) as Report; // What the script writes.
}

/** One process prepares and ends; another puts it into force, and pays for nothing. */
async function expectPublished(place: string): Promise<void> {
  const first = await work(place);
  expect(first).toMatchObject({ asked: 1, compactions: [], prepared: expect.any(String) });
  const second = await work(place, first.id);
  expect(second).toMatchObject({
    asked: 0,
    compactions: [{ compaction_id: first.prepared, prepared: { seq: expect.any(Number) } }],
  });
  // Answers take 10 each: what the summary took is in both sums, and once in each.
  const answersIn = ({ usage }: Report): number => (usage.inputTokens - SUMMARY_USAGE.input_tokens) / 10;
  expect(answersIn(first)).toBeLessThan(50);
  expect(answersIn(second)).toBeLessThan(100);
  expect(answersIn(second)).toBeGreaterThan(answersIn(first));
}

it("[J2] a compaction that one process prepares in a folder is put into force by another", () =>
  expectPublished(join(root, "state")));

withPostgres("a compaction that one process prepares in a database", () => {
  it("[J2] is put into force by another", async () => expectPublished(await databaseFor("prepared")));
});
