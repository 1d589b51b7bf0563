import { createInterface } from "node:readline/promises";
import type { BroughtFile } from "../../../config/load-config.ts";
import { withoutControls } from "../../wire/terminal-text.ts";
import { loadHere } from "../configuration.ts";
import type { Io } from "../io.ts";
import { createPaint } from "../paint.ts";
import type { Invocation } from "../parts.ts";

/** Asks whoever sits at the terminal whether to obey what the project's files want; without one nothing is asked. */
export async function askForTrust(invocation: Invocation): Promise<void> {
  const { io } = invocation;
  if (!canAsk(io)) return;
  const { brought, trust } = await loadHere(invocation);
  const unknown = brought.filter(({ isObeyed }) => !isObeyed);
  if (unknown.length === 0) return;
  showWishes(io, unknown);
  if (!(await isAgreed(io, "Trust these files as they are now?"))) return;
  for (const file of unknown) trust.remember(file);
}

export function canAsk({ stdin, stderr }: Io): boolean {
  return stdin.kind === "terminal" && stderr.isTerminal;
}

const STATES = {
  trusted: "trusted",
  untrusted: "not trusted",
  changed: "changed since it was trusted",
  damaged: "not trusted: its record in ~/.rkat/trust is damaged",
} as const;

/** Shows what files want, on stderr or where it was asked for. */
export function showWishes(io: Io, files: readonly BroughtFile[], output = io.stderr): void {
  const { bold, dim } = createPaint(output, io.env);
  for (const { path, wishes, state } of files) {
    output.write(`${bold(withoutControls(path))} ${dim(`(${STATES[state]})`)}\n`);
    for (const { text } of wishes) output.write(`  ${withoutControls(text)}\n`);
  }
}

/** Anything but a yes is a no, and so is the end of the input. */
export async function isAgreed({ stdin, interrupt }: Io, question: string): Promise<boolean> {
  const { input, output } = stdin.terminal();
  // Not as a terminal: the line is then edited, and Ctrl-C heard, as for any command.
  const lines = createInterface({ input, output, terminal: false });
  try {
    const ended = new Promise<string>((resolve) => lines.once("close", () => resolve("")));
    const answer = await Promise.race([lines.question(`${question} [y/N] `, { signal: interrupt }), ended]);
    return /^\s*y(?:es)?\s*$/i.test(answer);
  } finally {
    lines.close();
  }
}
