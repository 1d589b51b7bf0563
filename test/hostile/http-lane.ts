import { connect, type Socket } from "node:net";

/** An answer as it came over the wire; a stream that has no end has the text that came with its head. */
export interface HttpAnswer {
  readonly status: number;
  readonly headers: ReadonlyMap<string, string>;
  readonly text: string;
  /** Where it ends in the bytes it was read from. */
  readonly end: number;
}

const BREAK = Buffer.from("\r\n\r\n");

/** Reads the first answer in some bytes; undefined while it is not whole. */
export function readAnswer(bytes: Buffer, method: string): HttpAnswer | undefined {
  const split = bytes.indexOf(BREAK);
  if (split < 0) return undefined;
  const [first = "", ...lines] = bytes.subarray(0, split).toString("latin1").split("\r\n");
  const status = Number(/^HTTP\/1\.1 (\d{3})(?: |$)/.exec(first)?.[1]);
  const headers = new Map(
    lines.map((line) => [line.slice(0, line.indexOf(":")).toLowerCase(), line.slice(line.indexOf(":") + 1).trim()]),
  );
  const start = split + BREAK.length;
  if (status >= 100 && status < 200) {
    const next = readAnswer(bytes.subarray(start), method);
    return next === undefined ? undefined : { ...next, end: start + next.end };
  }
  const isStanding = method === "GET" && headers.get("content-type")?.startsWith("text/event-stream") === true;
  if (method === "HEAD" || isStanding || [204, 304].includes(status)) return { status, headers, text: "", end: start };
  if (headers.get("transfer-encoding") === "chunked") {
    const body = readChunks(bytes, start);
    return body === undefined ? undefined : { status, headers, ...body };
  }
  const end = start + Number(headers.get("content-length") ?? 0);
  return bytes.length < end ? undefined : { status, headers, text: bytes.toString("utf8", start, end), end };
}

function readChunks(bytes: Buffer, start: number): Pick<HttpAnswer, "text" | "end"> | undefined {
  const parts: Buffer[] = [];
  for (let at = start; ; ) {
    const line = bytes.indexOf("\r\n", at);
    if (line < 0) return undefined;
    const size = Number.parseInt(bytes.toString("latin1", at, line), 16);
    const data = line + 2;
    if (bytes.length < data + size + 2) return undefined;
    if (size === 0) return { text: Buffer.concat(parts).toString("utf8"), end: data + 2 };
    parts.push(bytes.subarray(data, data + size));
    at = data + size + 2;
  }
}

/** One connection after the other, a request at a time. */
export interface Lane {
  /** Undefined when the connection closed without an answer. */
  ask(bytes: Uint8Array, method: string): Promise<HttpAnswer | undefined>;
  close(): void;
}

export function openLane(port: number): Lane {
  let socket: Socket | undefined;
  const ask = (bytes: Uint8Array, method: string): Promise<HttpAnswer | undefined> => {
    const isFresh = socket === undefined || socket.destroyed || !socket.writable;
    const own = isFresh ? connect({ port, host: "127.0.0.1", noDelay: true }) : (socket as Socket); // It is there then.
    socket = own;
    return new Promise((resolve) => {
      let held = Buffer.alloc(0);
      const done = (answer: HttpAnswer | undefined): void => {
        own.removeAllListeners();
        own.on("error", () => {});
        const isOver = answer === undefined || answer.headers.get("connection") === "close";
        const isStanding = answer?.headers.get("content-type")?.startsWith("text/event-stream") === true;
        if (isOver || isStanding || answer.end < held.length) own.destroy();
        resolve(answer);
      };
      own.on("data", (data) => {
        held = Buffer.concat([held, data]);
        const answer = readAnswer(held, method);
        if (answer !== undefined) done(answer);
      });
      own.on("error", () => {});
      own.on("close", () => done(readAnswer(held, method)));
      own.write(bytes);
    });
  };
  return { ask, close: () => void socket?.destroy() };
}

/** A connection that is sent bytes which may be no request at all. */
export interface Thrown {
  /** Everything that came back, once the connection has closed. */
  readonly closed: Promise<Buffer>;
  /** Says that nothing more is sent, unless an answer is there already and the connection closed. */
  end(): void;
  /** Breaks the connection off in the middle of whatever is going on. */
  reset(): void;
}

export function throwBytes(port: number, bytes: Uint8Array): Thrown {
  const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
  const parts: Buffer[] = [];
  socket.on("error", () => {});
  socket.on("data", (data) => parts.push(data));
  socket.on("end", () => socket.end());
  socket.write(bytes);
  const closed = new Promise<Buffer>((resolve) => socket.on("close", () => resolve(Buffer.concat(parts))));
  // A connection that was ended already cannot be reset any more, and would then never be told of as closed.
  const reset = (): void => void (socket.writableEnded ? socket.destroy() : socket.resetAndDestroy());
  return { closed, end: () => void socket.end(), reset };
}
