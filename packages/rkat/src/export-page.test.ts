import type { KeptPlaces } from "@rkat/core/contract/wire/session-page";
import { createInMemoryStore } from "@rkat/core/create-runtime";
import { expect, it } from "vitest";
import { configWith, scriptedRuntime } from "../../../test/support/runtime.ts";
import { exportPage } from "./session-page.ts";

const act = { name: "act", description: "Acts.", inputSchema: { type: "object" } } as const;

const rowsAt = <T>(rows: readonly T[], places: KeptPlaces) => places.flatMap(([from, end]) => rows.slice(from, end));

it("[G8] keeps each message once, what was cut out of it, and what befell its turns", async () => {
  const full = `begin ${"a".repeat(5_000)} end`;
  const { runtime } = scriptedRuntime(
    [
      { calls: [{ name: "act" }] },
      { text: "Done." },
      { ends: { failure: { kind: "invalid_request", message: "no" } } },
    ],
    {
      store: createInMemoryStore(),
      tools: [{ ...act, execute: () => full }],
      config: configWith({ tools: { output_bytes_max: 1_024 } }),
    },
  );
  const session = await runtime.createSession("Act.");
  const planted = `[the full output is blob sha256:${"0".repeat(64)} …]`;
  await expect(session.turn(planted)).rejects.toThrow();
  const { dispatch } = runtime;
  const keptAt = new Date(0);
  const signal = new AbortController().signal;
  const kept = await exportPage({ dispatch, session_id: session.id, version: "1.2.3", keptAt, signal });
  const { messages } = await session.history();
  expect(kept).toMatchObject({ kept_at: "1970-01-01T00:00:00.000Z", version: "1.2.3", compactions: [], pins: [] });
  expect(rowsAt(kept.messages, kept.history)).toEqual(messages);
  expect(kept.events.map(({ payload }) => payload.type)).toEqual(["run_failed"]);
  expect(kept.blobs.map(({ data }) => Buffer.from(data, "base64").toString())).toEqual([full]);
  expect(kept.contexts.length).toBe(kept.calls.calls.length + 1);
  for (const { at_seq, context, ...places } of kept.contexts) {
    const read = await runtime.dispatch("readContext", { session_id: session.id, at_seq });
    const shown = rowsAt(kept.messages, places.messages);
    const parts = rowsAt(kept.parts, places.parts);
    expect({ ...context, messages: shown, parts }).toEqual(read);
  }
  expect(new Set(kept.messages.map((message) => JSON.stringify(message))).size).toBe(kept.messages.length);
});
