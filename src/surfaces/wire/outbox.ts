import type { Writable } from "node:stream";
import type { Frame } from "./frames.ts";

/** The one way out to the client: frames leave whole and in order. */
export interface Outbox {
  /** Resolves when the client has room for more. After the client has gone it resolves at once. It does not reject. */
  send(frame: Frame): Promise<void>;
}

/**
 * Whoever sends waits for a client that does not read, so nothing piles up here: what waits is one frame for each
 * request, stream and tool call, and their numbers are bounded. `onGone` is told when nobody can read any more.
 */
export function createOutbox(output: Writable, onGone: () => void): Outbox {
  let isGone = false;
  let onRoom: (() => void) | undefined;
  let sent: Promise<void> = Promise.resolve();

  const room = (): void => onRoom?.();
  const gone = (): void => {
    if (isGone) return;
    isGone = true;
    room();
    onGone();
  };
  output.on("drain", room);
  output.on("error", gone);
  output.on("close", gone);

  const write = async (frame: Frame): Promise<void> => {
    if (isGone || output.write(frame)) return;
    await new Promise<void>((resolve) => {
      onRoom = resolve;
    });
    onRoom = undefined;
  };
  return {
    send: (frame) => {
      sent = sent.then(() => write(frame));
      return sent;
    },
  };
}
