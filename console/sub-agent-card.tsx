import type { JSX } from "preact";
import { Fold } from "./fold.tsx";
import { formatCount, formatTokens } from "./format.ts";
import { kept } from "./kept.ts";
import { Badge, type Tone } from "./parts.tsx";
import { linkTo } from "./router.ts";
import type { SubAgentTask } from "./sub-agents.ts";
import { LongText } from "./transcript-text.tsx";

const TONES: Readonly<Record<SubAgentTask["status"], Tone>> = {
  running: "live",
  completed: "good",
  failed: "bad",
  interrupted: "warn",
};

/** A task that was handed out, between the call that did and what came of it. */
export function SubAgentCard({ task }: { task: SubAgentTask }): JSX.Element {
  const { agent, status, tokens, childId, callId, inside } = task;
  return (
    <section class="card sub-agent" aria-label={`Sub-agent ${agent}`}>
      <div class="row">
        <strong>
          Sub-agent <bdi>{agent}</bdi>
        </strong>
        <Badge tone={TONES[status]}>{status}</Badge>
        {tokens !== undefined && <span class="soft">{formatTokens(tokens)} tokens</span>}
        <span class="grow" />
        {/* A page that was written as a file holds one session. */}
        {kept === undefined && <a href={linkTo(["sessions", childId])}>Its session</a>}
      </div>
      <LongText text={task.task} />
      {inside.length > 0 && (
        <Fold name={`sub-agent ${callId}`} line={<span class="soft">What it does ({formatCount(inside.length)})</span>}>
          {() => (
            <ol class="sub-agent-lines">
              {inside.map(({ depth, text }, index) => (
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
