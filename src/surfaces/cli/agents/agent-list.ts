import { type Io, writeJson } from "../io.ts";
import type { Opened } from "../open-runtime.ts";
import { createPaint } from "../paint.ts";
import { alignColumns, grouped } from "../plain-text.ts";
import { ageOf } from "../sessions/age.ts";

/** Prints the agents of this folder, a line each, by name. */
export async function listAgents(io: Io, { runtime }: Opened, { json }: { readonly json?: boolean }): Promise<void> {
  const answer = await runtime.dispatch("listAgents", {});
  if (json) return writeJson(io, answer);
  if (answer.agents.length === 0) {
    io.stdout.write("No agents found.\n");
    return;
  }
  const now = Date.now();
  const age = (moment: string): string => ageOf(Math.floor(Date.parse(moment) / 1_000), now);
  const rows = answer.agents.map(({ agent, count, created_at, updated_at }) => [
    grouped(count).padStart(COUNT_TITLE.length),
    age(updated_at),
    age(created_at),
    agent,
  ]);
  // Names come last: some scripts are wider than their letters are many, and nothing after them stays in line.
  const [head = "", ...lines] = alignColumns([[COUNT_TITLE, "CHANGED", "SINCE", "AGENT"], ...rows]);
  io.stdout.write(`${[createPaint(io.stdout, io.env).dim(head), ...lines].join("\n")}\n`);
}

const COUNT_TITLE = "MEMORIES";
