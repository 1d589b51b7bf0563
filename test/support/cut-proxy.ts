import { once } from "node:events";
import { createConnection, createServer, type Socket } from "node:net";

/** A way to a database that can be cut, or go silent, or lose its answer to one question. */
export interface CutProxy {
  /** Where it listens; `urlOf` tells the same of the URL of a database behind it. */
  readonly port: number;
  urlOf(url: string): string;
  /** Questions that clients have asked: what they sent until an answer was due. */
  readonly asked: number;
  /** Lets everything through again, also what was kept back by `stall`. */
  pass(): void;
  /** Ends every connection and refuses new ones. */
  cut(): void;
  /** Keeps connections, and lets nothing through in either direction. */
  stall(): void;
  /**
   * Ends the connection of the `nth` question from now: before the database hears of it, before its answer is told, or
   * when a part of that was told.
   */
  cutAt(nth: number, when: Moment): void;
  close(): Promise<void>;
}

type Moment = "before" | "after" | "amid";

interface Pair {
  readonly client: Socket;
  readonly server: Socket;
}

export async function openCutProxy(port: number): Promise<CutProxy> {
  const pairs = new Set<Pair>();
  let state: "passes" | "cut" | "stalled" = "passes";
  let asked = 0;
  let fault: { readonly at: number; readonly when: Moment } | undefined;

  const end = (pair: Pair): void => {
    pairs.delete(pair);
    pair.client.destroy();
    pair.server.destroy();
  };
  const proxy = createServer((client) => {
    if (state === "cut") return void client.destroy();
    const pair = { client, server: createConnection(port, "127.0.0.1") };
    pairs.add(pair);
    for (const socket of [pair.client, pair.server]) {
      socket.setNoDelay(true);
      socket.on("error", () => end(pair));
      socket.on("close", () => end(pair));
      if (state === "stalled") socket.pause();
    }
    let lost: Moment | undefined;
    const countQuestions = createCounter();
    client.on("data", (chunk) => {
      const before = asked;
      asked += countQuestions(chunk);
      if (fault !== undefined && before < fault.at && asked >= fault.at) {
        if (fault.when === "before") return end(pair);
        lost = fault.when;
      }
      pair.server.write(chunk);
    });
    pair.server.on("data", (chunk) => {
      if (lost === "after") return end(pair);
      client.write(chunk, () => {
        if (lost === "amid") end(pair);
      });
    });
  });
  proxy.listen(0, "127.0.0.1");
  await once(proxy, "listening");
  const address = proxy.address();
  if (address === null || typeof address === "string") throw new Error("the system gave no port");
  const own = address.port;
  const both = (act: (socket: Socket) => void): void => {
    for (const { client, server } of pairs) {
      act(client);
      act(server);
    }
  };
  const cut = (): void => {
    state = "cut";
    for (const pair of pairs) end(pair);
  };
  return {
    port: own,
    urlOf: (url) => {
      const through = new URL(url);
      through.port = String(own);
      return through.href;
    },
    get asked() {
      return asked;
    },
    pass: () => {
      state = "passes";
      fault = undefined;
      both((socket) => socket.resume());
    },
    cut,
    stall: () => {
      state = "stalled";
      both((socket) => socket.pause());
    },
    cutAt: (nth, when) => {
      fault = { at: asked + nth, when };
    },
    close: async () => {
      cut();
      proxy.close();
      await once(proxy, "close");
    },
  };
}

/** Messages after which a client waits for the database: a simple query, and the two that ask it to answer now. */
const WAITS = new Set(["Q", "S", "H"].map((type) => type.charCodeAt(0)));
const LENGTH_BYTES = 4;

/** Reads one client's messages and tells of each piece how many questions end in it. */
function createCounter(): (chunk: Buffer) => number {
  let rest: Buffer = Buffer.alloc(0);
  let hasBegun = false; // The first message has no type.
  return (chunk) => {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    let questions = 0;
    for (;;) {
      const typeBytes = hasBegun ? 1 : 0;
      if (rest.length < typeBytes + LENGTH_BYTES) return questions;
      const whole = typeBytes + rest.readUInt32BE(typeBytes);
      if (rest.length < whole) return questions;
      if (hasBegun && WAITS.has(rest[0] ?? 0)) questions += 1;
      hasBegun = true;
      rest = rest.subarray(whole);
    }
  };
}
