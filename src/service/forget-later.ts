import { messageOf } from "../contract/error.ts";
import type { Service } from "./dispatch.ts";
import type { ForgettingParts } from "./forget-job.ts";
import type { ForgettingService } from "./forgetting.ts";

type Tools = Pick<ForgettingParts, "finder" | "newMac" | "verify">;

/** What a forgetting needs, its tools loaded when something is forgotten. */
export interface LaterParts extends Omit<ForgettingParts, keyof Tools> {
  readonly tools: () => Promise<Tools>;
}

/** Forgetting before anything of it is loaded: the first call does that, or a job that an earlier process left. */
export function createForgettingLater(parts: LaterParts): {
  readonly operations: Pick<Service, "forget" | "listForgettings">;
  /** Resolves when nothing is being forgotten any more. */
  settled(): Promise<void>;
} {
  let opening: Promise<ForgettingService> | undefined;
  const opened = (): Promise<ForgettingService> => {
    opening ??= (async () => {
      const { createForgetting } = await import("./forgetting.ts");
      return createForgetting({ ...parts, ...(await parts.tools()) });
    })();
    return opening;
  };
  const resume = async (): Promise<void> => {
    const left = (await parts.store.forgettings?.unfinished()) ?? [];
    if (left.length > 0) await (await opened()).resume();
  };
  const resuming = resume().catch((thrown) =>
    parts.warn(`whether something is still to be forgotten cannot be told: ${messageOf(thrown)}`),
  );
  return {
    operations: {
      forget: async (...given) => (await opened()).operations.forget(...given),
      listForgettings: async (...given) => (await opened()).operations.listForgettings(...given),
    },
    settled: async () => {
      await resuming;
      await (await opening)?.settled();
    },
  };
}
