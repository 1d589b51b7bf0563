import { describe, expect, it } from "vitest";
import { type TextModel, TextQueue } from "./local.ts";

const never = new AbortController().signal;

/** A model that writes down what it is told. */
function fakeModel(): TextModel & { readonly received: string[] } {
  const received: string[] = [];
  return {
    received,
    send: (text) => received.push(text),
    ref: () => received.push("ref"),
    unref: () => received.push("unref"),
  };
}

describe("the queue of texts", () => {
  it("[D5] sends one text at a time, questions first, and lets an idle model go", async () => {
    const [queue, model] = [new TextQueue(), fakeModel()];
    const vector = new Float32Array([1]);
    const all = [
      queue.add("passage 1", "passage", never),
      queue.add("passage 2", "passage", never),
      queue.add("question", "query", never),
    ];
    queue.next(model);
    queue.next(model);
    expect(model.received).toEqual(["ref", "question"]);
    for (const _ of all) {
      queue.settle({ kind: "vector", vector });
      queue.next(model);
    }
    expect(model.received).toEqual(["ref", "question", "ref", "passage 1", "ref", "passage 2", "unref"]);
    expect(await Promise.all(all)).toEqual([vector, vector, vector]);
  });

  it("[D5] forgets a text whose call was cancelled", async () => {
    const [queue, model, stop] = [new TextQueue(), fakeModel(), new AbortController()];
    const stopped = queue.add("unwanted", "passage", stop.signal);
    stop.abort();
    queue.next(model);
    await expect(stopped).rejects.toMatchObject({ code: "REQUEST_CANCELLED" });
    expect(model.received).toEqual(["unref"]);
  });

  it("[D5] drops the answer to a text that was cancelled on its way", async () => {
    const [queue, model, stop] = [new TextQueue(), fakeModel(), new AbortController()];
    const stopped = queue.add("unwanted", "passage", stop.signal);
    const wanted = queue.add("wanted", "passage", never);
    queue.next(model);
    stop.abort();
    await expect(stopped).rejects.toMatchObject({ code: "REQUEST_CANCELLED" });
    queue.settle({ kind: "vector", vector: new Float32Array([1]) });
    queue.next(model);
    queue.settle({ kind: "vector", vector: new Float32Array([2]) });
    expect(await wanted).toEqual(new Float32Array([2]));
  });

  it("[D5] sends a text again that a process ended over, once, and not one that nobody wants any more", async () => {
    const [queue, model, stop] = [new TextQueue(), fakeModel(), new AbortController()];
    const fatal = queue.add("fatal", "query", never);
    const reported = expect(fatal).rejects.toThrow("ended twice");
    queue.next(model);
    expect(queue.lose(new Error("ended"))).toBe(true);
    queue.next(model);
    expect(queue.lose(new Error("ended twice"))).toBe(false);
    await reported;
    const unwanted = queue.add("unwanted", "query", stop.signal);
    queue.next(model);
    stop.abort();
    await expect(unwanted).rejects.toMatchObject({ code: "REQUEST_CANCELLED" });
    expect(queue.lose(new Error("ended"))).toBe(false);
    expect(model.received.filter((word) => word !== "ref")).toEqual(["fatal", "fatal", "unwanted"]);
  });

  it("[D5] fails everything when the model ends, and one text when it cannot be embedded", async () => {
    const [queue, model] = [new TextQueue(), fakeModel()];
    const outcomes = Promise.allSettled([queue.add("1", "query", never), queue.add("2", "query", never)]);
    queue.next(model);
    queue.settle({ kind: "failure", message: "odd" });
    queue.next(model);
    queue.fail(new Error("ended"));
    expect((await outcomes).map((outcome) => outcome.status === "rejected" && outcome.reason.message)).toEqual([
      "odd",
      "ended",
    ]);
  });
});
