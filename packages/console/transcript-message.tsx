import { useSignal } from "@preact/signals";
import type { MessageInput } from "@rkat/client";
import type { AssistantBlock, ToolResult } from "@rkat/core/contract/message";
import type { JSX } from "preact";
import { comparisonLink } from "./comparison.tsx";
import { formatTime } from "./format.ts";
import { Action, Badge, Fold, textField } from "./parts.tsx";
import { linkTo, navigate } from "./router.ts";
import { call, client, hasCapability, hasScope } from "./server.ts";
import type { Message, SessionView } from "./session-view.ts";
import { ToolFold } from "./tool-call.tsx";
import { ContentView, excerpt, LongText, MarkdownText, plainText } from "./transcript-text.tsx";

export const ROLE_NAMES: Readonly<Record<Message["role"], string>> = {
  user: "User",
  block_assistant: "Model",
  system: "System prompt",
  system_notice: "Notice",
  tool_results: "Tools",
};

export function TranscriptMessage(props: {
  view: SessionView;
  message: Message;
  index: number;
  /** The next message, which has the results of this message's tool calls. */
  next: Message | undefined;
  isFound: boolean;
}): JSX.Element {
  const { view, message, index, next, isFound } = props;
  const isReplacing = useSignal(false);
  const isRemoved = view.isRemoved.value(message.seq);
  const classes = ["message", message.role, isRemoved ? "removed" : "", isFound ? "found" : ""].join(" ");
  return (
    <div class={classes} data-seq={message.seq}>
      <div class="message-head">
        <strong>{ROLE_NAMES[message.role]}</strong>
        <a
          class="soft"
          href={linkTo(["sessions", view.id], { seq: message.seq })}
          title={formatTime(message.created_at)}
        >
          #{message.seq}
        </a>
        {view.pins.value.has(message.seq) && <Badge tone="warn">pinned</Badge>}
        {isRemoved && (
          <a
            class="badge"
            href={linkTo(["sessions", view.id, "compactions", latestCompactionId(view)], { seq: message.seq })}
          >
            removed from context
          </a>
        )}
        <span class="grow" />
        {hasScope("run") && (
          <MessageActions
            {...{ view, message, index, next }}
            onReplace={() => (isReplacing.value = !isReplacing.value)}
          />
        )}
      </div>
      {isReplacing.value ? (
        <Replace view={view} message={message} index={index} onCancel={() => (isReplacing.value = false)} />
      ) : (
        <MessageBody message={message} next={next} durationOf={view.durationOf} />
      )}
    </div>
  );
}

/** The compaction whose summary is in the context. */
function latestCompactionId({ compactions }: SessionView): string {
  return compactions.value.findLast(({ undone }) => !undone)?.compaction_id ?? "";
}

function MessageActions(props: {
  view: SessionView;
  message: Message;
  index: number;
  next: Message | undefined;
  onReplace: () => void;
}): JSX.Element {
  const { view, message, index, next } = props;
  const isPinned = view.pins.value.has(message.seq);
  const pin = async (): Promise<void> => {
    await (isPinned ? view.handle.unpin(message.seq) : view.handle.pin(message.seq));
    await view.refresh();
  };
  const fork = async (): Promise<void> => {
    // Tool calls and their results are shown as one message, so both are copied.
    const end = next?.role === "tool_results" && message.role === "block_assistant" ? index + 2 : index + 1;
    const made = await view.handle.fork(end);
    navigate(linkTo(["sessions", made.id]));
  };
  const of = `message ${message.seq}`;
  return (
    <span class="message-actions">
      {message.role !== "system" && hasCapability("session_compaction") && (
        <Action
          class="quiet"
          run={pin}
          title="Compactions keep a pinned message in the context"
          label={`${isPinned ? "Unpin" : "Pin"} ${of}`}
        >
          {isPinned ? "Unpin" : "Pin"}
        </Action>
      )}
      <Action
        class="quiet"
        run={fork}
        title="Start a new session with the messages up to here"
        label={`Fork after ${of}`}
      >
        Fork
      </Action>
      {message.role !== "tool_results" && message.role !== "system_notice" && (
        <button
          type="button"
          class="quiet"
          title="Start a new session with another text here"
          aria-label={`Edit ${of} in a fork`}
          onClick={props.onReplace}
        >
          Edit
        </button>
      )}
    </span>
  );
}

function Replace(props: { view: SessionView; message: Message; index: number; onCancel: () => void }): JSX.Element {
  const { view, message, index, onCancel } = props;
  const text = useSignal(textOf(message));
  const fork = async (): Promise<void> => {
    const replacement = replacementOf(message, text.value);
    const made = await view.handle.fork(index, { type: "message", message: replacement });
    navigate(linkTo(["sessions", made.id]));
  };
  const runAgain = async (): Promise<void> => {
    const fork = { session_id: view.id, message_index: index, asks_again: true };
    const { session_id } = await call("forkSession", fork);
    // The session's screen shows the turn, and its error.
    client()
      .session(session_id)
      .turn(text.value)
      .catch(() => {});
    navigate(comparisonLink(session_id, { id: view.id, index }));
  };
  return (
    <div class="stack">
      <label>
        New text (in a new session)
        <textarea rows={5} {...textField(text)} />
      </label>
      <div class="row">
        {message.role === "user" && (
          <Action class="primary" run={runAgain} disabled={text.value.trim() === ""}>
            Run again
          </Action>
        )}
        <Action run={fork} title="The new session ends with this message">
          Fork with new text
        </Action>
        <button type="button" onClick={onCancel}>
          Cancel
        </button>
      </div>
    </div>
  );
}

function replacementOf(message: Message, content: string): MessageInput {
  if (message.role === "system") return { role: "system", content };
  return message.role === "user" ? { role: "user", content } : { role: "assistant", content };
}

function textOf(message: Message): string {
  switch (message.role) {
    case "user":
    case "system":
      return plainText(message.content);
    case "system_notice":
      return message.body ?? "";
    case "block_assistant":
      return message.blocks.flatMap((block) => (block.block_type === "text" ? [block.data.text] : [])).join("\n\n");
    case "tool_results":
      return message.results.map(({ content }) => plainText(content)).join("\n\n");
  }
}

export function MessageBody(props: {
  message: Message;
  next?: Message | undefined;
  /** How long a tool call took, by its id. */
  durationOf?: ((id: string) => number | undefined) | undefined;
}): JSX.Element {
  const { message, next, durationOf } = props;
  switch (message.role) {
    case "user":
      return <ContentView content={message.content} />;
    case "system":
      return (
        <Fold name={`system ${message.seq}`} line={<bdi class="soft">{excerpt(message.content)}</bdi>}>
          {() => <LongText text={message.content} />}
        </Fold>
      );
    case "system_notice":
      return <LongText text={message.body ?? message.kind.replaceAll("_", " ")} />;
    case "tool_results":
      return (
        <>
          {message.results.map((result) => (
            <ToolFold key={result.tool_use_id} result={result} durationMs={durationOf?.(result.tool_use_id)} />
          ))}
        </>
      );
    case "block_assistant":
      return (
        <>
          {message.blocks.map((block, index) => (
            <Block key={index} name={`${message.seq} ${index}`} {...{ block, next, durationOf }} />
          ))}
          {message.stop_reason === "max_tokens" && <p class="soft">(The response reached the output limit.)</p>}
          {message.stop_reason === "content_filter" && (
            <p class="soft">(The provider's content filter stopped the response.)</p>
          )}
          {message.stop_reason === "cancelled" && <p class="soft">(The response was interrupted.)</p>}
        </>
      );
  }
}

function Block(props: {
  name: string;
  block: AssistantBlock;
  next: Message | undefined;
  durationOf: ((id: string) => number | undefined) | undefined;
}): JSX.Element {
  const { name, block, next, durationOf } = props;
  switch (block.block_type) {
    case "text":
      return <MarkdownText text={block.data.text} />;
    case "reasoning":
      return <Reasoning name={name} text={block.data.text} />;
    case "tool_use":
      return <ToolFold call={block} result={resultOf(next, block.data.id)} durationMs={durationOf?.(block.data.id)} />;
    case "server_tool_content": {
      const content = JSON.stringify(block.data.content, null, 2);
      return (
        <Fold name={name} class="tool" line={<bdi>{block.data.name}</bdi>}>
          {() => <LongText text={content} isCode />}
        </Fold>
      );
    }
    case "image":
      return <ContentView content={[{ type: "image", source: "inline", ...block.data }]} />;
  }
}

function resultOf(next: Message | undefined, id: string): ToolResult | undefined {
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
          Reasoning <bdi>{excerpt(text)}</bdi>
        </span>
      }
    >
      {() => <MarkdownText text={text} />}
    </Fold>
  );
}
