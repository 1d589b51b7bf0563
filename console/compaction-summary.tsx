import type { JSX } from "preact";
import type { Compaction } from "../src/contract/compaction.ts";
import { formatCount, formatTokens } from "./format.ts";
import { Badge } from "./parts.tsx";
import { linkTo } from "./router.ts";
import type { SessionView } from "./session-view.ts";
import type { SummarySentence } from "./summary-sources.ts";

/** What stands in the place of what was taken out: the summary, each sentence with where it comes from, and the user's rules. */
export function Standing(props: {
  view: SessionView;
  compaction: Compaction;
  sentences: readonly SummarySentence[];
}): JSX.Element {
  const { view, compaction, sentences } = props;
  const { receipt, rules = [], summary_by, summary_tokens, superseded } = compaction;
  const here = ["sessions", view.id, "compactions"];
  return (
    <section class="column" aria-label="What stands for it">
      <h2>
        In its place: {summary_by === "none" ? "no summary" : `a summary of ${formatTokens(summary_tokens)} tokens`}
      </h2>
      <p class="soft">
        {BY[summary_by]} A number leads to the message a sentence comes from.
        {superseded !== undefined && (
          <>
            {" "}
            It also replaces <a href={linkTo([...here, superseded])}>the summary before it</a>.
          </>
        )}
      </p>
      <div class="summary">
        {sentences.map(({ text, seqs }, index) => (
          <p key={index} class="summary-sentence">
            <span class="text">{text}</span>{" "}
            {seqs.map((seq) => (
              <a
                key={seq}
                class="source"
                href={linkTo([...here, compaction.compaction_id], { seq })}
                aria-label={`from message ${seq}`}
              >
                #{seq}
              </a>
            ))}
            {isAmong(receipt.unverified ?? [], text) && <Badge tone="warn">not proved</Badge>}
            {isAmong(
              receipt.invented.map(({ sentence }) => sentence),
              text,
            ) && <Badge tone="bad">invented</Badge>}
          </p>
        ))}
      </div>
      {rules.length > 0 && (
        <>
          <h3>Your rules, carried on word for word</h3>
          <ul class="bare">
            {rules.map(({ seq, text, follows }) => (
              <li key={`${seq} ${text}`}>
                <span class="text">{text}</span>{" "}
                <a class="source" href={linkTo([...here, compaction.compaction_id], { seq })}>
                  #{seq}
                </a>
                {!follows && <Badge>the summary has it</Badge>}
              </li>
            ))}
          </ul>
        </>
      )}
      {receipt.invented.length > 0 && (
        <>
          <h3>Invented</h3>
          <p class="soft">
            {receipt.invented_cut
              ? "Nothing it was made from says this; the sentences were cut from the summary."
              : "Nothing it was made from says this; the sentences are still in the summary."}
          </p>
          <ul class="bare">
            {receipt.invented.map(({ text, sentence }, index) => (
              <li key={index}>
                <bdi class="mono">{text}</bdi> <span class="soft text">{sentence}</span>
              </li>
            ))}
          </ul>
        </>
      )}
      <Stayed view={view} compaction={compaction} />
    </section>
  );
}

const BY = {
  model: "The model wrote it.",
  curator: "A curator wrote it.",
  extractive: "It is made of sentences of the conversation.",
  none: "Only tool results were left out.",
} as const;

/** A sentence may have been cut or spaced otherwise where it was judged. */
function isAmong(sentences: readonly string[], text: string): boolean {
  const plain = text.replace(/\s+/g, " ").trim();
  return plain !== "" && sentences.some((one) => one.replace(/\s+/g, " ").includes(plain));
}

function Stayed({ view, compaction }: { view: SessionView; compaction: Compaction }): JSX.Element {
  const { kept, receipt } = compaction;
  return (
    <>
      <h3>Stayed as it was</h3>
      {kept.length === 0 && <p class="soft">Nothing but the system prompt.</p>}
      <ul class="bare">
        {kept.map(({ from_seq, to_seq }) => (
          <li key={from_seq}>
            <a href={linkTo(["sessions", view.id], { seq: from_seq })}>
              {from_seq === to_seq ? `Message #${from_seq}` : `Messages #${from_seq} to #${to_seq}`}
            </a>
          </li>
        ))}
        {receipt.pruned.length > 0 && (
          <li class="soft">
            {formatCount(receipt.pruned.length)} tool results stand there as a reference only; the log has them whole.
          </li>
        )}
      </ul>
    </>
  );
}
