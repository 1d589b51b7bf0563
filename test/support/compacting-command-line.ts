import type { ModelRequest } from "@rkat/core/ports/model";
import { createScriptedModel, type ScriptedStep } from "@rkat/core/providers/scripted";
import { openRuntime } from "@rkat/node/open-runtime";
import type { Parts } from "rkat/parts";

/** A configuration with which a few short turns are worth compacting. */
export const CONFIGURATION = `[compaction]
auto_compact_threshold = 1500
max_summary_tokens = 300
recent_turn_budget = 2
`;

export const OFFLINE = { RKAT_MODEL: "offline", NO_COLOR: "1" };
/** For commands that are handed a model. */
export const NO_MODEL = { NO_COLOR: "1" };

/** What one turn says: things that a summary can keep or lose. */
export function fact(n: number): string {
  return (
    `The owner of src/lib/file${n}.ts is Person${n}, ticket ABC-10${n}, see https://example.com/t/${n}. ` +
    `The limit is ${n}50 ms. Never restart db-${n}.example.com on a Friday.`
  );
}

export const FACTS = [1, 2, 3, 4, 5].map(fact);

/** A model that answers every turn, and a request for a summary as it is told. */
export function summarisedBy(summarise: () => ScriptedStep): Partial<Parts> {
  const isRequest = (asked: unknown) => JSON.stringify(asked).includes("CONTEXT COMPACTION");
  const script = ({ messages }: ModelRequest) => (isRequest(messages.at(-1)) ? summarise() : { text: "Yes." });
  return { openRuntime: (options) => openRuntime({ ...options, model: createScriptedModel(script) }) };
}
