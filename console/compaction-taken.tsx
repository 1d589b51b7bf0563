import { type Signal, useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import type { Compaction, ExpandResult, SeqRange } from "../src/contract/compaction.ts";
import { createComparison, type Sentence } from "./compaction-sentences.ts";
import { formatCount } from "./format.ts";
import { Action, Badge, Empty, Note } from "./parts.tsx";
import { linkTo } from "./router.ts";
import { may } from "./server.ts";
import type { Said, SessionView } from "./session-view.ts";
import { MessageBody, textOf, WHO } from "./transcript-message.tsx";
import { VirtualList } from "./virtual-list.tsx";

const ROW_PX = 110;

interface Row {
  readonly said: Said;
  readonly sentences: readonly Sentence[];
}

/** What a compaction took out, sentence by sentence, with what the summary does not say marked; any of it can be brought back. */
export function Taken(props: {
  view: SessionView;
  compaction: Compaction;
  /** Those before it whose summaries went into its own. */
  earlier: readonly Compaction[];
  messages: readonly Said[];
  goTo: number | undefined;
}): JSX.Element {
  const { view, compaction, earlier, messages, goTo } = props;
  const isOnlyMissing = useSignal(false);
  const picked = useSignal<ReadonlySet<number>>(new Set());
  const told = useSignal<string | undefined>(undefined);
  const rows = useMemo((): readonly Row[] => {
    const compare = createComparison(compaction, earlier);
    return messages.map((said) => ({ said, sentences: hasSentences(said) ? compare(said, textOf(said)) : [] }));
  }, [messages, compaction.compaction_id]);
  const missing = rows.reduce((sum, { sentences }) => sum + sentences.filter((one) => one.isMissing).length, 0);
  const shown = isOnlyMissing.value ? rows.filter(({ sentences }) => sentences.some((one) => one.isMissing)) : rows;
  const bringBack = async (seqs: readonly number[]): Promise<void> => {
    const results: ExpandResult[] = [];
    for (const { compaction_id, discarded } of [...earlier, compaction]) {
      const own = seqs.filter((seq) => discarded.some(({ from_seq, to_seq }) => from_seq <= seq && seq <= to_seq));
      for (const { from_seq, to_seq } of rangesOf(own, messages)) {
        results.push(await view.handle.expandCompaction(compaction_id, { fromSeq: from_seq, toSeq: to_seq }));
      }
    }
    await view.refresh();
    picked.value = new Set();
    told.value = sentenceOf(results);
  };
  return (
    <section class="column" aria-label="Taken out">
      <div class="row">
        <h2>
          Taken out: {formatCount(messages.length)} messages
          {earlier.length > 0 && <span class="soft">, by this compaction and those before it</span>}
        </h2>
        <span class="grow" />
        <label class="choice">
          <input
            type="checkbox"
            checked={isOnlyMissing.value}
            onChange={(event) => {
              isOnlyMissing.value = event.currentTarget.checked;
            }}
          />
          Only the {formatCount(missing)} sentences the summary does not say
        </label>
      </div>
      <p class="soft">
        <span class="missing">Underlined</span>: the summary does not say it. Compared by the facts and the words.
      </p>
      {told.value !== undefined && <Note kind="good">{told}</Note>}
      {picked.value.size > 0 && (
        <div class="row picked">
          <Action class="primary" does={() => bringBack([...picked.value])}>
            Bring {formatCount(picked.value.size)} picked {picked.value.size === 1 ? "message" : "messages"} back
          </Action>
          <button
            type="button"
            onClick={() => {
              picked.value = new Set();
            }}
          >
            Pick none
          </button>
        </div>
      )}
      {shown.length === 0 ? (
        <Empty>{messages.length === 0 ? "No messages were taken out." : "The summary says all of it."}</Empty>
      ) : (
        <VirtualList
          items={shown}
          keyOf={({ said }) => String(said.seq)}
          estimate={ROW_PX}
          label="Messages taken out"
          goTo={goTo === undefined ? undefined : String(goTo)}
          show={(row) => (
            <TakenMessage
              {...{ view, row, picked, bringBack }}
              isOnlyMissing={isOnlyMissing.value}
              isFound={row.said.seq === goTo}
              canExpand={!compaction.undone && may("run")}
            />
          )}
        />
      )}
    </section>
  );
}

function TakenMessage(props: {
  view: SessionView;
  row: Row;
  isOnlyMissing: boolean;
  isFound: boolean;
  canExpand: boolean;
  picked: Signal<ReadonlySet<number>>;
  bringBack: (seqs: readonly number[]) => Promise<void>;
}): JSX.Element {
  const { view, row, isOnlyMissing, isFound, canExpand, picked, bringBack } = props;
  const { said, sentences } = row;
  const isBack = !view.hasLeft.value(said.seq);
  const pick = (isPicked: boolean): void => {
    const next = new Set(picked.value);
    if (isPicked) next.add(said.seq);
    else next.delete(said.seq);
    picked.value = next;
  };
  return (
    <div class={`message ${said.role} ${isFound ? "found" : ""}`} data-seq={said.seq}>
      <div class="message-head">
        {canExpand && !isBack && (
          <input
            type="checkbox"
            aria-label={`Pick message ${said.seq}`}
            checked={picked.value.has(said.seq)}
            onChange={(event) => pick(event.currentTarget.checked)}
          />
        )}
        <strong>{WHO[said.role]}</strong>
        <a class="soft" href={linkTo(["sessions", view.id], { seq: said.seq })}>
          #{said.seq}
        </a>
        {isBack && <Badge tone="good">shown to the model again</Badge>}
        <span class="grow" />
        {canExpand && !isBack && (
          <Action
            class="quiet"
            does={() => bringBack([said.seq])}
            title="The model is shown it again, with the rest of its turn"
            label={`Bring back message ${said.seq}`}
          >
            Bring back
          </Action>
        )}
      </div>
      {sentences.length === 0 ? (
        <MessageBody said={said} />
      ) : (
        <div class="text">
          {sentences
            .filter((one) => !isOnlyMissing || one.isMissing)
            .map((one, index) =>
              one.isMissing ? (
                <span key={index} class="missing" title={titleOf(one)}>
                  {one.text}
                </span>
              ) : (
                <span key={index}>{one.text}</span>
              ),
            )}
        </div>
      )}
    </div>
  );
}

function titleOf({ facts }: Sentence): string {
  const gone = facts.filter(({ status }) => status === "recoverable" || status === "lost").map(({ text }) => text);
  return gone.length === 0 ? "The summary does not say this" : `The summary does not say: ${gone.join(", ")}`;
}

/** What tools gave is too much to be read by sentences, and calls are none. */
function hasSentences(said: Said): boolean {
  if (said.role === "user" || said.role === "system_notice") return true;
  return said.role === "block_assistant" && said.blocks.every(({ block_type }) => block_type === "text");
}

/** Neighbours among the picked as one range. */
function rangesOf(seqs: readonly number[], messages: readonly Said[]): readonly SeqRange[] {
  const ranges: SeqRange[] = [];
  let isOpen = false;
  for (const { seq } of messages) {
    const last = ranges.at(-1);
    const isPicked = seqs.includes(seq);
    if (isPicked && isOpen && last !== undefined) last.to_seq = seq;
    else if (isPicked) ranges.push({ from_seq: seq, to_seq: seq });
    isOpen = isPicked;
  }
  return ranges;
}

function sentenceOf(results: readonly ExpandResult[]): string {
  const spell = ({ from_seq, to_seq }: SeqRange): string =>
    from_seq === to_seq ? `#${from_seq}` : `#${from_seq} to #${to_seq}`;
  const back = results.flatMap(({ expanded }) => expanded).map(spell);
  const out = results.flatMap(({ left_out }) => left_out).map(spell);
  const size = results.at(-1)?.estimated_tokens ?? 0;
  const first = back.length === 0 ? "Nothing was brought back." : `The model is shown ${back.join(", ")} again.`;
  const second = out.length === 0 ? "" : ` There was no room for ${out.join(", ")}.`;
  return `${first}${second} The context is now about ${formatCount(size)} tokens.`;
}
