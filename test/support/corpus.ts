import { readdirSync, readFileSync } from "node:fs";
import { Message } from "@rkat/core/contract/message";
import { z } from "zod";

const CompactionCase = z.strictObject({
  name: z.string(),
  messages: z.array(Message).min(30).max(120),
  /** Summaries that say nothing but what the messages say, in other words. */
  honest: z.array(z.string()).min(2),
  /** Summaries with something added; each added piece stands word for word in its summary. */
  planted: z.array(z.strictObject({ summary: z.string(), invented: z.array(z.string()).min(1) })).min(4),
});
export type CompactionCase = z.infer<typeof CompactionCase>;

const FOLDER = new URL("../corpus/compaction/", import.meta.url);

/** The conversations that compactions are measured on. */
export function compactionCorpus(): readonly CompactionCase[] {
  return readdirSync(FOLDER)
    .filter((file) => file.endsWith(".json"))
    .sort()
    .map((file) => CompactionCase.parse(JSON.parse(readFileSync(new URL(file, FOLDER), "utf8"))));
}
