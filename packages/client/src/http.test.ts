import { createServer, type RequestListener } from "node:http";
import { type AddressInfo, connect as connectSocket, createServer as createSocketServer, type Socket } from "node:net";
import { describe, expect, it, onTestFinished } from "vitest";
import { openServedRuntime } from "../../../test/clients/served-runtime.ts";
import { serveRuntime } from "../../../test/support/rest-server.ts";
import { connect } from "./index.ts";

const failure = (code: string, message: RegExp) =>
  expect.objectContaining({ name: "RuntimeError", code, message: expect.stringMatching(message) });

/** A server that answers as a test wants it. */
async function serve(answer: RequestListener): Promise<string> {
  const server = createServer(answer);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  // A listening server has an address of this shape.
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Stands between a client and its server, and cuts every connection when told to. */
async function between(url: string): Promise<{ readonly url: string; cut(): number }> {
  const sockets = new Set<Socket>();
  const server = createSocketServer((client) => {
    const upstream = connectSocket(Number(new URL(url).port), "127.0.0.1");
    for (const [one, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(one);
      one.on("error", () => {});
      one.on("close", () => other.destroy());
      one.pipe(other);
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const cut = (): number => {
    const { size } = sockets;
    for (const socket of sockets) socket.destroy();
    sockets.clear();
    return size;
  };
  onTestFinished(() => {
    cut();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, cut };
}

const CAPABILITIES = { contract_version: { major: 0, minor: 6, patch: 30 }, capabilities: [] };

describe("connecting over HTTP", () => {
  it("[G6] sends the token when there is one, and says what is wrong in one sentence", async () => {
    const { url } = await serveRuntime(openServedRuntime("kept"), { token: "s3cret" });
    const client = await connect({ url: `${url}/`, token: "s3cret" });
    expect((await client.createSession("Hello")).text).toBe("You said: Hello");
    await client.close();
    await expect(connect({ url })).rejects.toEqual(failure("UNAUTHORIZED", /Bearer TOKEN/));
    await expect(connect({ url, token: "a b" })).rejects.toEqual(failure("INVALID_PARAMS", /^token: /));
    await expect(connect({ url: "localhost:8080" })).rejects.toEqual(failure("INVALID_PARAMS", /^url: /));
    await expect(connect({ url: "http://me:pw@localhost" })).rejects.toEqual(failure("INVALID_PARAMS", /^url: /));
    await expect(connect({ url, tokn: "x" } as never)).rejects.toEqual(failure("INVALID_PARAMS", /mean token/));
    const seen: (string | undefined)[] = [];
    const open = await serve((request, response) => {
      seen.push(request.headers.authorization);
      response.setHeader("content-type", "application/json").end(JSON.stringify(CAPABILITIES));
    });
    await connect({ url: open });
    expect(seen).toEqual([undefined]);
  });

  it("[G6] tells of an address where nothing listens, or something else", async () => {
    const page = await serve((_, response) => response.setHeader("content-type", "text/html").end("<h1>Hi</h1>"));
    const proxy = await serve((_, response) => response.writeHead(502, { "content-type": "text/html" }).end("<hr>"));
    const newer = await serve((_, response) =>
      response.end(JSON.stringify({ ...CAPABILITIES, contract_version: { major: 0, minor: 7, patch: 0 } })),
    );
    const silent = await serve((request) => request.socket.destroy());
    await expect(connect({ url: page })).rejects.toEqual(failure("AGENT_ERROR", /answered 200 with text\/html/));
    await expect(connect({ url: proxy })).rejects.toEqual(failure("AGENT_ERROR", /answered 502 with text\/html/));
    await expect(connect({ url: newer })).rejects.toEqual(failure("CAPABILITY_UNAVAILABLE", /speaks 0\.7 .* 0\.6/));
    await expect(connect({ url: silent })).rejects.toEqual(failure("AGENT_ERROR", /the connection broke/));
    const { url: gone, server } = await serveRuntime(openServedRuntime("kept"));
    await server.close();
    await expect(connect({ url: gone })).rejects.toEqual(
      failure("AGENT_ERROR", /^cannot reach .*: nothing listens there$/),
    );
  });

  it("[G6] takes a connection up again where it broke, without a gap and without a repeat", async () => {
    const { url } = await serveRuntime(openServedRuntime("kept"));
    const way = await between(url);
    const client = await connect({ url: way.url });
    const direct = await connect({ url });
    onTestFinished(() => client.close());
    const { id } = await direct.createSession("One");
    const seqs: number[] = [];
    const truncated: string[] = [];
    let turns = 1;
    for await (const { seq, event } of client.subscribe(id, { after: 0 })) {
      if (seq > 0) seqs.push(seq);
      if (event.type === "stream_truncated") truncated.push(event.reason);
      if (event.type !== "run_completed") continue;
      if (turns === 4) break;
      turns += 1;
      if (turns % 2 === 0) expect(way.cut()).toBeGreaterThan(0);
      await direct.session(id).turn(`Turn ${turns}`);
    }
    const { events } = await direct.dispatch("listEvents", { scope: { type: "session", session_id: id } });
    expect(seqs).toEqual(events.map(({ cursor }) => cursor.sequence));
    expect(truncated).toEqual(["", ""].map(() => expect.stringContaining("made again")));
    await client.close();
    await direct.close();
  });

  it("[G6] of a turn whose connection breaks names the session, where it goes on", async () => {
    const { url } = await serveRuntime(openServedRuntime("kept"));
    const way = await between(url);
    const client = await connect({ url: way.url });
    const stream = client.createSessionStreaming("wait");
    const listen = async () => {
      for await (const event of stream) if (event.type === "text_delta") way.cut();
    };
    // Whoever only listens must not take half an answer for a whole one.
    const error = await listen().catch((thrown) => thrown);
    await expect(stream.result).rejects.toBe(error);
    expect(error).toEqual(failure("AGENT_ERROR", /^cannot reach /));
    const session = client.session(error.details.session_id);
    await expect(session.turn("Hello")).rejects.toEqual(failure("SESSION_BUSY", /./));
    await session.interrupt();
    await client.close();
  });

  it("[G6] an answer cut off in its middle, or of events that are none, is an error", async () => {
    const frames: string[] = [];
    const url = await serve((request, response) => {
      if (request.url === "/capabilities") response.end(JSON.stringify(CAPABILITIES));
      else response.writeHead(200, { "content-type": "text/event-stream" }).end(frames.shift());
    });
    const client = await connect({ url });
    frames.push("event: run_started\ndata: {}\n\n", "data: {nope\n\n", ": nothing\r\n\r\n");
    await expect(client.createSession("a")).rejects.toEqual(failure("AGENT_ERROR", /ended before the turn/));
    await expect(client.createSession("b")).rejects.toEqual(failure("AGENT_ERROR", /an event that is not JSON/));
    await expect(client.createSession("c")).rejects.toEqual(failure("AGENT_ERROR", /ended before the turn/));
    frames.push('event: result\r\ndata: {"session_id":"s",\r\ndata: "text":"ü"}\r\n\r\n');
    expect((await client.createSession("d")).text).toBe("ü");
  });
});
