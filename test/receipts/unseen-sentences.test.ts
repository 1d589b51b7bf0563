import type { ModelClient } from "@rkat/core/ports/model";
import { createOfflineModel } from "@rkat/core/providers/offline/offline";
import type { Asking } from "@rkat/core/turn/model-call";
import { describe, expect, it } from "vitest";
import { labellingModel, measureUnseen } from "../support/unseen-sentences.ts";
import { createVirtualClock } from "../support/virtual-clock.ts";

const askingFor = (model: ModelClient): Asking => ({
  model,
  clock: createVirtualClock(),
  retry: { maxRetries: 0, initialDelayMs: 1, maxDelayMs: 1, retryAfterMaxMs: 1, multiplier: 1 },
  calls: { callTimeoutMs: Number.POSITIVE_INFINITY, stallTimeoutMs: Number.POSITIVE_INFINITY },
  deadlineMs: Number.POSITIVE_INFINITY,
  signal: new AbortController().signal,
  redact: (text) => text,
  acceptsEmpty: false,
  emit: () => {},
  append: async () => {},
});

// Nothing was fitted to these sentences. A figure that gets better by a rule for one of them proves nothing.
describe("a hundred sentences nobody tuned on", () => {
  it("[C16] without a judge no honest one is cut, and no invented one stands unlisted", async () => {
    expect(await measureUnseen(askingFor)).toEqual({
      honest: { sentences: 60, cut: 0, unverified: 60 },
      invented: { sentences: 40, cut: 1, unverified: 39 },
    });
  });

  it("[C16] with a judge that knows, the invented ones are cut and the honest ones stand verified", async () => {
    expect(await measureUnseen(askingFor, labellingModel())).toEqual({
      honest: { sentences: 60, cut: 0, unverified: 0 },
      invented: { sentences: 40, cut: 40, unverified: 0 },
    });
  });

  it("[C16] a model that cannot judge decides nothing", async () => {
    expect(await measureUnseen(askingFor, createOfflineModel())).toEqual(await measureUnseen(askingFor));
  });
});
