import { describe, expect, it } from "vitest";
import type { ToolCallContext } from "../ports/tool.ts";
import { createDatetimeTool } from "./builtin.ts";

const context: ToolCallContext = {
  sessionId: "s",
  toolUseId: "t",
  signal: new AbortController().signal,
  shellEnv: {},
};

describe("datetime", () => {
  it("tells the moment in its zone, with the zone's offset", async () => {
    const now = () => Date.UTC(2026, 0, 31, 23, 5, 9, 250);

    const kolkata = await createDatetimeTool({ now, timezone: "Asia/Kolkata" }).execute({}, context);
    expect(JSON.parse(String(kolkata))).toEqual({
      iso8601: "2026-02-01T04:35:09+05:30",
      date: "2026-02-01",
      time: "04:35:09",
      timezone: "Asia/Kolkata",
      unix_timestamp: 1_769_900_709,
      year: 2026,
      month: 2,
      day: 1,
      weekday: "Sunday",
    });
  });

  it("writes midnight as 00 and the zero offset in full", async () => {
    const output = await createDatetimeTool({ now: () => 0, timezone: "UTC" }).execute({}, context);
    expect(JSON.parse(String(output))).toMatchObject({ iso8601: "1970-01-01T00:00:00+00:00", time: "00:00:00" });
  });

  it("names the machine's zone unless told another", async () => {
    const output = await createDatetimeTool({ now: () => 0 }).execute({}, context);
    expect(JSON.parse(String(output)).timezone).toBe(new Intl.DateTimeFormat().resolvedOptions().timeZone);
  });

  it("[A5] refuses fields it does not know", async () => {
    const tool = createDatetimeTool({ now: () => 0 });
    await expect(tool.execute({ zone: "UTC" }, context)).rejects.toThrow(/^zone: there is no such field/);
  });
});
