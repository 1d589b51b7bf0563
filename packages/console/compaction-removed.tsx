import { type Signal, useSignal } from "@preact/signals";
import type { Compaction, ExpandResult, SeqRange } from "@rkat/core/contract/compaction";
import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { createComparison, OMITTED, type Sentence } from "./compaction-sentences.ts";
import { formatCount } from "./format.ts";
import { Action, Badge, Empty, Note } from "./parts.tsx";
import { linkTo } from "./router.ts";
import { hasScope } from "./server.ts";
import { isIn, type Message, type SessionView } from "./session-view.ts";
import { MessageBody, ROLE_NAMES, textOf } from "./transcript-message.tsx";
import { VirtualList } from "./virtual-list.tsx";

const ROW_PX = 110;

interface Row {
  readonly message: Message;
  readonly sentences: readonly Sentence[];
}

/** The messages that a compaction removed, with the sentences that the summary omits underlined. */
export function RemovedMessages(props: {
  view: SessionView;
  compaction: Compaction;
  /** The earlier compactions whose summaries this one includes. */
  earlier: readonly Compaction[];
  messages: readonly Message[];
  goTo: number | undefined;
}): JSX.Element {
  const { view, compaction, earlier, messages, goTo } = props;
  const showsOmittedOnly = useSignal(false);
  const selected = useSignal<ReadonlySet<number>>(new Set());
  const result = useSignal<string | undefined>(undefined);
  const rows = useMemo((): readonly Row[] => {
    const compare = createComparison(compaction, earlier);
    return messages.map((message) => ({
      message,
      sentences: hasSentences(message) ? compare(message, textOf(message)) : [],
    }));
  }, [messages, compaction.compaction_id]);
  const omitted = rows.reduce((sum, { sentences }) => sum + sentences.filter((one) => one.isOmitted).length, 0);
  const shown = showsOmittedOnly.value ? rows.filter(({ sentences }) => sentences.some((one) => one.isOmitted)) : rows;
  const bringBack = async (seqs: readonly number[]): Promise<void> => {
    const results: ExpandResult[] = [];
    for (const { compaction_id, discarded } of [...earlier, compaction]) {
      const removedHere = seqs.filter((seq) => isIn(discarded, seq));
      for (const { from_seq, to_seq } of rangesOf(removedHere, messages)) {
        results.push(await view.handle.expandCompaction(compaction_id, { fromSeq: from_seq, toSeq: to_seq }));
      }
    }
    await view.refresh();
    selected.value = new Set();
    result.value = resultText(results);
  };
  return (
    <section class="column" aria-label="Removed messages">
      <div class="row">
        <h2>
          Removed: {formatCount(messages.length)} messages
          {earlier.length > 0 && <span class="soft">, by this and earlier compactions</span>}
        </h2>
        <span class="grow" />
        <label class="choice">
          <input
            type="checkbox"
            checked={showsOmittedOnly.value}
            onChange={(event) => {
              showsOmittedOnly.value = event.currentTarget.checked;
            }}
          />
          Show only what the summary omits ({formatCount(omitted)})
        </label>
      </div>
      <p class="soft">
        <span class="omitted">Underlined</span>: not in the summary, compared by facts and by words.
      </p>
      {result.value !== undefined && <Note kind="good">{result}</Note>}
      {selected.value.size > 0 && (
        <div class="row selection">
          <Action class="primary" run={() => bringBack([...selected.value])}>
            Bring back {formatCount(selected.value.size)} selected {selected.value.size === 1 ? "message" : "messages"}
          </Action>
          <button
            type="button"
            onClick={() => {
              selected.value = new Set();
            }}
          >
            Clear selection
          </button>
        </div>
      )}
      {shown.length === 0 ? (
        <Empty>{messages.length === 0 ? "No messages were removed." : "The summary omits nothing."}</Empty>
      ) : (
        <VirtualList
          items={shown}
          keyOf={({ message }) => String(message.seq)}
          estimate={ROW_PX}
          label="Removed messages"
          goTo={goTo === undefined ? undefined : String(goTo)}
          renderRow={(row) => (
            <RemovedMessage
              {...{ view, row, selected, bringBack }}
              showsOmittedOnly={showsOmittedOnly.value}
              isFound={row.message.seq === goTo}
              canExpand={!compaction.undone && hasScope("run")}
            />
          )}
        />
      )}
    </section>
  );
}

function RemovedMessage(props: {
  view: SessionView;
  row: Row;
  showsOmittedOnly: boolean;
  isFound: boolean;
  canExpand: boolean;
  selected: Signal<ReadonlySet<number>>;
  bringBack: (seqs: readonly number[]) => Promise<void>;
}): JSX.Element {
  const { view, row, showsOmittedOnly, isFound, canExpand, selected, bringBack } = props;
  const { message, sentences } = row;
  const isBack = !view.isRemoved.value(message.seq);
  const select = (isSelected: boolean): void => {
    const next = new Set(selected.value);
    if (isSelected) next.add(message.seq);
    else next.delete(message.seq);
    selected.value = next;
  };
  return (
    <div class={`message ${message.role} ${isFound ? "found" : ""}`} data-seq={message.seq}>
      <div class="message-head">
        {canExpand && !isBack && (
          <input
            type="checkbox"
            aria-label={`Select message ${message.seq}`}
            checked={selected.value.has(message.seq)}
            onChange={(event) => select(event.currentTarget.checked)}
          />
        )}
        <strong>{ROLE_NAMES[message.role]}</strong>
        <a class="soft" href={linkTo(["sessions", view.id], { seq: message.seq })}>
          #{message.seq}
        </a>
        {isBack && <Badge tone="good">back in context</Badge>}
        <span class="grow" />
        {canExpand && !isBack && (
          <Action
            class="quiet"
            run={() => bringBack([message.seq])}
            title="Puts this turn back into the context"
            label={`Bring back message ${message.seq}`}
          >
            Bring back
          </Action>
        )}
      </div>
      {sentences.length === 0 ? (
        <MessageBody message={message} />
      ) : (
        <div class="text">
          {sentences
            .filter((one) => !showsOmittedOnly || one.isOmitted)
            .map((one, index) =>
              one.isOmitted ? (
                <span key={index} class="omitted" title={titleOf(one)}>
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
  const omitted = facts.filter(({ status }) => OMITTED.includes(status)).map(({ text }) => text);
  return omitted.length === 0 ? "Not in the summary" : `Not in the summary: ${omitted.join(", ")}`;
}

/** Only plain text is split into sentences: tool calls have none, and tool results are too long. */
function hasSentences(message: Message): boolean {
  if (message.role === "user" || message.role === "system_notice") return true;
  return message.role === "block_assistant" && message.blocks.every(({ block_type }) => block_type === "text");
}

/** The selected messages as ranges of neighbours. */
function rangesOf(seqs: readonly number[], messages: readonly Message[]): readonly SeqRange[] {
  const ranges: SeqRange[] = [];
  let isOpen = false;
  for (const { seq } of messages) {
    const last = ranges.at(-1);
    const isSelected = seqs.includes(seq);
    if (isSelected && isOpen && last !== undefined) last.to_seq = seq;
    else if (isSelected) ranges.push({ from_seq: seq, to_seq: seq });
    isOpen = isSelected;
  }
  return ranges;
}

function resultText(results: readonly ExpandResult[]): string {
  const format = ({ from_seq, to_seq }: SeqRange): string =>
    from_seq === to_seq ? `#${from_seq}` : `#${from_seq} to #${to_seq}`;
  const back = results.flatMap(({ expanded }) => expanded).map(format);
  const out = results.flatMap(({ left_out }) => left_out).map(format);
  const size = results.at(-1)?.estimated_tokens ?? 0;
  const first = back.length === 0 ? "Nothing was brought back." : `Back in the context: ${back.join(", ")}.`;
  const second = out.length === 0 ? "" : ` There was no room for ${out.join(", ")}.`;
  return `${first}${second} The context is now about ${formatCount(size)} tokens.`;
}
