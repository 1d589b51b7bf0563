import { describe, expect, it } from "vitest";
import { Remember } from "./agent.ts";
import { invalidInput } from "./input.ts";

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
