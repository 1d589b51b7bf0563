import { CAPABILITY_ABSENT } from "@rkat/core/contract/capability";
import { describe, expect, it } from "vitest";
import { useStage } from "./stage.ts";
import { MS_MAX } from "./surfaces.ts";

describe("a runtime without a store", () => {
  const open = useStage();
  for (const way of ["runtime", "rpc", "rest", "mcp", "mcp-http", "cli processes"] as const) {
    it(
      `[F3] ${way}: without a store, what needs one says so in the same words`,
      async () => {
        const { driver } = await open(way, []);
        const session_id = "00000000-0000-7000-8000-000000000000";
        // The number of each surface, 501 and exit 40 among them, is compared with the table by the driver.
        const { code, message } = CAPABILITY_ABSENT["session-store"];
        const disabled = { ok: false, code, message };
        expect(message).toBe("Session persistence is disabled (build without 'session-store').");
        expect(await driver.call("resumeSession", { session_id, prompt: "Are you there?" })).toEqual(disabled);
        expect(await driver.call("readSession", { session_id })).toEqual(disabled);
        expect(await driver.call("listSessions", {})).toEqual(disabled);
        expect(await driver.call("readHistory", { session_id })).toEqual(disabled);
        expect(await driver.call("archiveSession", { session_id })).toEqual(disabled);
      },
      MS_MAX,
    );
  }
});
