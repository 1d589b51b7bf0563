import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import type { Compaction } from "../../src/contract/compaction.ts";
import { Receipt } from "../compaction-receipt.tsx";
import { Standing } from "../compaction-summary.tsx";
import { Taken } from "../compaction-taken.tsx";
import { formatCost, formatCount, formatSize, formatTime, formatTokens } from "../format.ts";
import { Action, Answer, Badge, Note, useAsked } from "../parts.tsx";
import { linkTo, place } from "../router.ts";
import { may } from "../server.ts";
import type { SessionView } from "../session-view.ts";
import { readSentences } from "../summary-sources.ts";
import { economyText, TRIGGERS } from "./session-compactions.tsx";

/** More messages than that are not compared by sentences: the log has them, and the receipt is of all. */
const COMPARED_MAX = 1_000;

/** One compaction: what it took out, what stands for it, what became of the facts, and the way back. */
export function CompactionScreen({ view, id }: { view: SessionView; id: string }): JSX.Element {
  const compaction = view.compactions.value.find(({ compaction_id }) => compaction_id === id);
  const earlier = compaction === undefined ? [] : chainOf(view.compactions.value, compaction);
  const asked = useAsked(async () => {
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
        There is no such compaction here. <a href={linkTo(["sessions", view.id, "compactions"])}>All compactions</a>
      </Note>
    );
  }
  const seq = Number(place.value.query.get("seq") ?? Number.NaN);
  return (
    <div class="stack compaction">
      <Facts view={view} compaction={compaction} />
      <Receipt view={view} compaction={compaction} />
      <Answer asked={asked}>
        {(found) => (
          <div class="columns">
            <Taken
              view={view}
              compaction={compaction}
              earlier={earlier}
              messages={found?.messages ?? []}
              goTo={Number.isInteger(seq) ? seq : undefined}
            />
            <Standing view={view} compaction={compaction} sentences={found?.sentences ?? []} />
          </div>
        )}
      </Answer>
    </div>
  );
}

/** The compactions before one whose summaries went into its own, oldest first: it stands for what they took out too. */
function chainOf(all: readonly Compaction[], compaction: Compaction): readonly Compaction[] {
  const before = all.find(({ compaction_id }) => compaction_id === compaction.superseded);
  return before === undefined ? [] : [...chainOf(all, before), before];
}

function Facts({ view, compaction }: { view: SessionView; compaction: Compaction }): JSX.Element {
  const { tokens_before, tokens_after, messages_before, messages_after, usage, notes, instructions, native, evicted } =
    compaction;
  const isAsking = useSignal(false);
  return (
    <section class="stack" aria-label="The compaction">
      <div class="row">
        <h2>
          {evicted === undefined ? "Compaction" : "Eviction"} of {formatTime(compaction.created_at)}
        </h2>
        <Badge>{TRIGGERS[compaction.trigger]}</Badge>
        {compaction.undone && <Badge tone="warn">undone: the model is shown everything it took out</Badge>}
        <span class="grow" />
        {may("run") && !compaction.undone && (
          <button
            type="button"
            aria-expanded={isAsking.value}
            onClick={() => {
              isAsking.value = !isAsking.value;
            }}
          >
            Undo …
          </button>
        )}
      </div>
      {isAsking.value && !compaction.undone && (
        <Undo view={view} compaction={compaction} onLeave={() => (isAsking.value = false)} />
      )}
      <div class="before-after">
        <Size name="Before" tokens={tokens_before} of={tokens_before} messages={messages_before} />
        <Size name="After" tokens={tokens_after} of={tokens_before} messages={messages_after} />
      </div>
      {evicted !== undefined && (
        <p class="soft">
          {formatCount(evicted.outputs)} tool outputs became one line each: {formatCount(evicted.superseded)} that the
          same call gave again later, {formatCount(evicted.failed)} of failed calls, {formatCount(evicted.large)} old
          and large ones. No model was asked; it can read them again with recall_output.
        </p>
      )}
      <p class="soft" hidden={evicted !== undefined}>
        The summary took {formatCount(usage.input_tokens)} tokens of input and {formatCount(usage.output_tokens)} of
        output{usage.cost === undefined ? "" : `, ${formatCost(usage.cost)}`}, of the model{" "}
        <bdi>{compaction.model}</bdi>.
        {instructions !== undefined && (
          <>
            {" "}
            It was not to leave out: <span class="text">{instructions}</span>
          </>
        )}
      </p>
      {native !== undefined && (
        <p class="soft">
          Beside the summary, the log keeps a compaction of <bdi>{native.provider}</bdi>'s own,{" "}
          {formatSize(native.bytes)}, that nobody else can read.{" "}
          {native.refused ? "It was refused since" : <>Calls of {native.model} carry it</>}
          {native.refused ? ", so the summary is sent." : " in the place of the summary."}
        </p>
      )}
      {compaction.economy !== undefined && (
        <p class="soft">Whether it pays was computed: it {economyText(compaction.economy)}.</p>
      )}
      {compaction.prepared !== undefined && (
        <p class="soft">Its summary was ready since {formatTime(compaction.prepared.at)}, before it was needed.</p>
      )}
      {notes.map((note) => (
        <Note key={note} kind="plain">
          <bdi>{note}</bdi>
        </Note>
      ))}
    </section>
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

/** What it undoes is told first. */
function Undo(props: { view: SessionView; compaction: Compaction; onLeave: () => void }): JSX.Element {
  const { view, compaction, onLeave } = props;
  const after = view.compactions.value.filter(({ seq, undone }) => seq > compaction.seq && !undone);
  const undo = async (): Promise<void> => {
    await view.handle.undoCompaction(compaction.compaction_id);
    onLeave();
    await view.refresh();
  };
  return (
    <div class="note asks" role="status">
      <p>
        The model is shown again what this compaction took out, and the summary goes: the context grows by about{" "}
        {formatTokens(Math.max(0, compaction.tokens_before - compaction.tokens_after))} tokens. What was said since
        stays.
      </p>
      {after.length > 0 && (
        <p>
          {after.length === 1 ? "One later compaction was" : `${formatCount(after.length)} later compactions were`}{" "}
          built on it and {after.length === 1 ? "is" : "are"} undone too:{" "}
          {after.map((one) => formatTime(one.created_at)).join(", ")}.
        </p>
      )}
      <div class="row">
        <Action class="primary" does={undo}>
          Undo it
        </Action>
        <button type="button" onClick={onLeave}>
          Leave it
        </button>
      </div>
    </div>
  );
}
