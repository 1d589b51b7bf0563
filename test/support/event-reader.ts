import { get, type IncomingMessage } from "node:http";

/** One reader of a session's events over HTTP, which keeps what it needs to be believed and no more. */
export interface EventReader {
  /** The numbers of the durable events that came, in the order they came. */
  readonly seqs: readonly number[];
  /** From the moment each durable event was appended to its arrival here. */
  readonly delaysMs: readonly number[];
  /** Resolves when an event of this number has come; at once when there is none to wait for. */
  reached(seq: number | undefined): Promise<void>;
  /** Begins to take what comes, for one that was opened paused. */
  resume(): void;
  close(): void;
}

/** Resolves once the server has begun to answer; `after` is where in the log it begins. */
export async function openEventReader(
  url: string,
  sessionId: string,
  { after, isPaused = false }: { after?: number; isPaused?: boolean } = {},
): Promise<EventReader> {
  const headers = after === undefined ? {} : { "last-event-id": String(after) };
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    get(`${url}/sessions/${sessionId}/events`, { agent: false, headers }, resolve).on("error", reject);
  });
  if (response.statusCode !== 200) throw new Error(`a reader was answered ${response.statusCode}`);
  if (isPaused) response.pause();
  response.on("error", () => {}); // A server that ends is heard of by whoever waits.
  const seqs: number[] = [];
  const delaysMs: number[] = [];
  const waiting = new Map<number, () => void>();
  const take = (frame: string): void => {
    const seq = Number(/^id: (\d+)$/m.exec(frame)?.[1] ?? 0);
    if (seq === 0) return;
    seqs.push(seq);
    delaysMs.push(Date.now() - Number(/"timestamp_ms":(\d+)/.exec(frame)?.[1]));
    waiting.get(seq)?.();
  };
  let rest = "";
  response.setEncoding("utf8");
  if (!isPaused) listen();
  function listen(): void {
    response.on("data", (text: string) => {
      const frames = (rest + text).split("\n\n");
      rest = frames.pop() ?? "";
      for (const frame of frames) take(frame);
    });
  }
  return {
    seqs,
    delaysMs,
    reached: (seq) =>
      new Promise((resolve) => {
        if (seq === undefined || seqs.includes(seq)) resolve();
        else waiting.set(seq, resolve);
      }),
    resume: () => {
      if (response.listenerCount("data") === 0) listen();
      response.resume();
    },
    close: () => void response.destroy(),
  };
}
