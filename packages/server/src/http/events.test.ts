import { RuntimeError } from "@rkat/core/contract/error";
import { describe, expect, it } from "vitest";
import { sessionIdIn, sessionLeftBy } from "./events.ts";

describe("the session that a value speaks of", () => {
  it("is named by a text under session_id, and by nothing else", () => {
    expect(sessionIdIn({ session_id: "a", other: 1 })).toBe("a");
    for (const value of [undefined, null, "a", 7, [], ["a"], {}, { session_id: 7 }, { session_id: undefined }]) {
      expect(sessionIdIn(value)).toBeUndefined();
    }
  });

  it("is that in the details of a failure of ours", () => {
    const details = { session_id: "a" };
    expect(sessionLeftBy(new RuntimeError("AGENT_ERROR", "it failed", { details }))).toBe("a");
    expect(sessionLeftBy(new RuntimeError("AGENT_ERROR", "it failed"))).toBeUndefined();
    expect(sessionLeftBy(Object.assign(new Error("it failed"), { details }))).toBeUndefined();
  });
});
