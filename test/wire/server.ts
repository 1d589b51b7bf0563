import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Json, Refusal, Scenario, WireFormat } from "./scenario.ts";

/** How the server treats one request. */
export type Reply =
  | { readonly kind: "answer"; readonly scenario: Scenario }
  | { readonly kind: "refuse"; readonly refusal: Refusal; readonly headers?: Readonly<Record<string, string>> }
  /** Refuses the request with this body. */
  | { readonly kind: "reject"; readonly status: number; readonly body: unknown }
  /** A web page, as the front door of some other service shows. */
  | { readonly kind: "page" }
  /** Refuses in plain text that never ends. */
  | { readonly kind: "flood" }
  /** Sends part of the answer, then breaks off in the given way. */
  | {
      readonly kind: "break";
      readonly scenario: Scenario;
      readonly frames: number;
      readonly by: "reset" | "stall" | "truncation" | "garbage" | "error";
    };

interface RecordedRequest {
  readonly path: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: Json;
}

export interface WireServer {
  readonly url: string;
  readonly requests: readonly RecordedRequest[];
  /** Connections made so far. */
  readonly connections: number;
  /** Adds a reply; requests are answered in this order. */
  reply(...replies: readonly Reply[]): void;
  /** Takes back the replies that no request has had. */
  takeBack(): void;
  /** Resolves when a request's connection was closed by the client before its answer was over. */
  readonly hungUp: Promise<void>;
  close(): Promise<void>;
}

/** A loopback server that speaks a provider's wire format. */
export async function openWireServer(format: WireFormat): Promise<WireServer> {
  const requests: RecordedRequest[] = [];
  const replies: Reply[] = [];
  const hungUp = Promise.withResolvers<void>();
  let connections = 0;
  const server = createServer(async (request, response) => {
    response.on("close", () => {
      if (!response.writableFinished) hungUp.resolve();
    });
    const body = await readBody(request);
    requests.push({ path: request.url ?? "", headers: request.headers, body });
    const reply = replies.shift();
    if (reply === undefined) response.writeHead(500).end("no reply was prepared");
    else await send(format, reply, response);
  });
  server.on("connection", () => {
    connections += 1;
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo; // listening on a port, so it has one
  return {
    url: `http://127.0.0.1:${port}`,
    requests,
    get connections() {
      return connections;
    },
    reply: (...more) => void replies.push(...more),
    takeBack: () => void replies.splice(0),
    hungUp: hungUp.promise,
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

async function readBody(request: IncomingMessage): Promise<Json> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer); // an http request streams buffers
  return JSON.parse(Buffer.concat(chunks).toString("utf8")) as Json; // our own client wrote it
}

async function send(format: WireFormat, reply: Reply, response: ServerResponse): Promise<void> {
  if (reply.kind === "page") {
    response.writeHead(200, { "content-type": "text/html" }).end("<!doctype html><title>Hello</title>");
    return;
  }
  if (reply.kind === "flood") {
    response.writeHead(500, { "content-type": "text/plain" });
    while (!response.destroyed) await write(response, "boom ".repeat(1_000));
    return;
  }
  if (reply.kind === "reject") {
    response.writeHead(reply.status, { "content-type": "application/json" }).end(JSON.stringify(reply.body));
    return;
  }
  if (reply.kind === "refuse") {
    const { status, body } = format.refusals[reply.refusal];
    response.writeHead(status, { "content-type": "application/json", ...reply.headers }).end(JSON.stringify(body));
    return;
  }
  const frames = format.render(reply.scenario);
  response.writeHead(200, { "content-type": format.contentType });
  response.flushHeaders();
  const count = reply.kind === "answer" ? frames.length : reply.frames;
  for (const frame of frames.slice(0, count)) await write(response, frame);
  if (reply.kind === "answer") response.end();
  else breakOff(format, { by: reply.by, next: frames[count] ?? "" }, response);
}

function write(response: ServerResponse, text: string): Promise<void> {
  return new Promise((resolve) => response.write(text, () => resolve()));
}

function breakOff(
  format: WireFormat,
  { by, next }: { by: Extract<Reply, { kind: "break" }>["by"]; next: string },
  response: ServerResponse,
): void {
  switch (by) {
    case "reset":
      response.socket?.resetAndDestroy();
      return;
    case "stall":
      return;
    case "truncation":
      response.end(next.slice(0, Math.floor(next.length / 2)));
      return;
    case "garbage":
      response.end(format.brokenFrame);
      return;
    case "error":
      response.end(format.errorFrame.text);
      return;
  }
}
