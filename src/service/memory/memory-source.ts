import type { MemoryBatch } from "../../ports/memory.ts";
import type { LogRow } from "../../ports/store.ts";

/** Logs besides those of sessions whose texts can be found. */
export interface MemorySource {
  /** Every log, and where it ends. */
  ends(): Promise<readonly LogRow[]>;
  /** What a log says after a seq, as a batch that takes it in to its end. */
  batchAfter(id: string, seq: number): Promise<MemoryBatch>;
  /** Whose log it is; undefined when it is none of these. */
  nameOf(id: string): string | undefined;
}
