import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Message } from "@rkat/core/contract/message";
import { checkSummary } from "@rkat/core/grounding/groundedness";
import { classify } from "@rkat/core/grounding/occurrence";
import { specificsOf } from "@rkat/core/grounding/specifics";

const yieldToEventLoop = () => undefined;
const created_at = "2026-01-05T10:30:00.000Z";

/** A message, a summary of it, and what of the message the summary writes differently; "" in a faithful summary. */
interface Summarised {
  readonly source: Message;
  readonly own: string;
  readonly summary: string;
}

type Half = "tuned" | "held-out";
type SetName = Half | "fair" | `meaning-${Half}` | `kept-${Half}`;

/** Each block of a file: `role: text with §what is changed§`, then `-> summary`. */
export function readSummaries(set: SetName): readonly Summarised[] {
  const text = readFileSync(join(import.meta.dirname, "changed", `${set}.txt`), "utf8");
  return text
    .trim()
    .split("\n\n")
    .map((block) => {
      const [first = "", summary = ""] = block.split("\n-> ");
      const [, role = "", marked = ""] = /^(user|assistant): (.*)$/su.exec(first) ?? [];
      const said = marked.replaceAll("§", "");
      return { source: messageOf(role, said), own: marked.split("§")[1] ?? "", summary };
    });
}

function messageOf(role: string, text: string): Message {
  if (role === "user") return { role: "user", content: text, created_at };
  return {
    role: "block_assistant",
    blocks: [{ block_type: "text", data: { text } }],
    stop_reason: "end_turn",
    created_at,
  };
}

/** What a receipt lists of one summary. */
interface Listed {
  /** Specifics that hold what was changed, or that it holds, and that count as kept. */
  readonly kept: readonly string[];
  readonly missing: readonly string[];
  readonly invented: readonly string[];
  readonly unverified: readonly string[];
  readonly doubtful: readonly string[];
}

export async function listedOf({ source, own, summary }: Summarised): Promise<Listed> {
  const specifics = await specificsOf([{ seq: 1, message: source }], yieldToEventLoop);
  const about = specifics.filter(({ text }) => own === "" || text.includes(own) || own.includes(text));
  const items = await classify(about, { summary, tail: [], pinned: [], yieldToEventLoop, recover: async () => false });
  const { invented, unverified, doubtful } = await checkSummary(summary, [source], yieldToEventLoop);
  const withStatus = (status: string) => items.filter((one) => one.status === status).map(({ text }) => text);
  return {
    kept: withStatus("in_summary"),
    missing: withStatus("lost"),
    invented: invented.map(({ text }) => text),
    unverified,
    doubtful,
  };
}
