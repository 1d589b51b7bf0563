import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import type { MessageInput } from "../src/client.ts";
import type { AssistantBlock, ToolResult, ToolUseBlock } from "../src/contract/message.ts";
import { Fold } from "./fold.tsx";
import { formatSize, formatTime } from "./format.ts";
import { Action, Badge } from "./parts.tsx";
import { go, linkTo } from "./router.ts";
import { has, may } from "./server.ts";
import type { Said as SaidMessage, SessionView } from "./session-view.ts";
import { beginningOf, LongText, Said, wordsOf } from "./transcript-text.tsx";

/** Who says it. */
export const WHO: Readonly<Record<SaidMessage["role"], string>> = {
  user: "You",
  block_assistant: "Model",
  system: "System prompt",
  system_notice: "Notice",
  tool_results: "Tools",
};

/** A message of the history with what can be done about it. */
export function TranscriptMessage(props: {
  view: SessionView;
  said: SaidMessage;
  index: number;
  /** What follows it, where the results of its calls are. */
  next: SaidMessage | undefined;
  isFound: boolean;
}): JSX.Element {
  const { view, said, index, next, isFound } = props;
  const isReplacing = useSignal(false);
  const isPinned = view.pins.value.has(said.seq);
  const hasLeft = view.hasLeft.value(said.seq);
  const classes = ["message", said.role, hasLeft ? "left" : "", isFound ? "found" : ""].join(" ");
  return (
    <div class={classes} data-seq={said.seq}>
      <div class="message-head">
        <strong>{WHO[said.role]}</strong>
        <a class="soft" href={linkTo(["sessions", view.id], { seq: said.seq })} title={formatTime(said.created_at)}>
          #{said.seq}
        </a>
        {isPinned && <Badge tone="warn">pinned</Badge>}
        {hasLeft && (
          <a class="badge" href={linkTo(["sessions", view.id, "compactions", standingIn(view)], { seq: said.seq })}>
            not shown to the model any more
          </a>
        )}
        <span class="grow" />
        {may("run") && <MessageActions {...{ view, said, index, next, isPinned, isReplacing }} />}
      </div>
      {isReplacing.value ? (
        <Replace view={view} said={said} index={index} onLeave={() => (isReplacing.value = false)} />
      ) : (
        <MessageBody said={said} next={next} />
      )}
    </div>
  );
}

/** The compaction whose summary stands for what the model is not shown. */
function standingIn({ compactions }: SessionView): string {
  return compactions.value.findLast(({ undone }) => !undone)?.compaction_id ?? "";
}

function MessageActions(props: {
  view: SessionView;
  said: SaidMessage;
  index: number;
  next: SaidMessage | undefined;
  isPinned: boolean;
  isReplacing: { value: boolean };
}): JSX.Element {
  const { view, said, index, next, isPinned, isReplacing } = props;
  const pin = async (): Promise<void> => {
    await (isPinned ? view.handle.unpin(said.seq) : view.handle.pin(said.seq));
    await view.refresh();
  };
  const fork = async (): Promise<void> => {
    // A call goes with what it gave: both are one message to whoever looks.
    const end = next?.role === "tool_results" && said.role === "block_assistant" ? index + 2 : index + 1;
    const made = await view.handle.fork(end);
    go(linkTo(["sessions", made.id]));
  };
  const of = `message ${said.seq}`;
  return (
    <span class="message-actions">
      {said.role !== "system" && has("session_compaction") && (
        <Action
          class="quiet"
          does={pin}
          title="A pinned message stays in the context whatever is compacted"
          label={`${isPinned ? "Unpin" : "Pin"} ${of}`}
        >
          {isPinned ? "Unpin" : "Pin"}
        </Action>
      )}
      <Action class="quiet" does={fork} title="A new session of everything up to here" label={`Fork after ${of}`}>
        Fork
      </Action>
      {said.role !== "tool_results" && said.role !== "system_notice" && (
        <button
          type="button"
          class="quiet"
          title="A new session in which this was said otherwise"
          aria-label={`Replace ${of} in a fork`}
          onClick={() => {
            isReplacing.value = !isReplacing.value;
          }}
        >
          Replace
        </button>
      )}
    </span>
  );
}

function Replace(props: { view: SessionView; said: SaidMessage; index: number; onLeave: () => void }): JSX.Element {
  const { view, said, index, onLeave } = props;
  const text = useSignal(textOf(said));
  const fork = async (): Promise<void> => {
    const message = replacementOf(said, text.value);
    const made = await view.handle.fork(index, { type: "message", message });
    go(linkTo(["sessions", made.id]));
  };
  return (
    <div class="stack">
      <label>
        What is said there instead; what came after is left out of the new session
        <textarea
          rows={5}
          value={text}
          onInput={(event) => {
            text.value = event.currentTarget.value;
          }}
        />
      </label>
      <div class="row">
        <Action class="primary" does={fork}>
          Fork with this
        </Action>
        <button type="button" onClick={onLeave}>
          Leave it
        </button>
      </div>
    </div>
  );
}

function replacementOf(said: SaidMessage, content: string): MessageInput {
  if (said.role === "system") return { role: "system", content };
  return said.role === "user" ? { role: "user", content } : { role: "assistant", content };
}

/** What a message says, its tool calls aside. */
export function textOf(said: SaidMessage): string {
  switch (said.role) {
    case "user":
    case "system":
      return wordsOf(said.content);
    case "system_notice":
      return said.body ?? "";
    case "block_assistant":
      return said.blocks.flatMap((block) => (block.block_type === "text" ? [block.data.text] : [])).join("\n\n");
    case "tool_results":
      return said.results.map(({ content }) => wordsOf(content)).join("\n\n");
  }
}

export function MessageBody({ said, next }: { said: SaidMessage; next?: SaidMessage | undefined }): JSX.Element {
  switch (said.role) {
    case "user":
      return <Said content={said.content} />;
    case "system":
      return (
        <Fold name={`system ${said.seq}`} line={<bdi class="soft">{beginningOf(said.content)}</bdi>}>
          {() => <LongText text={said.content} />}
        </Fold>
      );
    case "system_notice":
      return <LongText text={said.body ?? said.kind.replaceAll("_", " ")} />;
    case "tool_results":
      return (
        <>
          {said.results.map((result) => (
            <ToolFold key={result.tool_use_id} result={result} />
          ))}
        </>
      );
    case "block_assistant":
      return (
        <>
          {said.blocks.map((block, index) => (
            <Block key={index} name={`${said.seq} ${index}`} block={block} next={next} />
          ))}
          {said.stop_reason === "max_tokens" && <p class="soft">(The answer reached its longest length here.)</p>}
          {said.stop_reason === "content_filter" && <p class="soft">(The provider cut the answer off here.)</p>}
          {said.stop_reason === "cancelled" && <p class="soft">(The answer was interrupted here.)</p>}
        </>
      );
  }
}

function Block(props: { name: string; block: AssistantBlock; next: SaidMessage | undefined }): JSX.Element {
  const { name, block, next } = props;
  switch (block.block_type) {
    case "text":
      return <LongText text={block.data.text} />;
    case "reasoning":
      return <Reasoning name={name} text={block.data.text} />;
    case "tool_use":
      return <ToolFold call={block} result={resultOf(next, block.data.id)} />;
    case "server_tool_content": {
      const given = JSON.stringify(block.data.content, null, 2);
      return (
        <Fold name={name} class="tool" line={<bdi>{block.data.name}</bdi>}>
          {() => <LongText text={given} isCode />}
        </Fold>
      );
    }
    case "image":
      return <Said content={[{ type: "image", source: "inline", ...block.data }]} />;
  }
}

function resultOf(next: SaidMessage | undefined, id: string): ToolResult | undefined {
  if (next?.role !== "tool_results") return undefined;
  return next.results.find((result) => result.tool_use_id === id);
}

export function Reasoning({ name, text }: { name: string; text: string }): JSX.Element {
  return (
    <Fold
      name={`reasoning ${name}`}
      class="reasoning"
      line={
        <span class="soft">
          Thought <bdi>{beginningOf(text)}</bdi>
        </span>
      }
    >
      {() => <LongText text={text} />}
    </Fold>
  );
}

/** A call and what came of it, behind one line: its name, its first words, how much it gave. */
function ToolFold({ call, result }: { call?: ToolUseBlock; result?: ToolResult | undefined }): JSX.Element {
  const given = result === undefined ? "" : wordsOf(result.content);
  const args = call === undefined ? "" : JSON.stringify(call.data.args, null, 2);
  const first = call === undefined ? "" : Object.values(call.data.args).map(String).join(" ");
  return (
    <Fold
      name={`tool ${call?.data.id ?? result?.tool_use_id}`}
      class="tool"
      line={
        <>
          <bdi class="mono">{call?.data.name ?? "result"}</bdi>
          <bdi class="soft fold-words">{beginningOf(first || given)}</bdi>
          {result === undefined ? (
            <Badge>no result yet</Badge>
          ) : result.is_error ? (
            <Badge tone="bad">failed</Badge>
          ) : (
            <span class="soft">{formatSize(given.length)}</span>
          )}
        </>
      }
    >
      {() => (
        <>
          {call !== undefined && <p class="soft">Asked with</p>}
          {call !== undefined && <LongText text={args} isCode />}
          {result !== undefined && <p class="soft">{result.is_error ? "Failed with" : "Gave"}</p>}
          {result !== undefined && <Said content={result.content} isCode />}
        </>
      )}
    </Fold>
  );
}
