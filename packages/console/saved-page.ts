import type { Client } from "@rkat/client";
import { RuntimeError } from "@rkat/client/browser";
import type { OperationName, OperationOutput } from "@rkat/core/contract/operations";
import type { KeptElement, KeptPlaces, SessionPage } from "@rkat/core/contract/wire/session-page";
import type { Simulation, SimulationElement } from "@rkat/core/contract/wire/simulation";

type Fields = Readonly<Record<string, unknown>>;
type Handlers = { readonly [N in OperationName]?: (input: Fields) => OperationOutput<N> };

const SESSION: KeptElement = "kept-session";
const SIMULATION: SimulationElement = "kept-simulation";

/** The session in a page that was saved as a file; undefined if a server sent the page. */
export const savedSession = readSaved<SessionPage>(SESSION);
/** The simulation in a page that was saved as a file. */
export const savedSimulation = readSaved<Simulation>(SIMULATION);

function readSaved<T>(element: KeptElement | SimulationElement): T | undefined {
  const text = document.getElementById(element)?.textContent;
  return text ? JSON.parse(text) : undefined; // The same build wrote the data and this script.
}

/** Serves the client from the saved session, in place of a server. */
export function createSavedRuntime(session: SessionPage): Pick<Client, "dispatch" | "subscribe"> {
  const handlers = handlersOf(session);
  const dispatch = async (name: OperationName, input: unknown): Promise<unknown> => {
    const handler = handlers[name];
    if (handler === undefined) throw notSaved(`does not support ${name}`);
    return handler(Object(input));
  };
  return {
    dispatch: dispatch as Client["dispatch"], // `Handlers` gives each result the type of its operation.
    subscribe: async function* (_, { after = 0, signal } = {}) {
      for (const { cursor, timestamp_ms, payload } of session.events) {
        if (cursor.sequence > after) yield { seq: cursor.sequence, timestamp_ms, event: payload };
      }
      // The stream stays open: the page takes an ended stream for a lost connection.
      await new Promise((resolve) => signal?.addEventListener("abort", resolve));
    },
  };
}

function handlersOf(session: SessionPage): Handlers {
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
    readInbox: () => ({ messages: [] }),
    // A saved page cannot answer an approval.
    listApprovals: () => ({ approvals: [] }),
    readContext: ({ at_seq }) => {
      const found = session.contexts.find((one) => one.at_seq === at_seq);
      if (found !== undefined) {
        const messages = rowsAt(session.messages, found.messages);
        return { ...found.context, messages, parts: rowsAt(session.parts, found.parts) };
      }
      const calls = session.contexts.filter((one) => one.at_seq !== undefined).length;
      throw notSaved(`has the context of the last ${calls} model calls only`);
    },
    readBlob: ({ blob_id }) => {
      const blob = session.blobs.find((one) => one.blob_id === blob_id);
      if (blob === undefined) throw notSaved("has only the start and the end of this output");
      return blob;
    },
  };
}

function rowsAt<T>(rows: readonly T[], places: KeptPlaces): T[] {
  return places.flatMap(([from, end]) => rows.slice(from, end));
}

function numberOr(value: unknown, fallback: number): number {
  return typeof value === "number" ? value : fallback;
}

function notSaved(limit: string): RuntimeError {
  return new RuntimeError("CAPABILITY_UNAVAILABLE", `this saved page ${limit}; rkat shows the rest where it was saved`);
}
