import { messageOf } from "../contract/error.ts";
import type { Service } from "../runtime/dispatch.ts";
import { isRetentionSet } from "../state/retention.ts";
import type { ForgettingParts } from "./forget-job.ts";
import type { ForgettingService, Pruning, PruningParts } from "./forgetting.ts";

type Tools = Pick<ForgettingParts, "finder" | "newMac" | "verify">;

/** The parts of erasing; its tools are loaded on first use. */
export interface LaterParts
  extends Omit<ForgettingParts, keyof Tools>,
    Pick<PruningParts, "retention" | "runsInBackground"> {
  readonly tools: () => Promise<Tools>;
}

interface Opened {
  readonly forgetting: ForgettingService;
  readonly pruning: Pruning;
}

/** Erasing, loaded by the first call, by an unfinished job of an earlier process, or by a configured retention. */
export function createForgettingLater(parts: LaterParts): {
  readonly operations: Pick<Service, "forget" | "listForgettings" | "prune">;
  close(): Promise<void>;
} {
  let opening: Promise<Opened> | undefined;
  const opened = (): Promise<Opened> => {
    opening ??= (async () => {
      const { createForgetting, createPruning } = await import("./forgetting.ts");
      const forgetting = createForgetting({ ...parts, ...(await parts.tools()) });
      return { forgetting, pruning: createPruning({ ...parts, forgetting }) };
    })();
    return opening;
  };
  const begin = async (): Promise<void> => {
    const left = (await parts.store.forgettings?.unfinished()) ?? [];
    if (left.length > 0) await (await opened()).forgetting.resume();
    if (parts.runsInBackground && isRetentionSet(parts.retention())) await opened();
  };
  const begun = begin().catch((thrown) =>
    parts.warn(`cannot check whether an erasure is unfinished: ${messageOf(thrown)}`),
  );
  return {
    operations: {
      forget: async (...given) => (await opened()).forgetting.operations.forget(...given),
      listForgettings: async (...given) => (await opened()).forgetting.operations.listForgettings(...given),
      prune: async (...given) => (await opened()).pruning.prune(...given),
    },
    close: async () => {
      await begun;
      const there = await opening;
      await there?.pruning.close();
      await there?.forgetting.settled();
    },
  };
}
