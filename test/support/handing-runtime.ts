import type { AgentEvent } from "@rkat/core/contract/event";
import type { Runtime } from "@rkat/core/create-runtime";
import type { CallContext } from "@rkat/core/runtime/dispatch";
import { createRuntimeCalls } from "@rkat/core/runtime/runtime-calls";
import type { Delivery, Listener } from "@rkat/core/sessions/event-queue";

const WHO = { call_id: "call-1", agent: "reviewer" };
const PERMISSIONS = { ask: ["task_create"] };

/**
 * A runtime whose turns hand a task to a sub-agent first. The sub-agent's session and its questions are real; its events
 * reach whoever listens to the turn, or to its session, inside the events that are told of sub-agents.
 */
export function handingOut(runtime: Runtime, depth = 1): Runtime & { readonly children: string[] } {
  const children: string[] = [];
  const reported = createReported();
  const handOut = async (parent: string | undefined, listener: Listener | undefined, call: CallContext) => {
    const place = parent === undefined ? {} : { labels: { parent, parent_call: WHO.call_id, agent: WHO.agent } };
    const input = { prompt: "Make a task.", initial_turn: "deferred", tool_preset: "safe", permissions: PERMISSIONS };
    const { session_id: child_id } = await runtime.dispatch("createSession", { ...input, ...place });
    children.push(child_id);
    // Between two entries of the log, as what is told of an entry of its own is; whoever listens takes each seq once.
    const after = parent === undefined ? 0 : await latestSeq(runtime, parent);
    const emit = (event: AgentEvent, seq = 0) => {
      const delivery = { seq, timestamp_ms: 0, event };
      listener?.(delivery);
      if (parent !== undefined) reported.emit(parent, delivery);
    };
    emit({ type: "sub_agent_started", ...WHO, child_id, task: "Make a task." }, after + 0.25);
    const within: Listener = ({ event }) => emit({ type: "sub_agent_event", ...WHO, child_id, depth, event });
    const { signal, unattended } = call;
    const inherited = { ...(signal && { signal }), ...(unattended === undefined ? {} : { unattended }) };
    const turn = { session_id: child_id, prompt: "Go on." };
    const { tool_calls, usage } = await runtime.dispatch("startTurn", turn, { ...inherited, listener: within });
    emit({ type: "sub_agent_completed", ...WHO, child_id, status: "completed", usage, tool_calls }, after + 0.5);
  };
  const dispatch = (async (name: string, input: { session_id?: string }, call: CallContext = {}) => {
    const parent = name === "createSession" ? undefined : input.session_id;
    const isTurn = ["createSession", "startTurn", "resumeSession"].includes(name);
    if (isTurn && (parent !== undefined || call.listener !== undefined)) await handOut(parent, call.listener, call);
    return runtime.dispatch(name as "createSession", input, call);
  }) as Runtime["dispatch"]; // It hands on what it is given, whatever that is.
  const subscribe: Runtime["subscribe"] = (id, options) => reported.merged(id, runtime.subscribe(id, options));
  return { ...createRuntimeCalls({ dispatch, subscribe, close: runtime.close }), children };
}

async function latestSeq({ dispatch }: Runtime, session_id: string): Promise<number> {
  const { cursor } = await dispatch("readEventCursor", { scope: { type: "session", session_id } });
  return cursor.sequence;
}

/** What is told to those who follow a session besides what its log says; whoever comes later hears it, too. */
function createReported() {
  const before = new Map<string, Delivery[]>();
  const followers = new Map<string, Set<Listener>>();
  return {
    emit: (id: string, delivery: Delivery): void => {
      if (delivery.seq !== 0) before.set(id, [...(before.get(id) ?? []), delivery]);
      for (const onDelivery of followers.get(id) ?? []) onDelivery(delivery);
    },
    merged: async function* (id: string, log: AsyncIterable<Delivery>): AsyncGenerator<Delivery> {
      const queue: Delivery[] = [...(before.get(id) ?? [])];
      let woken = Promise.withResolvers<void>();
      let isOver = false;
      const onDelivery = (delivery: Delivery): void => {
        queue.push(delivery);
        woken.resolve();
      };
      const mine = followers.get(id) ?? new Set();
      followers.set(id, mine.add(onDelivery));
      const end = (): void => {
        isOver = true;
        woken.resolve();
      };
      const follow = async (): Promise<void> => {
        for await (const delivery of log) onDelivery(delivery);
      };
      follow().then(end, end);
      try {
        while (!isOver || queue.length > 0) {
          const next = queue.shift();
          if (next !== undefined) yield next;
          else {
            await woken.promise;
            woken = Promise.withResolvers<void>();
          }
        }
      } finally {
        mine.delete(onDelivery);
      }
    },
  };
}
