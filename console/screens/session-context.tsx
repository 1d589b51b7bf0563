import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import type { SessionContext } from "../../src/contract/session-context.ts";
import { ContextStrip } from "../context-strip.tsx";
import { formatCount, formatTime, formatTokens } from "../format.ts";
import { Answer, Badge, useAsked } from "../parts.tsx";
import { linkTo } from "../router.ts";
import type { SessionView } from "../session-view.ts";
import { MessageBody, WHO } from "../transcript-message.tsx";
import { VirtualList } from "../virtual-list.tsx";

const ROW_PX = 90;

/** Exactly what the model was shown at a call, or is shown now; what it is not shown any more is marked. */
export function ContextScreen({ view, seq }: { view: SessionView; seq: number | undefined }): JSX.Element {
  // Now is another now once something was said or brought back.
  const moment = seq === undefined ? [view.count.value, view.compactions.value, view.pins.value] : [];
  const asked = useAsked(() => view.handle.context(seq === undefined ? {} : { atSeq: seq }), [view, seq, ...moment]);
  const { calls } = view.calls.value;
  const place = calls.findIndex((call) => call.seq === seq);
  const [before, after] = place < 0 ? [calls.at(-1), undefined] : [calls[place - 1], calls[place + 1]];
  return (
    <>
      <ContextStrip id={view.id} calls={view.calls.value} {...(seq === undefined ? {} : { at: seq })} />
      <section class="context" aria-label="What the model is shown">
        <div class="row">
          <h2>
            {seq === undefined ? "What the model is shown now" : `What the model was shown at call #${seq}`}
            {calls[place] !== undefined && <span class="soft"> · {formatTime(calls[place]?.at ?? "")}</span>}
          </h2>
          <span class="grow" />
          {before !== undefined && (
            <a href={linkTo(["sessions", view.id, "context", String(before.seq)])}>Call before</a>
          )}
          {after !== undefined && <a href={linkTo(["sessions", view.id, "context", String(after.seq)])}>Call after</a>}
          {seq !== undefined && <a href={linkTo(["sessions", view.id, "context"])}>Now</a>}
        </div>
        <Answer asked={asked}>{(context) => <Shown view={view} context={context} isPast={seq !== undefined} />}</Answer>
      </section>
    </>
  );
}

type ShownMessage = SessionContext["messages"][number];

function Shown(props: { view: SessionView; context: SessionContext; isPast: boolean }): JSX.Element {
  const { view, context, isPast } = props;
  const { messages, parts, estimated_tokens, tool_tokens } = context;
  const places = useMemo(() => messages.map((_, index) => index), [messages]);
  const hasLeft = (message: ShownMessage): boolean => isPast && leftSince(view, message);
  const left = messages.filter(hasLeft).length;
  return (
    <>
      <p class="soft">
        {formatCount(messages.length)} messages, about {formatCount(estimated_tokens)} tokens, and{" "}
        {formatCount(tool_tokens)} for the tools' descriptions.{" "}
        {isPast && (left === 0 ? "All of it is still shown." : `${formatCount(left)} of them are not shown any more.`)}
      </p>
      <VirtualList
        items={places}
        keyOf={String}
        estimate={ROW_PX}
        label="Messages the model was shown"
        show={(index) => {
          const said = messages[index];
          if (said === undefined) return null;
          const part = parts.find(({ seqs: [from, to] }) => from <= said.seq && said.seq <= to);
          const kind = kindOf(said, part?.kind);
          return (
            <div class={`message shown ${hasLeft(said) ? "left" : ""}`} data-seq={said.seq}>
              <span class={`shown-part part-${kind}`} aria-hidden="true" />
              <div class="message-head">
                <strong>{kind === "summary" ? KINDS.summary : WHO[said.role]}</strong>
                {kind === "summary" && said.role === "user" && said.compaction_id !== undefined ? (
                  <a href={linkTo(["sessions", view.id, "compactions", said.compaction_id])}>its compaction</a>
                ) : (
                  <a class="soft" href={linkTo(["sessions", view.id], { seq: said.seq })}>
                    #{said.seq}
                  </a>
                )}
                {part !== undefined && part.seqs[0] === said.seq && (
                  <span class="soft">
                    {KINDS[part.kind] ?? part.kind} of {formatTokens(part.estimated_tokens)} tokens
                  </span>
                )}
                {hasLeft(said) && <Badge>not shown any more</Badge>}
              </div>
              <MessageBody said={said} next={messages[index + 1]} />
            </div>
          );
        }}
      />
    </>
  );
}

const KINDS: Readonly<Record<string, string>> = {
  system: "System prompt",
  summary: "Summary",
  pinned: "Pinned",
  expanded: "Brought back",
  turn: "Turn",
};

function kindOf(said: ShownMessage, part: string | undefined): string {
  if (said.role === "tool_results") return "tool_output";
  return part ?? "turn";
}

function leftSince(view: SessionView, said: ShownMessage): boolean {
  if (said.role !== "user" || said.compaction_id === undefined) return view.hasLeft.value(said.seq);
  const standing = view.compactions.value.findLast(({ undone }) => !undone);
  return standing?.compaction_id !== said.compaction_id;
}
