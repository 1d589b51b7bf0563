import { Buffer } from "node:buffer";
import { invalid, messageOf, RuntimeError } from "@rkat/core/contract/error";
import { isRecord } from "@rkat/core/contract/json";
import type { HttpRequest } from "./exchange.ts";
import { excessOf } from "./incoming.ts";

/** A body that was read: its bytes as a text, and what they say; nothing for an empty one. */
export interface Body {
  readonly text: string;
  readonly value?: unknown;
}

/** Reads a request's body; throws PAYLOAD_TOO_LARGE before more than the limit is held, and names what is no JSON. */
export type ReadBody = (request: HttpRequest) => Promise<Body>;

export function fieldsOf({ value = {} }: Body): Readonly<Record<string, unknown>> {
  if (!isRecord(value)) throw invalid("the body: expected a JSON object");
  return value;
}

const BODY_BYTES_MAX = 16 * 1_024 * 1_024;
/** What the bodies of all requests together may hold while they are read. */
const BODIES_BYTES_MAX = 256 * 1_024 * 1_024;

export function createBodyReader(): ReadBody {
  let heldBytes = 0;
  return async (request) => {
    requireFitting(request);
    let ownBytes = 0;
    const take = (bytes: number): void => {
      ownBytes += bytes;
      heldBytes += bytes;
      if (ownBytes > BODY_BYTES_MAX) throw tooLarge();
      if (heldBytes > BODIES_BYTES_MAX) throw new RuntimeError("PAYLOAD_TOO_LARGE", FULL);
    };
    try {
      return parseBody(await collect(request, take), request.headers);
    } finally {
      heldBytes -= ownBytes;
    }
  };
}

/** Throws PAYLOAD_TOO_LARGE for a body that the request says will be. */
export function requireFitting({ headers }: HttpRequest): void {
  if (Number(headers["content-length"] ?? 0) > BODY_BYTES_MAX) throw tooLarge();
}

const FULL = `the bodies being read hold ${BODIES_BYTES_MAX} bytes together, the limit; try again in a moment`;

function tooLarge(): RuntimeError {
  return new RuntimeError("PAYLOAD_TOO_LARGE", `the body is larger than ${BODY_BYTES_MAX} bytes, the limit`);
}

/** Not with `for await`: leaving it would destroy the connection before the refusal is sent. */
function collect(request: HttpRequest, take: (bytes: number) => void): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    const stop = (error: unknown): void => {
      request.off("data", onData);
      request.pause();
      reject(error);
    };
    const onData = (chunk: Buffer): void => {
      try {
        take(chunk.length);
        chunks.push(chunk);
      } catch (thrown) {
        stop(thrown);
      }
    };
    request.on("data", onData);
    request.on("end", () => resolve(Buffer.concat(chunks)));
    const onGone = (): void =>
      stop(new RuntimeError("REQUEST_CANCELLED", "the connection broke before the body ended"));
    request.on("error", (error) => (error instanceof RuntimeError ? stop(error) : onGone()));
    request.on("close", onGone);
  });
}

function parseBody(bytes: Buffer, headers: HttpRequest["headers"]): Body {
  if (bytes.length === 0) return { text: "" };
  const { "content-type": type = "", "content-encoding": encoding = "identity" } = headers;
  // A page elsewhere can send a form or a plain text without asking; it cannot send JSON.
  if (!/^application\/(?:[\w.-]+\+)?json\s*(?:;|$)/i.test(type.trim())) {
    throw invalid("send the body as JSON, with the header Content-Type: application/json");
  }
  if (encoding !== "identity") throw invalid(`Content-Encoding ${encoding} is not read; send the body as it is`);
  const text = decode(bytes);
  const excess = excessOf(text);
  if (excess !== undefined) throw invalid(`the body ${excess}`);
  return { text, value: parseJson(text) };
}

function decode(bytes: Buffer): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (cause) {
    throw invalid("the body is not JSON: its bytes are not UTF-8", cause);
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw invalid(`the body is not JSON: ${messageOf(cause)}`, cause);
  }
}
