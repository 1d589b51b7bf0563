import { useSignal } from "@preact/signals";
import type { Compaction } from "@rkat/core/contract/compaction";
import type { JSX } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import { formatCount, formatTokens } from "./format.ts";
import { Markdown } from "./markdown.tsx";
import { Badge, Empty, Fold, type Tone } from "./parts.tsx";
import { linkTo } from "./router.ts";
import { savedSession } from "./saved-page.ts";
import type { Message, SessionView } from "./session-view.ts";
import type { SubAgentTask } from "./sub-agents.ts";
import { Reasoning, TranscriptMessage } from "./transcript-message.tsx";
import { LongText } from "./transcript-text.tsx";
import { VirtualList } from "./virtual-list.tsx";

const ROW_PX = 90;
const LIVE = -1;

/** The messages, the newest last, and the live response; scrolls to the message `seq`. */
export function Transcript({ view, seq }: { view: SessionView; seq: number | undefined }): JSX.Element {
  const found = useSignal<string | undefined>(undefined);
  const count = view.count.value;
  void view.version.value;
  useEffect(() => {
    found.value = undefined;
    if (seq === undefined || count === 0) return;
    let isCurrent = true;
    view.indexOf(seq).then(
      (index) => {
        if (isCurrent && index !== undefined) found.value = String(index);
      },
      () => {}, // The session view reports the lost connection.
    );
    return () => {
      isCurrent = false;
    };
  }, [seq, view, count === 0]);
  const isLive = view.info.value?.state === "running";
  const items = useMemo(() => {
    const all = Array.from({ length: count }, (_, index) => index);
    return isLive ? [...all, LIVE] : all;
  }, [count, isLive]);
  if (items.length === 0) return <Empty>No messages yet.</Empty>;
  return (
    <VirtualList
      items={items}
      keyOf={String}
      estimate={ROW_PX}
      label="Messages"
      follows
      goTo={found.value}
      renderRow={(index) =>
        index === LIVE ? <LiveMessage view={view} /> : <Row view={view} index={index} found={found.value} />
      }
    />
  );
}

function Row({ view, index, found }: { view: SessionView; index: number; found: string | undefined }): JSX.Element {
  const message = view.at(index);
  if (message === undefined) return <div class="message waiting" aria-busy="true" />;
  const next = index + 1 < view.count.value ? view.at(index + 1) : undefined;
  const isShown = !isShownWithCall(message, index === 0 ? undefined : view.at(index - 1));
  const end = next?.seq ?? Number.POSITIVE_INFINITY;
  return (
    <>
      {isShown && (
        <TranscriptMessage view={view} message={message} index={index} next={next} isFound={found === String(index)} />
      )}
      {view.remarksBetween(message.seq, end).map(({ seq, tone, text }) => (
        <p key={seq} class={`remark ${tone}`}>
          <span class="text">{text}</span>
        </p>
      ))}
      {view.subAgents.between(message.seq, end).map((task) => (
        <SubAgentCard key={task.callId} task={task} />
      ))}
      {view.compactions.value
        .filter((one) => one.seq > message.seq && one.seq < end)
        .map((one) => (
          <CompactionMark key={one.compaction_id} id={view.id} compaction={one} />
        ))}
    </>
  );
}

/** Tool results are shown with their calls, in the message before. */
function isShownWithCall(message: Message, before: Message | undefined): boolean {
  if (message.role !== "tool_results" || before?.role !== "block_assistant") return false;
  const calls = before.blocks.flatMap((block) => (block.block_type === "tool_use" ? [block.data.id] : []));
  return message.results.every(({ tool_use_id }) => calls.includes(tool_use_id));
}

function CompactionMark({ id, compaction }: { id: string; compaction: Compaction }): JSX.Element {
  const { compaction_id, messages_before, messages_after, tokens_before, tokens_after, undone, evicted } = compaction;
  return (
    <p class="remark compaction-mark">
      <span>
        {evicted === undefined
          ? `Compacted: ${formatCount(messages_before)} → ${formatCount(messages_after)} messages, `
          : `Evicted: ${formatCount(evicted.outputs)} tool outputs shortened to one line each, `}
        {formatTokens(tokens_before)} → {formatTokens(tokens_after)} tokens.
      </span>{" "}
      {undone && <Badge>undone</Badge>}{" "}
      <a href={linkTo(["sessions", id, "compactions", compaction_id])}>See what was kept and lost</a>
    </p>
  );
}

function LiveMessage({ view }: { view: SessionView }): JSX.Element {
  const { isWaiting, reasoning, text, tools } = view.live.value;
  const running = [...tools.values()];
  return (
    <div class="message block_assistant live" aria-busy="true">
      <div class="message-head">
        <strong>Model</strong>
        <Badge tone="live">
          {running.length > 0 ? `running ${running.join(", ")}` : isWaiting || text === "" ? "thinking" : "responding"}
        </Badge>
      </div>
      {reasoning !== "" && <Reasoning name="live" text={reasoning} />}
      {text !== "" && <Markdown text={text} isLive />}
    </div>
  );
}

const TONES: Readonly<Record<SubAgentTask["status"], Tone>> = {
  running: "live",
  completed: "good",
  failed: "bad",
  interrupted: "warn",
};

/** A task of a sub-agent, between the call that started it and its result. */
function SubAgentCard({ task }: { task: SubAgentTask }): JSX.Element {
  const { agent, status, tokens, childId, callId, activity } = task;
  return (
    <section class="card sub-agent" aria-label={`Sub-agent ${agent}`}>
      <div class="row">
        <strong>
          Sub-agent <bdi>{agent}</bdi>
        </strong>
        <Badge tone={TONES[status]}>{status}</Badge>
        {tokens !== undefined && <span class="soft">{formatTokens(tokens)} tokens</span>}
        <span class="grow" />
        {/* A saved page has only one session. */}
        {savedSession === undefined && <a href={linkTo(["sessions", childId])}>Open session</a>}
      </div>
      <LongText text={task.task} />
      {activity.length > 0 && (
        <Fold name={`sub-agent ${callId}`} line={<span class="soft">Activity ({formatCount(activity.length)})</span>}>
          {() => (
            <ol class="sub-agent-lines">
              {activity.map(({ depth, text }, index) => (
                <li key={index} style={{ marginInlineStart: `${depth - 1}rem` }}>
                  <bdi>{text}</bdi>
                </li>
              ))}
            </ol>
          )}
        </Fold>
      )}
    </section>
  );
}
