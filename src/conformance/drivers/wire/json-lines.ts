import { createInterface } from "node:readline";
import { type Fields, isFields } from "../driver.ts";
import { type Child, endedEarly, type Start, startChild } from "./child.ts";
import { withinTime } from "./time-limit.ts";

/** A JSON-RPC peer behind a process, an object a line. */
export interface Peer {
  /** Resolves with the frame that answers. */
  request(method: string, params: unknown): Promise<Fields>;
  notify(method: string, params: unknown): void;
  close(): Promise<void>;
}

/** Starts a peer and greets it; `hear` is told every frame that answers no request. */
export async function openPeer(
  start: Start,
  { hear, hello }: { readonly hear: (frame: Fields) => void; readonly hello: object },
): Promise<Peer> {
  const child = await startChild(start);
  const waiting = new Map<number, ReturnType<typeof Promise.withResolvers<Fields>>>();
  let id = 0;
  createInterface({ input: child.spawned.stdout }).on("line", (line) => {
    const frame = parse(line);
    const answered = typeof frame.id === "number" && !("method" in frame) ? waiting.get(frame.id) : undefined;
    if (answered === undefined) hear(frame);
    else answered.resolve(frame);
  });
  void child.ended.then((code) => {
    for (const { reject } of waiting.values()) reject(endedEarly(child, code));
  });
  const peer: Peer = {
    request: async (method, params) => {
      id += 1;
      const own = id;
      const answer = Promise.withResolvers<Fields>();
      waiting.set(own, answer);
      write(child, { jsonrpc: "2.0", id: own, method, params });
      try {
        return await answer.promise;
      } finally {
        waiting.delete(own);
      }
    },
    notify: (method, params) => write(child, { jsonrpc: "2.0", method, params }),
    close: () => child.stop(),
  };
  try {
    await withinTime(peer.request("initialize", hello), start.command);
    return peer;
  } catch (thrown) {
    await peer.close();
    throw thrown;
  }
}

function write(child: Child, frame: object): void {
  child.spawned.stdin.write(`${JSON.stringify(frame)}\n`);
}

/** A line that is no JSON object is a frame that nothing waits for. */
function parse(line: string): Fields {
  try {
    const frame: unknown = JSON.parse(line);
    return isFields(frame) ? frame : { line };
  } catch {
    return { line };
  }
}
