import { describe, expect, it } from "vitest";
import { scriptedRuntime } from "../../../../test/support/runtime.ts";
import { createInMemoryStore } from "../create-runtime.ts";
import { Remember } from "./agent.ts";
import { invalidInput, parseDuration } from "./input.ts";

describe("the error of a wrong input", () => {
  it("[H1] names every field, also those that do not exist, and says what to do", () => {
    const { error } = Remember.safeParse({ agent: "../x", content: "Hi.", foo: 1, bar: 2 });
    const { message, details } = error === undefined ? { message: "", details: undefined } : invalidInput(error);
    expect(message).toBe(
      'agent: write a name of letters, digits, "_" and "-", beginning with a letter or digit, of at most 64 characters; foo: there is no such field; leave it out; bar: there is no such field; leave it out',
    );
    expect(details).toMatchObject({ problems: [{ field: "agent" }, { field: "foo" }, { field: "bar" }] });
  });
});

describe("a name under which nothing can be kept", () => {
  it("[H1] is refused wherever it stands, and by what it would have been", async () => {
    const { runtime } = scriptedRuntime([], { store: createInMemoryStore() });
    const fields: unknown = JSON.parse('{"labels": {"__proto__": "x"}, "prompt": "Hi."}');
    await expect(runtime.dispatch("createSession", fields)).rejects.toMatchObject({
      code: "INVALID_PARAMS",
      message: "labels.__proto__: choose another name for it",
    });
    await expect(runtime.dispatch("listSessions", fields)).rejects.toMatchObject({ code: "INVALID_PARAMS" });
  });
});

describe("a written duration", () => {
  it("[B1] is read in every unit, also in several", () => {
    const written = ["250ms", "30s", "5m", "1h 30m", "0.5m", "2d"];
    expect(written.map(parseDuration)).toEqual([250, 30_000, 300_000, 5_400_000, 30_000, 172_800_000]);
  });

  it("[B1] is refused when it is none", () => {
    const wrong = ["5", "soon", "5constructor", "5tostring", "-5s", "", `${"9".repeat(400)}d`, "9999999999999d"];
    expect(wrong.map(parseDuration)).toEqual(wrong.map(() => undefined));
  });
});
