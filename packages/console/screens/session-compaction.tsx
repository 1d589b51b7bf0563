import { type Signal, useSignal } from "@preact/signals";
import type { Compaction, ExpandResult, SeqRange } from "@rkat/core/contract/compaction";
import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { classOf, Receipt } from "../compaction-receipt.tsx";
import { formatCost, formatCount, formatSize, formatTime, formatTokens } from "../format.ts";
import { Action, Badge, Empty, Loaded, Note, useRequest } from "../parts.tsx";
import { linkTo, route } from "../router.ts";
import { call, hasScope } from "../server.ts";
import { isIn, type Message, type SessionView } from "../session-view.ts";
import { MessageBody, ROLE_NAMES } from "../transcript-message.tsx";
import { VirtualList } from "../virtual-list.tsx";
import { economyText, TRIGGERS } from "./session-compactions.tsx";

/** More messages than this are not shown here; the receipt covers all of them. */
const COMPARED_MAX = 1_000;

/** One compaction: what it removed, its summary, its receipt, and how to undo it. */
export function CompactionScreen({ view, id }: { view: SessionView; id: string }): JSX.Element {
  const compaction = view.compactions.value.find(({ compaction_id }) => compaction_id === id);
  const earlier = compaction === undefined ? [] : chainOf(view.compactions.value, compaction);
  const request = useRequest(async () => {
    if (compaction === undefined) return undefined;
    const [messages, sentences] = await Promise.all([
      view.messagesIn(
        [...earlier, compaction].flatMap(({ discarded }) => discarded),
        COMPARED_MAX,
      ),
      readSentences(view, compaction),
    ]);
    return { messages, sentences };
  }, [view, id, compaction === undefined]);
  if (compaction === undefined) {
    return (
      <Note kind="plain">
        Unknown compaction. <a href={linkTo(["sessions", view.id, "compactions"])}>All compactions</a>
      </Note>
    );
  }
  const seq = Number(route.value.query.get("seq") ?? Number.NaN);
  return (
    <div class="stack compaction">
      <Receipt view={view} compaction={compaction} />
      <Overview view={view} compaction={compaction} />
      <Loaded request={request}>
        {(found) => (
          <div class="columns">
            <RemovedMessages
              view={view}
              compaction={compaction}
              earlier={earlier}
              messages={found?.messages ?? []}
              goTo={Number.isInteger(seq) ? seq : undefined}
            />
            <SummaryColumn view={view} compaction={compaction} sentences={found?.sentences ?? []} />
          </div>
        )}
      </Loaded>
    </div>
  );
}

/** The earlier compactions whose summaries this one includes, oldest first. */
function chainOf(all: readonly Compaction[], compaction: Compaction): readonly Compaction[] {
  const before = all.find(({ compaction_id }) => compaction_id === compaction.superseded);
  return before === undefined ? [] : [...chainOf(all, before), before];
}

function Overview({ view, compaction }: { view: SessionView; compaction: Compaction }): JSX.Element {
  const { tokens_before, tokens_after, messages_before, messages_after, usage, notes, instructions, native, evicted } =
    compaction;
  const isConfirming = useSignal(false);
  return (
    <section class="stack" aria-label="Overview">
      <div class="row">
        <h2>
          {evicted === undefined ? "Compaction" : "Eviction"} of {formatTime(compaction.created_at)}
        </h2>
        <Badge>{TRIGGERS[compaction.trigger]}</Badge>
        {compaction.undone && <Badge>undone: the removed messages are back in context</Badge>}
        <span class="grow" />
        {hasScope("run") && !compaction.undone && (
          <button
            type="button"
            aria-expanded={isConfirming.value}
            onClick={() => {
              isConfirming.value = !isConfirming.value;
            }}
          >
            Undo …
          </button>
        )}
      </div>
      {isConfirming.value && !compaction.undone && (
        <Undo view={view} compaction={compaction} onCancel={() => (isConfirming.value = false)} />
      )}
      {compaction.undone && <Forecast view={view} />}
      <div class="before-after">
        <Size name="Before" tokens={tokens_before} of={tokens_before} messages={messages_before} />
        <Size name="After" tokens={tokens_after} of={tokens_before} messages={messages_after} />
      </div>
      {evicted !== undefined && (
        <p class="soft">
          {formatCount(evicted.outputs)} tool outputs were shortened to one line each: {formatCount(evicted.superseded)}{" "}
          repeated by a later call, {formatCount(evicted.failed)} of failed calls, {formatCount(evicted.large)} old and
          large. No model was called. The model can read the full outputs with recall_output.
        </p>
      )}
      <p class="soft" hidden={evicted !== undefined}>
        The summary used {formatCount(usage.input_tokens)} input and {formatCount(usage.output_tokens)} output tokens of{" "}
        <bdi>{compaction.model}</bdi>
        {usage.cost === undefined ? "" : `, ${formatCost(usage.cost)}`}.
        {instructions !== undefined && (
          <>
            {" "}
            Instructions: <span class="text">{instructions}</span>
          </>
        )}
      </p>
      {native !== undefined && (
        <p class="soft">
          The log also has a compaction made by <bdi>{native.provider}</bdi> ({formatSize(native.bytes)}), which only
          that provider can read.{" "}
          {native.refused
            ? "The provider refused it later, so the summary is sent."
            : `Calls to ${native.model} send it instead of the summary.`}
        </p>
      )}
      {compaction.economy !== undefined && <p class="soft">Estimate: {economyText(compaction.economy)}.</p>}
      {compaction.prepared !== undefined && (
        <p class="soft">The summary was prepared in advance, at {formatTime(compaction.prepared.at)}.</p>
      )}
      {notes.map((note) => (
        <Note key={note} kind="plain">
          <bdi>{note}</bdi>
        </Note>
      ))}
    </section>
  );
}

/** What the next model call sends after an undo. */
function Forecast({ view }: { view: SessionView }): JSX.Element {
  const request = useRequest(() => call("readContext", { session_id: view.id }), [view, view.compactions.value]);
  return (
    <Loaded request={request}>
      {({ estimated_tokens, tool_tokens, context_window, auto_compact_threshold, next_call_cost }) => (
        <Note kind="plain">
          The next model call sends about {formatTokens(estimated_tokens + tool_tokens)} tokens
          {context_window === undefined ? "" : ` of a window of ${formatTokens(context_window)}`}
          {next_call_cost ? ` and pays about ${formatCost({ amount: next_call_cost })} for them` : ""}.
          {auto_compact_threshold !== undefined &&
            (estimated_tokens >= auto_compact_threshold
              ? ` That is above ${formatTokens(auto_compact_threshold)}: the next turn compacts again.`
              : ` Compaction is due at ${formatTokens(auto_compact_threshold)}.`)}
        </Note>
      )}
    </Loaded>
  );
}

function Size(props: { name: string; tokens: number; of: number; messages: number }): JSX.Element {
  const { name, tokens, of, messages } = props;
  return (
    <div class="size">
      <span>{name}</span>
      <span class="size-bar" aria-hidden="true">
        <span style={{ width: `${(100 * tokens) / Math.max(1, of)}%` }} />
      </span>
      <span>
        {formatTokens(tokens)} tokens, {formatCount(messages)} messages
      </span>
    </div>
  );
}

/** Shows the effect of the undo and asks for confirmation. */
function Undo(props: { view: SessionView; compaction: Compaction; onCancel: () => void }): JSX.Element {
  const { view, compaction, onCancel } = props;
  const later = view.compactions.value.filter(({ seq, undone }) => seq > compaction.seq && !undone);
  const undo = async (): Promise<void> => {
    await view.handle.undoCompaction(compaction.compaction_id);
    onCancel();
    await view.refresh();
  };
  return (
    <div class="note confirm" role="status">
      <p>
        The removed messages replace the summary in the context: the context grows by about{" "}
        {formatTokens(Math.max(0, compaction.tokens_before - compaction.tokens_after))} tokens. Later messages stay.
      </p>
      {later.length > 0 && (
        <p>
          {later.length === 1 ? "A later compaction is" : `${formatCount(later.length)} later compactions are`} based on
          this one and will be undone too: {later.map((one) => formatTime(one.created_at)).join(", ")}.
        </p>
      )}
      <div class="row">
        <Action class="primary" run={undo}>
          Undo compaction
        </Action>
        <button type="button" onClick={onCancel}>
          Cancel
        </button>
      </div>
    </div>
  );
}

/** The summary, each sentence with links to its sources, the user's rules, and the kept messages. */
function SummaryColumn(props: {
  view: SessionView;
  compaction: Compaction;
  sentences: readonly SummarySentence[];
}): JSX.Element {
  const { view, compaction, sentences } = props;
  const { receipt, rules = [], summary_by, summary_tokens, superseded } = compaction;
  const base = ["sessions", view.id, "compactions"];
  return (
    <section class="column" aria-label="Summary">
      <h2>
        {summary_by === "none" ? "No summary" : `Replaced by a summary of ${formatTokens(summary_tokens)} tokens`}
      </h2>
      <p class="soft">
        {AUTHORS[summary_by]} Numbers link to the messages that a sentence comes from.
        {superseded !== undefined && (
          <>
            {" "}
            It also replaces <a href={linkTo([...base, superseded])}>the previous summary</a>.
          </>
        )}
      </p>
      <div class="summary">
        {sentences.map(({ text, seqs, doubt }, index) => (
          <p key={index} class="summary-sentence">
            <span class="text">{text}</span>{" "}
            {seqs.map((seq) => (
              <a
                key={seq}
                class="source"
                href={linkTo([...base, compaction.compaction_id], { seq })}
                aria-label={`from message ${seq}`}
              >
                #{seq}
              </a>
            ))}
            {doubt === "doubtful" && <Badge tone="warn">not checked</Badge>}
            {doubt === "invented" && <Badge tone="bad">invented</Badge>}
          </p>
        ))}
      </div>
      {rules.length > 0 && (
        <>
          <h3>User rules, kept verbatim</h3>
          <ul class="bare">
            {rules.map(({ seq, text, follows }) => (
              <li key={`${seq} ${text}`}>
                <span class="text">{text}</span>{" "}
                <a class="source" href={linkTo([...base, compaction.compaction_id], { seq })}>
                  #{seq}
                </a>
                {!follows && <Badge>in the summary</Badge>}
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
              ? "The messages do not support these statements; they were removed from the summary."
              : "The messages do not support these statements; they are still in the summary."}
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
      <KeptMessages view={view} compaction={compaction} />
    </section>
  );
}

const AUTHORS = {
  model: "Written by the model.",
  curator: "Written by a curator.",
  extractive: "Made of sentences from the conversation.",
  none: "Only tool results were removed.",
} as const;

function KeptMessages({ view, compaction }: { view: SessionView; compaction: Compaction }): JSX.Element {
  const { kept, receipt } = compaction;
  return (
    <>
      <h3>Kept unchanged</h3>
      {kept.length === 0 && <p class="soft">Only the system prompt.</p>}
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
            {formatCount(receipt.pruned.length)} tool results were replaced by a reference; the log has the full text.
          </li>
        )}
      </ul>
    </>
  );
}

const ROW_PX = 110;

interface Row {
  readonly message: Message;
  /** Its facts that are no longer in view. */
  readonly facts: readonly Fact[];
}

type Fact = Compaction["receipt"]["items"][number];

/** The messages that a compaction removed, each with its facts that are no longer in view. */
function RemovedMessages(props: {
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
    const facts = [...earlier, compaction].flatMap(({ receipt }) => receipt.items);
    const bySeq = Map.groupBy(
      facts.filter(({ status }) => classOf(status) !== "in_view"),
      ({ seq }) => seq,
    );
    return messages.map((message) => ({ message, facts: bySeq.get(message.seq) ?? [] }));
  }, [messages, compaction.compaction_id]);
  const omitted = rows.reduce((sum, { facts }) => sum + facts.length, 0);
  const shown = showsOmittedOnly.value ? rows.filter(({ facts }) => facts.length > 0) : rows;
  const bringBack = async (seqs: readonly number[]): Promise<void> => {
    const results: ExpandResult[] = [];
    for (const { compaction_id, discarded } of [...earlier, compaction]) {
      const removedHere = seqs.filter((seq) => isIn(discarded, seq));
      for (const { from_seq, to_seq } of rangesOf(removedHere, messages)) {
        results.push(await call("expandCompaction", { session_id: view.id, compaction_id, from_seq, to_seq }));
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
          Only messages with facts that are not in view ({formatCount(omitted)})
        </label>
      </div>
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
        <Empty>{messages.length === 0 ? "No messages were removed." : "All facts are in view."}</Empty>
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
  isFound: boolean;
  canExpand: boolean;
  selected: Signal<ReadonlySet<number>>;
  bringBack: (seqs: readonly number[]) => Promise<void>;
}): JSX.Element {
  const { view, row, isFound, canExpand, selected, bringBack } = props;
  const { message, facts } = row;
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
      <MessageBody message={message} />
      {facts.length > 0 && (
        <ul class="fact-list">
          {facts.slice(0, FACTS_MAX).map(({ kind, text, status }, index) => (
            <li key={index}>
              <span class={`swatch fact-${status}`} aria-hidden="true" />{" "}
              <span class="soft">
                {status} {kind}
              </span>{" "}
              <bdi class="mono">{text}</bdi>
            </li>
          ))}
          {facts.length > FACTS_MAX && <li class="soft">and {formatCount(facts.length - FACTS_MAX)} more</li>}
        </ul>
      )}
    </div>
  );
}

/** A long tool result has hundreds; the receipt lists them. */
const FACTS_MAX = 12;

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

type SummarySentence = Awaited<ReturnType<SessionView["handle"]["summarySources"]>>["sentences"][number];

/** The sentences of a summary with the seqs of the messages they come from. */
async function readSentences(view: SessionView, compaction: Compaction): Promise<readonly SummarySentence[]> {
  const { sentences } = await view.handle.summarySources(compaction.compaction_id);
  return sentences.length > 0 ? sentences : [{ text: compaction.summary, seqs: [] }];
}
