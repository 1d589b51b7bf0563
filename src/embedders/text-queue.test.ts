import { describe, expect, it } from "vitest";
import { TextQueue, type TextThread } from "./text-queue.ts";

const never = new AbortController().signal;

/** A thread that writes down what it is told. */
function fakeThread(): TextThread & { readonly heard: string[] } {
  const heard: string[] = [];
  return {
    heard,
    postMessage: (text) => heard.push(text),
    ref: () => heard.push("ref"),
    unref: () => heard.push("unref"),
  };
}

describe("the queue of texts", () => {
  it("[D5] sends one text at a time, questions first, and lets an idle thread go", async () => {
    const [queue, thread] = [new TextQueue(), fakeThread()];
    const vector = new Float32Array([1]);
    const all = [
      queue.add("passage 1", "passage", never),
      queue.add("passage 2", "passage", never),
      queue.add("question", "query", never),
    ];
    queue.next(thread);
    queue.next(thread);
    expect(thread.heard).toEqual(["ref", "question"]);
    for (const _ of all) {
      queue.settle({ kind: "vector", vector });
      queue.next(thread);
    }
    expect(thread.heard).toEqual(["ref", "question", "ref", "passage 1", "ref", "passage 2", "unref"]);
    expect(await Promise.all(all)).toEqual([vector, vector, vector]);
  });

  it("[D5] forgets a text whose call was cancelled", async () => {
    const [queue, thread, stop] = [new TextQueue(), fakeThread(), new AbortController()];
    const stopped = queue.add("unwanted", "passage", stop.signal);
    stop.abort();
    queue.next(thread);
    await expect(stopped).rejects.toMatchObject({ code: "REQUEST_CANCELLED" });
    expect(thread.heard).toEqual(["unref"]);
  });

  it("[D5] drops the answer to a text that was cancelled on its way", async () => {
    const [queue, thread, stop] = [new TextQueue(), fakeThread(), new AbortController()];
    const stopped = queue.add("unwanted", "passage", stop.signal);
    const wanted = queue.add("wanted", "passage", never);
    queue.next(thread);
    stop.abort();
    await expect(stopped).rejects.toMatchObject({ code: "REQUEST_CANCELLED" });
    queue.settle({ kind: "vector", vector: new Float32Array([1]) });
    queue.next(thread);
    queue.settle({ kind: "vector", vector: new Float32Array([2]) });
    expect(await wanted).toEqual(new Float32Array([2]));
  });

  it("[D5] fails everything when the thread ends, and one text when it cannot be embedded", async () => {
    const [queue, thread] = [new TextQueue(), fakeThread()];
    const outcomes = Promise.allSettled([queue.add("1", "query", never), queue.add("2", "query", never)]);
    queue.next(thread);
    queue.settle({ kind: "failure", message: "odd" });
    queue.next(thread);
    queue.fail(new Error("ended"));
    expect((await outcomes).map((outcome) => outcome.status === "rejected" && outcome.reason.message)).toEqual([
      "odd",
      "ended",
    ]);
  });
});
