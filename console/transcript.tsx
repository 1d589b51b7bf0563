import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import type { Compaction } from "../src/contract/compaction.ts";
import { formatCount, formatTokens } from "./format.ts";
import { Badge, Empty } from "./parts.tsx";
import { linkTo } from "./router.ts";
import type { Said, SessionView } from "./session-view.ts";
import { SubAgentCard } from "./sub-agent-card.tsx";
import { Reasoning, TranscriptMessage } from "./transcript-message.tsx";
import { VirtualList } from "./virtual-list.tsx";

/** About as high as a message is. */
const ROW_PX = 90;
const LIVE = -1;

/** What was said, newest at the end, and what is being said; `seq` is the message to be brought into sight. */
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
      () => {}, // The message is not found then; the page says already that the server is away.
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
  if (items.length === 0) return <Empty>Nothing was said yet.</Empty>;
  return (
    <VirtualList
      items={items}
      keyOf={String}
      estimate={ROW_PX}
      label="Messages"
      follows
      goTo={found.value}
      show={(index) =>
        index === LIVE ? <LiveMessage view={view} /> : <Row view={view} index={index} found={found.value} />
      }
    />
  );
}

function Row({ view, index, found }: { view: SessionView; index: number; found: string | undefined }): JSX.Element {
  const said = view.at(index);
  if (said === undefined) {
    return <div class="message waiting" aria-busy="true" />;
  }
  const next = index + 1 < view.count.value ? view.at(index + 1) : undefined;
  const isShown = !isTold(said, index === 0 ? undefined : view.at(index - 1));
  const end = next?.seq ?? Number.POSITIVE_INFINITY;
  return (
    <>
      {isShown && (
        <TranscriptMessage view={view} said={said} index={index} next={next} isFound={found === String(index)} />
      )}
      {view.remarksBetween(said.seq, end).map(({ seq, tone, text }) => (
        <p key={seq} class={`remark ${tone}`}>
          <span class="text">{text}</span>
        </p>
      ))}
      {view.subAgents.between(said.seq, end).map((task) => (
        <SubAgentCard key={task.callId} task={task} />
      ))}
      {view.compactions.value
        .filter((one) => one.seq > said.seq && one.seq < end)
        .map((one) => (
          <CompactionMark key={one.compaction_id} id={view.id} compaction={one} />
        ))}
    </>
  );
}

/** Results are shown with the calls before them. */
function isTold(said: Said, before: Said | undefined): boolean {
  if (said.role !== "tool_results" || before?.role !== "block_assistant") return false;
  const calls = before.blocks.flatMap((block) => (block.block_type === "tool_use" ? [block.data.id] : []));
  return said.results.every(({ tool_use_id }) => calls.includes(tool_use_id));
}

function CompactionMark({ id, compaction }: { id: string; compaction: Compaction }): JSX.Element {
  const { compaction_id, messages_before, messages_after, tokens_before, tokens_after, undone, evicted } = compaction;
  return (
    <p class="remark compaction-mark">
      <span>
        {evicted === undefined
          ? `Compacted here: ${formatCount(messages_before)} messages became ${formatCount(messages_after)}, `
          : `Evicted here: ${formatCount(evicted.outputs)} tool outputs became one line each, `}
        {formatTokens(tokens_before)} tokens became {formatTokens(tokens_after)}.
      </span>{" "}
      {undone && <Badge>undone</Badge>}{" "}
      <a href={linkTo(["sessions", id, "compactions", compaction_id])}>See what was kept and lost</a>
    </p>
  );
}

/** The answer as it comes. */
function LiveMessage({ view }: { view: SessionView }): JSX.Element {
  const { isAsking, reasoning, text, tools } = view.live.value;
  const running = [...tools.values()];
  return (
    <div class="message block_assistant live" aria-busy="true">
      <div class="message-head">
        <strong>Model</strong>
        <Badge tone="live">
          {running.length > 0 ? `runs ${running.join(", ")}` : isAsking || text === "" ? "thinks" : "answers"}
        </Badge>
      </div>
      {reasoning !== "" && <Reasoning name="live" text={reasoning} />}
      {text !== "" && <div class="text">{text}</div>}
    </div>
  );
}
