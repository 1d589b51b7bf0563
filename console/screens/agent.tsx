import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import type { AgentContext, AgentHistory, AgentStatus } from "../../src/contract/agent.ts";
import { ReceiptBar } from "../compaction-receipt.tsx";
import { formatCount, formatTime } from "../format.ts";
import { Action, Answer, Badge, Empty, Facts, Note, useAsked } from "../parts.tsx";
import { linkTo, place, replace } from "../router.ts";
import { client, may } from "../server.ts";
import { Hits } from "./memory.tsx";

type PastSummary = AgentHistory["summaries"][number];

/** One agent: what it is shown of its life, in three tiers. */
export function AgentScreen({ name }: { name: string }): JSX.Element {
  const asked = useAsked(async () => {
    const agent = client().agent(name);
    const [status, context] = await Promise.all([agent.status(), agent.context()]);
    return { status, context };
  }, []);
  return (
    <div class="stack">
      <div class="row">
        <h1>
          <bdi>{name}</bdi>
        </h1>
        <span class="grow" />
        <a href={linkTo(["agents"])}>All agents</a>
      </div>
      <Answer asked={asked}>
        {({ status, context }) => (
          <>
            <Life status={status} again={asked.again} name={name} />
            <Tiers status={status} context={context} />
            <Recall name={name} />
            <Past key={status.compactions} name={name} />
            {may("run") && <Additions name={name} again={asked.again} />}
            <details class="card">
              <summary>All of it, as the model is shown it</summary>
              <pre class="text">{context.prompt}</pre>
            </details>
          </>
        )}
      </Answer>
    </div>
  );
}

function Life({ status, name, again }: { status: AgentStatus; name: string; again: () => void }): JSX.Element {
  const { count, notes, compactions, next_compaction_at, compaction_due, compaction_running, last_error } = status;
  const left = next_compaction_at - count;
  const compact = async (): Promise<void> => {
    const { compacted, reason } = await client().agent(name).compact();
    again();
    if (!compacted) throw new Error(reason ?? "there was nothing to compact");
  };
  return (
    <section class="card stack" aria-label="Its life">
      <Facts
        rows={[
          ["Memories", formatCount(count)],
          ["Private notes", formatCount(notes)],
          ["Compactions", formatCount(compactions)],
          [
            "Last compaction",
            status.last_compaction_at === undefined ? "none yet" : formatTime(status.last_compaction_at),
          ],
          ["Next compaction", left > 0 ? `at memory ${formatCount(next_compaction_at)}, ${left} to go` : "due now"],
        ]}
      />
      <Ranges status={status} />
      {last_error !== undefined && <Note kind="bad">The last compaction failed: {last_error}</Note>}
      <div class="row">
        {compaction_running && <Badge tone="live">compacting</Badge>}
        {compaction_due && !compaction_running && <Badge tone="warn">a compaction is due</Badge>}
        {may("run") && <Action does={compact}>Compact now</Action>}
      </div>
    </section>
  );
}

/** All memories from the first to the last, by the tier that speaks for them. */
function Ranges({ status }: { status: AgentStatus }): JSX.Element {
  const { count, longterm_range: old, recent_range: recent } = status;
  const covered = Math.max(old?.to_seq ?? 0, recent?.to_seq ?? 0);
  const parts = [
    { tier: "longterm", name: "long-term", from: old?.from_seq, to: old?.to_seq },
    { tier: "recent", name: "recent", from: recent?.from_seq, to: recent?.to_seq },
    { tier: "immediate", name: "immediate", from: covered < count ? covered + 1 : undefined, to: count },
  ].flatMap(({ tier, name, from, to }) => (from === undefined || to === undefined ? [] : [{ tier, name, from, to }]));
  const words = parts.map(({ name, from, to }) => `${name} ${from} to ${to}`).join(", ");
  return (
    <div class="life" role="img" aria-label={words === "" ? "no memories" : `Memories by tier: ${words}`}>
      {parts.map(({ tier, name, from, to }) => (
        <span
          key={tier}
          class={`tier ${tier}`}
          title={`${name}: memories ${from} to ${to}`}
          style={{ width: `${(100 * (to - from + 1)) / Math.max(1, count)}%` }}
        />
      ))}
    </div>
  );
}

function Tiers({ status, context }: { status: AgentStatus; context: AgentContext }): JSX.Element {
  const { recent_range, longterm_range, immediate_window, recent_window } = status;
  return (
    <div class="tiers">
      <section class="card tier immediate" aria-labelledby="tier-immediate">
        <h2 id="tier-immediate">Immediate</h2>
        <p class="soft">
          Word for word; at least the newest {formatCount(immediate_window)}. {rangeText(immediateRange(context))}
        </p>
        {context.immediate.length === 0 ? (
          <Empty>Nothing yet.</Empty>
        ) : (
          // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by the keyboard
          <ol class="memories" tabIndex={0} aria-label="The newest memories">
            {context.immediate.toReversed().map(({ seq, content, created_at, metadata }) => (
              <li key={seq}>
                <span class="soft">
                  {formatCount(seq)} · {formatTime(created_at)}
                </span>
                <div class="text">{content}</div>
                {metadata !== undefined && <code class="soft text">{JSON.stringify(metadata)}</code>}
              </li>
            ))}
          </ol>
        )}
      </section>
      <section class="card tier recent" aria-labelledby="tier-recent">
        <h2 id="tier-recent">Recent</h2>
        <p class="soft">
          A summary of the {formatCount(recent_window)} before. {rangeText(recent_range)}
        </p>
        <Summary text={context.recent_summary} />
      </section>
      <section class="card tier longterm" aria-labelledby="tier-longterm">
        <h2 id="tier-longterm">Long-term</h2>
        <p class="soft">A summary of all that is older. {rangeText(longterm_range)}</p>
        <Summary text={context.longterm_summary} />
      </section>
    </div>
  );
}

function Summary({ text }: { text: string | undefined }): JSX.Element {
  if (text === undefined) return <Empty>None yet.</Empty>;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by the keyboard
    <div class="text long" tabIndex={0}>
      {text}
    </div>
  );
}

type Range = AgentStatus["recent_range"];

function immediateRange({ immediate }: AgentContext): Range {
  const [first, last] = [immediate[0], immediate.at(-1)];
  return first === undefined || last === undefined ? undefined : { from_seq: first.seq, to_seq: last.seq };
}

function rangeText(range: Range): string {
  return range === undefined ? "" : `Memories ${formatCount(range.from_seq)} to ${formatCount(range.to_seq)}.`;
}

const TIERS = { recent: "recent", longterm: "long-term" } as const;

/** Every summary there was, so that one can see what a later one has lost. */
function Past({ name }: { name: string }): JSX.Element {
  const before = useSignal<number | undefined>(undefined);
  const older = useSignal<readonly PastSummary[]>([]);
  const asked = useAsked(async () => {
    const { summaries, next_before_seq } = await client()
      .agent(name)
      .history(before.value === undefined ? {} : { beforeSeq: before.value });
    older.value = [...older.value, ...summaries];
    return { next: next_before_seq };
  }, [before.value]);
  return (
    <section class="card stack" aria-labelledby="past">
      <h2 id="past">Summaries it had</h2>
      <Answer asked={asked}>
        {({ next }) => (
          <>
            {older.value.length === 0 && <Empty>Nothing was summarised yet.</Empty>}
            {older.value.map((past) => (
              <details key={`${past.seq} ${past.tier}`}>
                <summary>
                  {formatTime(past.created_at)} · {TIERS[past.tier]} · memories {formatCount(past.from)} to{" "}
                  {formatCount(past.to)}
                  {past.quality !== undefined && ` · quality ${past.quality.quality}`}
                  {past.remaking?.outcome === "remade" && " · made anew"}
                </summary>
                <pre class="text">{past.summary}</pre>
                <Kept past={past} />
              </details>
            ))}
            {next !== undefined && (
              <div>
                <button
                  type="button"
                  onClick={() => {
                    before.value = next;
                  }}
                >
                  Show older
                </button>
              </div>
            )}
          </>
        )}
      </Answer>
    </section>
  );
}

/** What became of the facts of what a summary sums up, and how good a long-term one is. */
function Kept({ past }: { past: PastSummary }): JSX.Element {
  const { receipt, quality, remaking } = past;
  if (receipt === undefined) return <p class="soft">It was made before receipts were written.</p>;
  const { total, in_summary, in_tail, recoverable, lost, invented, unverified } = receipt;
  return (
    <div class="stack">
      <ReceiptBar receipt={{ ...receipt, pinned: 0 }} />
      <p class="soft">
        {formatCount(total)} facts: {formatCount(in_summary)} in it, {formatCount(in_tail)} shown besides it,{" "}
        {formatCount(recoverable)} only in the log, {formatCount(lost)} lost · {formatCount(invented)} invented ·{" "}
        {formatCount(unverified)} sentences not proved
      </p>
      {quality !== undefined && (
        <p class="soft">
          Quality {quality.quality}: it says {formatCount(quality.kept)} of {formatCount(quality.sources)} facts of what
          it was made of; {formatCount(quality.attainable)} would fit.
        </p>
      )}
      {remaking !== undefined && (
        <p class="soft">
          {REMAKINGS[remaking.outcome]} It was held against {formatCount(remaking.summaries)} recent summaries there
          were.{remaking.reason !== undefined && ` ${remaking.reason}`}
        </p>
      )}
    </div>
  );
}

const REMAKINGS = {
  remade: "It was made anew, and says more now.",
  not_needed: "It was not made anew: it says what can be kept.",
  not_better: "It was made anew in vain: that would have said no more.",
  failed: "It could not be made anew.",
} as const;

function Recall({ name }: { name: string }): JSX.Element {
  const q = (place.value.query.get("q") ?? "").trim();
  const words = useSignal(q);
  const submit = (event: Event): void => {
    event.preventDefault();
    replace(linkTo(["agents", name], { q: words.value.trim() || undefined }));
  };
  return (
    <section class="card stack" aria-labelledby="recall">
      <h2 id="recall">Recall</h2>
      <form class="search" onSubmit={submit}>
        <label class="grow">
          What it may remember
          <input
            type="search"
            value={words}
            onInput={(event) => {
              words.value = event.currentTarget.value;
            }}
          />
        </label>
        <button type="submit">Recall</button>
      </form>
      {q !== "" && <Recalled key={q} name={name} q={q} />}
    </section>
  );
}

function Recalled({ name, q }: { name: string; q: string }): JSX.Element {
  const asked = useAsked(() => client().agent(name).recall(q, { explain: true }), []);
  return (
    <Answer asked={asked}>
      {({ results }) => (results.length === 0 ? <Empty>It remembers nothing of that.</Empty> : <Hits hits={results} />)}
    </Answer>
  );
}

function Additions({ name, again }: { name: string; again: () => void }): JSX.Element {
  const agent = client().agent(name);
  return (
    <div class="two">
      <Addition
        title="Remember"
        about="A memory, added to its life."
        does={async (text) => {
          await agent.remember(text);
          again();
        }}
      />
      <Addition
        title="Take note"
        about="A private note, shown to it when it is relevant."
        does={async (text) => {
          await agent.note(text);
          again();
        }}
      />
    </div>
  );
}

function Addition(props: { title: string; about: string; does: (text: string) => Promise<void> }): JSX.Element {
  const text = useSignal("");
  const add = async (): Promise<void> => {
    await props.does(text.value);
    text.value = "";
  };
  return (
    <section class="card stack">
      <h2>{props.title}</h2>
      <label>
        {props.about}
        <textarea
          rows={3}
          value={text}
          onInput={(event) => {
            text.value = event.currentTarget.value;
          }}
        />
      </label>
      <Action does={add} isOff={text.value.trim() === ""}>
        {props.title}
      </Action>
    </section>
  );
}
