import type { AgentEvent } from "../../../contract/event.ts";
import type { JsonObject } from "../../../contract/session.ts";
import { requireCapability } from "../../../service/dispatch.ts";
import type { Io } from "../io.ts";
import type { Opened } from "../open-runtime.ts";
import { grouped } from "../plain-text.ts";
import { chooseView } from "../run/run-command.ts";
import type { RunFlags } from "../run/run-flags.ts";
import { resumeSession, startSession, toolChange, turnChange, withSessionRef } from "../run/start-turn.ts";
import { judge } from "../run/verdict.ts";
import { watchTurn } from "../run/watch-turn.ts";
import type { AgentTalk } from "./agent-talk.ts";

/** The session a chat is in, from turn to turn. */
export interface Conversation {
  /** Undefined until a new session's first turn has begun. */
  readonly sessionId: string | undefined;
  /** The model that was last asked for; undefined leaves it to the session. */
  readonly model: string | undefined;
  /** Runs a turn and shows it; without a session it makes one. Says how it went as an exit code and a sentence. */
  say(prompt: string, signal: AbortSignal): Promise<ReturnType<typeof judge>>;
  /** Goes on in another session; without an id, in a new one. */
  switchTo(sessionId: string | undefined): void;
  /** From the next turn on. */
  useModel(name: string): void;
}

export interface ChatStart {
  readonly flags: RunFlags;
  readonly outputSchema: JsonObject | undefined;
  readonly sessionId: string | undefined;
  readonly agent: AgentTalk | undefined;
}

export function createConversation(io: Io, opened: Opened, start: ChatStart): Conversation {
  const { flags, outputSchema, agent } = start;
  // Before anybody has typed a prompt, not after.
  if (flags.compactThreshold !== undefined) requireCapability(new Set(opened.config.features), "session-compaction");
  if (flags.memory === true) requireCapability(new Set(opened.config.features), "memory-store");
  let { sessionId } = start;
  let { model } = flags;
  // What the flags change of a session that was resumed, they change once.
  let change = sessionId === undefined ? toolChange(flags) : turnChange(flags, outputSchema);
  const startTurn = async (prompt: string, signal: AbortSignal) => {
    if (sessionId !== undefined) return resumeSession(opened, { sessionId, prompt, change, signal });
    const wanted = model === undefined ? flags : { ...flags, model };
    const introduced = (await agent?.introduce(wanted)) ?? wanted;
    return startSession(opened, { prompt, flags: introduced, outputSchema, signal });
  };
  return {
    get sessionId() {
      return sessionId;
    },
    get model() {
      return model;
    },
    say: async (prompt, signal) => {
      const { stream, limits } = await startTurn(prompt, signal);
      const result = await watchTurn({
        stream,
        view: chooseView(io, flags, { remark }),
        complete: withSessionRef(opened),
        // Also of a turn that fails later: its session is there and can go on.
        hear: (event) => {
          if (event.type !== "run_started") return;
          sessionId = event.session_id;
          change = toolChange(flags);
        },
      });
      await agent?.keep(prompt, result);
      return judge(result, limits);
    },
    switchTo: (id) => {
      sessionId = id;
      change = toolChange(flags);
      model = undefined;
    },
    useModel: (name) => {
      model = name;
      change = { ...change, model: name };
    },
  };
}

/** What a chat says of a compaction, which changes what the model knows of the talk. */
function remark(event: AgentEvent): string | undefined {
  if (event.type !== "compaction_completed") return undefined;
  const { messages_before, messages_after } = event;
  const change = `${grouped(messages_before)} → ${grouped(messages_after)} messages`;
  return `(compacted: ${change}; /receipt shows what it did, /undo brings it back)`;
}
