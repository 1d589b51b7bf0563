import { compactingFor } from "@rkat/core/compactions/compaction-part";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { composeCompaction } from "@rkat/core/sessions/session-settings";
import { foldAhead } from "@rkat/core/state/session-state";
import { judgeTurnBoundary } from "@rkat/core/turn/boundary";
import { expect, it } from "vitest";
import { createVirtualClock } from "../support/virtual-clock.ts";
import { createFoldedSession } from "./folded-session.ts";

const asks = (content: string) => ({
  kind: "turn_opened" as const,
  message: { role: "user" as const, content, created_at: "2026-01-01T00:00:00.000Z" },
});

it("[C2] a boundary reads nothing of what was said before, so it costs the same at every length", async () => {
  const { state, append } = createFoldedSession("Keep notes.");
  await append([asks("What is the port?")]);
  const shown = new Proxy(state.shown, {
    get: (said, key) => {
      if (key === "length") return said.length;
      throw new Error(`${String(key)} of what was said is read`);
    },
  });
  const at = {
    state: { ...state, shown },
    model: createScriptedModel([]),
    tools: new Map(),
    compacting: compactingFor(
      composeCompaction({}, {}, async () => ""),
      {},
      { contextWindow: 10_000, prices: undefined },
    ),
    clock: createVirtualClock(),
  };
  expect(judgeTurnBoundary(at, foldAhead(at.state, [asks("And the host?")]))).toBe("not_due");
});
