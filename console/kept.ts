import type { Client } from "../src/client.ts";
import { RuntimeError } from "../src/clients/browser.ts";
import type { KeptElement, KeptPlaces, KeptSession } from "../src/contract/kept-session.ts";
import type { OperationName, OperationOutput } from "../src/contract/operations.ts";
import type { Simulation, SimulationElement } from "../src/contract/simulation.ts";

type Fields = Readonly<Record<string, unknown>>;
type Answers = { readonly [N in OperationName]?: (input: Fields) => OperationOutput<N> };

const SESSION: KeptElement = "kept-session";
const SIMULATION: SimulationElement = "kept-simulation";

/** The session this page holds, where it was written as a file; undefined where a server has sent it. */
export const kept = readKept<KeptSession>(SESSION);
/** The simulation this page holds, where it was written for one. */
export const keptSimulation = readKept<Simulation>(SIMULATION);

function readKept<T>(element: KeptElement | SimulationElement): T | undefined {
  const text = document.getElementById(element)?.textContent;
  return text ? JSON.parse(text) : undefined; // Written together with this script.
}

/** Answers for the session as it was kept, so that the client need not know that no server is there. */
export function createKeptRuntime(session: KeptSession): Pick<Client, "dispatch" | "subscribe"> {
  const answers = answersOf(session);
  const dispatch = async (name: OperationName, input: unknown): Promise<unknown> => {
    const answer = answers[name];
    if (answer === undefined) throw notKept(`no answer to ${name}`);
    return answer(Object(input));
  };
  return {
    dispatch: dispatch as Client["dispatch"], // Each answer has the type of its operation.
    subscribe: async function* (_, { after = 0, signal } = {}) {
      for (const { cursor, timestamp_ms, payload } of session.events) {
        if (cursor.sequence > after) yield { seq: cursor.sequence, timestamp_ms, event: payload };
      }
      // Nothing happens any more: a stream that ended would be taken for a server that is away.
      await new Promise((resolve) => signal?.addEventListener("abort", resolve));
    },
  };
}

function answersOf(session: KeptSession): Answers {
  const { session_id } = session.session;
  const scope = { type: "session", session_id } as const;
  const history = rowsAt(session.messages, session.history);
  const latest_cursor = { scope, sequence: session.events.at(-1)?.cursor.sequence ?? 0 };
  const { contract_version } = session.capabilities;
  return {
    readAccess: () => ({ scopes: ["read"], labels: {} }),
    readCapabilities: () => session.capabilities,
    readSession: () => session.session,
    readHistory: ({ offset, limit }) => {
      const from = numberOr(offset, 0);
      const messages = history.slice(from, from + numberOr(limit, history.length));
      const message_count = history.length;
      const has_more = from + messages.length < message_count;
      return { session_id, message_count, offset: from, has_more, messages };
    },
    readEventCursor: () => ({ contract_version, cursor: latest_cursor }),
    listEvents: ({ cursor }) => {
      const after = numberOr(Object(cursor).sequence, 0);
      const events = session.events.filter((event) => event.cursor.sequence > after);
      const from_cursor = { scope, sequence: after };
      return { contract_version, scope, from_cursor, latest_cursor, events, has_more: false };
    },
    listModelCalls: () => session.calls,
    listCompactions: () => ({ compactions: [...session.compactions] }),
    readSummarySources: ({ compaction_id }) =>
      session.sources.find((one) => one.compaction_id === compaction_id) ?? { sentences: [] },
    listPins: () => ({ pins: [...session.pins] }),
    // A question can be answered only where it was asked.
    listApprovals: () => ({ approvals: [] }),
    readContext: ({ at_seq }) => {
      const found = session.contexts.find((one) => one.at_seq === at_seq);
      if (found !== undefined) {
        const messages = rowsAt(session.messages, found.messages);
        return { ...found.context, messages, parts: rowsAt(session.parts, found.parts) };
      }
      const calls = session.contexts.filter((one) => one.at_seq !== undefined).length;
      throw notKept(`what the model was shown at its newest ${calls} calls, and not at this one`);
    },
    readBlob: ({ blob_id }) => {
      const blob = session.blobs.find((one) => one.blob_id === blob_id);
      if (blob === undefined) throw notKept("the beginning and the end of this output, and not all of it");
      return blob;
    },
  };
}

function rowsAt<T>(rows: readonly T[], places: KeptPlaces): T[] {
  return places.flatMap(([from, end]) => rows.slice(from, end));
}

function numberOr(value: unknown, otherwise: number): number {
  return typeof value === "number" ? value : otherwise;
}

function notKept(what: string): RuntimeError {
  return new RuntimeError(
    "CAPABILITY_UNAVAILABLE",
    `this page holds ${what}; where it was written, rkat shows the rest`,
  );
}
