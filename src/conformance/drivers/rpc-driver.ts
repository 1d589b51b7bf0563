import { OPERATIONS } from "../../contract/operations.ts";
import { type Driver, eventIn, type Fields, failure, isFields, type Outcome, type ToldEvent } from "./driver.ts";
import { createCallsBySession } from "./wire/calls-by-session.ts";
import type { Start } from "./wire/child.ts";
import { openPeer, type Peer } from "./wire/json-lines.ts";

/** Tells scenarios through a server of JSON-RPC on stdin and stdout. */
export async function openRpcDriver(start: Start): Promise<Driver> {
  const calls = createCallsBySession();
  const hear = ({ method, params }: Fields): void => {
    if (method === "session/event" && isFields(params)) calls.tell(params.session_id, hybridEvent(params.event));
  };
  const open = (): Promise<Peer> => openPeer(start, { hear, hello: {} });
  let peer = await open();
  return {
    surface: "rpc",
    lacks: () => undefined,
    hears: () => true,
    call: async (operation, input, onEvent) => {
      const end = calls.begin(operation, input.session_id, onEvent);
      try {
        return outcomeOf(await peer.request(OPERATIONS[operation].rpc, input));
      } finally {
        end();
      }
    },
    restart: async () => {
      await peer.close();
      peer = await open();
    },
    close: () => peer.close(),
  };
}

function outcomeOf({ result, error }: Fields): Outcome {
  if (!isFields(error)) return { ok: true, result };
  const { code, message, details } = isFields(error.data) ? error.data : { code: "no code", message: error.message };
  return failure({ code, message, details }, { kind: "rpc", value: Number(error.code) });
}

/** Envelope and event in one object (contract §2, C1): both spellings must say the same. */
function hybridEvent(hybrid: unknown): ToldEvent {
  const event = eventIn(hybrid);
  const flat = isFields(hybrid) ? hybrid : {};
  const astray = Object.keys(event).find((field) => JSON.stringify(flat[field]) !== JSON.stringify(event[field]));
  return astray === undefined ? event : { type: `an event whose ${astray} differs from its payload's`, hybrid };
}
