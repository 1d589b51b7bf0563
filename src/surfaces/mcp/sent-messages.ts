import type { EventStore } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import type { JSONRPCMessage } from "@modelcontextprotocol/sdk/types.js";

interface Sent {
  readonly id: string;
  readonly streamId: string;
  readonly message: JSONRPCMessage;
  readonly chars: number;
}

const MESSAGES_MAX = 1_024;
const CHARS_MAX = 1_048_576;

/**
 * Keeps what was last sent to a client, for when its connection breaks within a long turn and it asks for the rest. A
 * client that asks for what was let go is refused rather than told less.
 */
export function createSentMessages(bounds = { messagesMax: MESSAGES_MAX, charsMax: CHARS_MAX }): EventStore {
  const sent: Sent[] = [];
  let count = 0;
  let chars = 0;
  const find = (id: string) => sent.findIndex((one) => one.id === id);
  return {
    storeEvent: async (streamId, message) => {
      count += 1;
      const one = { id: `${streamId}_${count}`, streamId, message, chars: JSON.stringify(message).length };
      sent.push(one);
      chars += one.chars;
      // The newest stays whatever its size: it may be the answer that everybody waits for.
      while (sent.length > bounds.messagesMax || (chars > bounds.charsMax && sent.length > 1)) {
        chars -= sent.shift()?.chars ?? 0;
      }
      return one.id;
    },
    getStreamIdForEventId: async (id) => sent[find(id)]?.streamId,
    replayEventsAfter: async (lastId, { send }) => {
      const at = find(lastId);
      const streamId = sent[at]?.streamId ?? "";
      const missed = sent.slice(at + 1).filter((one) => one.streamId === streamId);
      // A stream begins with an empty message that says nothing.
      for (const { id, message } of missed) if ("jsonrpc" in message) await send(id, message);
      return streamId;
    },
  };
}
