import { withoutControls } from "../../wire/terminal-text.ts";
import { fieldsOf } from "../field-flags.ts";
import { type Io, writeJson } from "../io.ts";
import type { Opened } from "../open-runtime.ts";
import { createPaint } from "../paint.ts";
import { strangerText } from "./agent-name.ts";

export interface ContextFlags {
  readonly json?: boolean;
}

/** Prints what an agent is shown of its life, as the model reads it. */
export async function showAgentContext(
  io: Io,
  { runtime }: Opened,
  { agent, ...flags }: ContextFlags & { readonly agent: string },
): Promise<void> {
  const context = await runtime.dispatch("readAgentContext", { agent, ...fieldsOf("readAgentContext", flags) });
  if (flags.json) return writeJson(io, context);
  const { prompt } = context;
  io.stdout.write(`${io.stdout.isTerminal ? withoutControls(prompt) : prompt}\n`);
  if (context.immediate.length > 0) return;
  io.stderr.write(`${createPaint(io.stderr, io.env).dim(strangerText(agent))}\n`);
}
