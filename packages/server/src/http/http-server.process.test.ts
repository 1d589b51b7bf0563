import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { connect } from "node:net";
import { createSystemClock } from "@rkat/core/runtime/system-clock";
import { describe, expect, it, onTestFinished } from "vitest";
import { createBodyReader, fieldsOf } from "./body.ts";
import { errorAnswer, jsonAnswer } from "./http-answer.ts";
import { openHttpServer, type Target } from "./http-server.ts";

/** A server that echoes what is posted to `/echo`, or does what is given, for whoever has the token. */
async function serve(turn?: Target) {
  const readBody = createBodyReader();
  const server = await openHttpServer({
    host: "127.0.0.1",
    port: 0,
    allowedHosts: [],
    token: "s3cret",
    clock: createSystemClock(),
    log: () => {},
    find: (request) => {
      if (turn !== undefined) return turn;
      if (request.url !== "/echo") return { refusal: jsonAnswer({ error: "nothing there" }, 404) };
      return { answer: async () => jsonAnswer(fieldsOf(await readBody(request))) };
    },
    answerFailure: errorAnswer,
  });
  onTestFinished(() => server.close());
  return server.address.port;
}

/** Everything that comes back for these bytes; `more` is sent once it is told to go on. */
function exchange(port: number, lines: readonly string[], more = ""): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, "127.0.0.1");
    let text = "";
    socket.on("data", (data) => {
      const before = text;
      text += data;
      if (text.includes("100 Continue") && !before.includes("100 Continue")) socket.write(more);
    });
    socket.on("end", () => resolve(text));
    socket.on("error", reject);
    socket.write(`${lines.join("\r\n")}\r\n\r\n`);
  });
}

/** The status and the JSON of an answer. */
function read(text: string): readonly [string, unknown] {
  const [head = "", body = ""] = text.split("\r\n\r\n");
  return [head.split("\r\n")[0] ?? "", JSON.parse(body)];
}

const HOST = "Host: 127.0.0.1";
const TOKEN = "Authorization: Bearer s3cret";
const CLOSE = "Connection: close";

describe("a server over HTTP", () => {
  it("[H1] says what is wrong with a request that has no Host", async () => {
    const port = await serve();
    expect(read(await exchange(port, ["GET /echo HTTP/1.1", TOKEN, CLOSE]))).toEqual([
      "HTTP/1.1 400 Bad Request",
      expect.objectContaining({
        code: "INVALID_PARAMS",
        error: "the request has no Host header; HTTP/1.1 asks for one",
      }),
    ]);
    // HTTP/1.0 does not ask for one; it has no name of ours all the same.
    expect(read(await exchange(port, ["GET /echo HTTP/1.0", TOKEN]))).toEqual([
      "HTTP/1.1 403 Forbidden",
      expect.objectContaining({ code: "FORBIDDEN_ORIGIN" }),
    ]);
  });

  it("[G3] tells only those it lets in to go on with a body, and not with one that is too large", async () => {
    const port = await serve();
    const ask = (path: string, headers: readonly string[], length = 9) => {
      const lines = [`POST ${path} HTTP/1.1`, "Content-Type: application/json", "Expect: 100-continue", CLOSE];
      return exchange(port, [...lines, `Content-Length: ${length}`, ...headers], '{"a": 12}');
    };
    expect(await ask("/echo", [HOST])).toMatch(/^HTTP\/1\.1 401 /);
    expect(await ask("/echo", ["Host: evil.example", TOKEN])).toMatch(/^HTTP\/1\.1 403 /);
    expect(await ask("/echo", [HOST, TOKEN, "Origin: https://evil.example"])).toMatch(/^HTTP\/1\.1 403 /);
    expect(await ask("/nothing", [HOST, TOKEN])).toMatch(/^HTTP\/1\.1 404 /);
    expect(await ask("/echo", [HOST, TOKEN], 2 ** 25)).toMatch(/^HTTP\/1\.1 413 /);
    const served = await ask("/echo", [HOST, TOKEN]);
    expect(served).toMatch(/^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 /);
    expect(served).toContain('{"a":12}');
  });

  /** A server of turns that notes how many connections were accepted before each began. */
  async function serveTurns(accept: () => void = () => {}) {
    let accepted = 0;
    const note = () => {
      accepted += 1;
      accept();
    };
    subscribe("net.server.socket", note);
    onTestFinished(() => void unsubscribe("net.server.socket", note));
    const begun: number[] = [];
    const answer = async () => {
      begun.push(accepted);
      return jsonAnswer({});
    };
    const port = await serve({ beginsTurn: true, answer });
    return { port, begun };
  }
  const POST = ["POST /turn HTTP/1.1", HOST, TOKEN, CLOSE, "Content-Length: 0"];

  it("[G3] begins turns when every client that waits is accepted, so that none has many before another has one", async () => {
    const { port, begun } = await serveTurns();
    await Promise.all(Array.from({ length: 100 }, () => exchange(port, POST)));
    expect(begun).toEqual(Array(100).fill(100));
  });

  it("[G3] begins nothing for a client that has left before, and serves the others", async () => {
    const { port, begun } = await serveTurns();
    for (let count = 0; count < 50; count += 1) {
      const socket = connect(port, "127.0.0.1", () => socket.resetAndDestroy());
      socket.write(`${POST.join("\r\n")}\r\n\r\n`);
    }
    const answers = await Promise.all(Array.from({ length: 50 }, () => exchange(port, POST)));
    expect(answers.map((text) => read(text)[0])).toEqual(Array(50).fill("HTTP/1.1 200 OK"));
    expect(begun).toHaveLength(50);
  });

  it("[G3] [H5] begins a turn though connections never stop coming", async () => {
    let isFlooding = true;
    const flood = () => {
      if (isFlooding) connect(port, "127.0.0.1").on("error", () => {});
    };
    const { port, begun } = await serveTurns(flood);
    await exchange(port, POST);
    isFlooding = false;
    expect(begun).toEqual([expect.any(Number)]);
    expect(begun[0]).toBeLessThan(600);
  });
});
