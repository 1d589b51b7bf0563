import type { IncomingHttpHeaders } from "node:http";
import { Readable, Writable } from "node:stream";
import type { ReadableStream as WebStream } from "node:stream/web";
import { RuntimeError } from "@rkat/core/contract/error";

/** A request as every surface reads it: one of Node's, or one that was made of a `Request`. */
export interface HttpRequest extends Readable {
  readonly method?: string | undefined;
  readonly url?: string | undefined;
  readonly headers: IncomingHttpHeaders;
  /** Names and values in turn. */
  readonly rawHeaders: readonly string[];
  readonly httpVersion: string;
  /** Whether its body was read to the end. */
  readonly complete: boolean;
  readonly socket: { readonly bytesWritten: number };
  /** What it was made of, if it is not Node's. */
  readonly source?: Request;
}

/** A response as every surface writes it. */
export interface HttpResponse extends Writable {
  readonly statusCode: number;
  readonly headersSent: boolean;
  setHeader(name: string, value: string): unknown;
  getHeader(name: string): unknown;
  writeHead(status: number, headers: Readonly<Record<string, string | number>>): unknown;
  flushHeaders(): void;
  setTimeout(ms: number, onTimeout: () => void): unknown;
}

/** What decides who asks, and for what. */
export type Asked = Pick<HttpRequest, "method" | "url" | "headers" | "rawHeaders" | "source">;

/** The request as the Fetch API has it; one of Node's is without its body. */
export function toRequest({ source, method = "GET", url = "/", headers }: Omit<Asked, "rawHeaders">): Request {
  if (source !== undefined) return source;
  const sent = new Headers();
  for (const [name, value] of Object.entries(headers)) if (value !== undefined) sent.set(name, String(value));
  return new Request(`http://${headers.host}${url.replace(/^https?:\/\/[^/?#]*/i, "")}`, { method, headers: sent });
}

/** Sends what the Fetch API has as a response, no faster than the client takes it. */
export async function sendResponse(response: HttpResponse, answer: Response): Promise<void> {
  const { connection: _, ...headers } = Object.fromEntries(answer.headers);
  response.writeHead(answer.status, headers);
  response.flushHeaders();
  if (answer.body === null) {
    response.end();
    return;
  }
  // The global type is the browser's, and the streams are the same.
  const body = Readable.fromWeb(answer.body as WebStream);
  response.on("close", () => body.destroy());
  body.on("error", () => response.destroy());
  body.pipe(response);
}

export const TOOK_TOO_LONG = "the request took too long to arrive";

export interface FetchExchange {
  readonly request: HttpRequest;
  readonly response: HttpResponse;
  /** What the response is once its headers are known; its body follows as it is written. */
  readonly answer: Promise<Response>;
}

/** An exchange that is no connection of ours: a `Request` to read, and a `Response` that is made of what is written. */
export function createFetchExchange(
  source: Request,
  path: string,
  { bodyMsMax }: { bodyMsMax: number },
): FetchExchange {
  const response = new FetchResponse(source.method === "HEAD");
  const url = new URL(source.url);
  const headers = { host: url.host, ...Object.fromEntries(source.headers) };
  const body = source.body === null ? Readable.from([]) : Readable.fromWeb(source.body as WebStream);
  const request = Object.assign(body, {
    method: source.method,
    url: `${path}${url.search}`,
    headers,
    rawHeaders: Object.entries(headers).flat(),
    httpVersion: "1.1",
    complete: source.body === null,
    socket: response.counted,
    source,
  });
  body.once("end", () => {
    request.complete = true;
  });
  const late = setTimeout(() => body.destroy(new RuntimeError("INVALID_PARAMS", TOOK_TOO_LONG)), bodyMsMax);
  body.once("close", () => clearTimeout(late));
  const onAbort = (): void => response.leave();
  source.signal.addEventListener("abort", onAbort, { once: true });
  if (source.signal.aborted) onAbort();
  response.once("close", () => {
    source.signal.removeEventListener("abort", onAbort);
    body.destroy();
  });
  return { request, response, answer: response.answer };
}

const LEFT = 499;
const isEmpty = (status: number): boolean => status === 204 || status === 304;

class FetchResponse extends Writable implements HttpResponse {
  statusCode = 200;
  headersSent = false;
  readonly counted = { bytesWritten: 0 };
  readonly answer: Promise<Response>;
  readonly #settle: (answer: Response) => void;
  readonly #headers = new Headers();
  readonly #isHead: boolean;
  #takeMore: () => void = () => {};
  #body: ReadableStreamDefaultController<Uint8Array> | undefined;

  constructor(isHead: boolean) {
    super();
    this.#isHead = isHead;
    const { promise, resolve } = Promise.withResolvers<Response>();
    this.answer = promise;
    this.#settle = resolve;
  }

  setHeader(name: string, value: string): void {
    this.#headers.set(name, value);
  }

  getHeader(name: string): string | undefined {
    return this.#headers.get(name) ?? undefined;
  }

  writeHead(status: number, headers: Readonly<Record<string, string | number>>): void {
    this.statusCode = status;
    for (const [name, value] of Object.entries(headers)) this.#headers.set(name, String(value));
  }

  flushHeaders(): void {
    if (this.headersSent) return;
    this.headersSent = true;
    const head = { status: this.statusCode, headers: this.#headers };
    const isBare = this.#isHead || isEmpty(this.statusCode);
    this.#settle(new Response(isBare ? null : this.#open(), head));
  }

  #open(): ReadableStream<Uint8Array> {
    return new ReadableStream<Uint8Array>({
      start: (controller) => {
        this.#body = controller;
      },
      pull: () => this.#takeMore(),
      cancel: () => {
        this.#body = undefined;
        this.destroy();
      },
    });
  }

  /** The host of this handler decides how long it waits for its client. */
  setTimeout(): void {}

  override _write(chunk: Uint8Array, _encoding: string, done: () => void): void {
    this.flushHeaders();
    this.counted.bytesWritten += chunk.length;
    this.#body?.enqueue(new Uint8Array(chunk));
    const hasRoom = this.#body === undefined || (this.#body.desiredSize ?? 0) > 0;
    this.#takeMore = () => {
      this.#takeMore = () => {};
      done();
    };
    if (hasRoom) this.#takeMore();
  }

  override _final(done: () => void): void {
    this.flushHeaders();
    this.#body?.close();
    done();
  }

  /** The client has left. Its response ends without a failure, which frameworks would print. */
  leave(): void {
    if (!this.destroyed && !this.writableEnded) this.#body?.close();
    this.#body = undefined;
    this.destroy();
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    if (!this.headersSent) this.#settle(new Response(null, { status: LEFT }));
    if (!this.writableFinished) this.#body?.error(new Error("the response was broken off"));
    done(error);
  }
}
