import { Duplex } from "node:stream";
import { expect, it } from "vitest";
import { answerBrokenRequest } from "./http-answer.ts";

function open() {
  const written: string[] = [];
  const socket = new Duplex({
    read: () => {},
    write: (chunk, _, done) => {
      written.push(String(chunk));
      done();
    },
  });
  return { socket, written };
}

const failure = (code: string): NodeJS.ErrnoException => Object.assign(new Error(code), { code });
const closed = (socket: Duplex) => new Promise((resolve) => socket.once("close", resolve));

it("[H1] what never became a request is answered and let go", async () => {
  const { socket, written } = open();
  answerBrokenRequest(failure("HPE_INVALID_METHOD"), socket);
  await closed(socket);
  expect(written.join("")).toMatch(/^HTTP\/1\.1 400 Bad Request\r\n[\s\S]*this is not an HTTP\/1\.1 request/);
});

it("[H1] a client that is gone, or can read nothing more, is told nothing", async () => {
  const gone = open();
  answerBrokenRequest(failure("ECONNRESET"), gone.socket);
  expect([gone.socket.destroyed, gone.written]).toEqual([true, []]);

  const deaf = open();
  const faults: unknown[] = [];
  deaf.socket.on("error", (thrown) => faults.push(thrown)).end();
  answerBrokenRequest(failure("HPE_INVALID_METHOD"), deaf.socket);
  await closed(deaf.socket);
  expect([deaf.written, faults]).toEqual([[], []]);
});
