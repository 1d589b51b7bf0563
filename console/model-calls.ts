import { client } from "./server.ts";

/** What a model call was shown, by where it comes from. */
export interface ModelCall {
  readonly seq: number;
  readonly turn: number;
  readonly at: string;
  readonly model: string;
  readonly tokens: number;
  readonly tool_tokens: number;
  readonly parts: readonly { readonly kind: PartKind; readonly tokens: number }[];
  readonly context_window?: number | undefined;
  readonly threshold?: number | undefined;
  readonly usage?: { readonly input_tokens: number; readonly output_tokens: number } | undefined;
  readonly cost?: { readonly amount: number } | undefined;
}
export type PartKind = "system" | "summary" | "pinned" | "expanded" | "turn" | "tool_output" | "memory";

export interface ModelCalls {
  readonly calls: readonly ModelCall[];
  readonly compactions: readonly {
    readonly seq: number;
    readonly compaction_id: string;
    readonly tokens_before: number;
    readonly tokens_after: number;
    readonly undone: boolean;
  }[];
}
export const NO_CALLS: ModelCalls = { calls: [], compactions: [] };

/** As many bars as fit a wide screen, and more than anybody compares. */
const CALLS_MAX = 200;

export async function readModelCalls(id: string): Promise<ModelCalls> {
  const dispatch = client().dispatch as unknown as (name: string, input: unknown) => Promise<ModelCalls>;
  return dispatch("listModelCalls", { session_id: id, limit: CALLS_MAX }).catch(() => NO_CALLS);
}
