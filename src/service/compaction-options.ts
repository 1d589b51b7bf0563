import type { CompactionSettings } from "../contract/compaction.ts";
import { RuntimeError } from "../contract/error.ts";
import { CASCADE } from "../core/compaction/cascade/sections.ts";
import type { ExtractSummary } from "../core/compaction/summarise.ts";
import type { CompactionConfig, CompactionHooks, Compactor, Curator } from "../ports/compactor.ts";
import type { Judge } from "../ports/judge.ts";
import { requireNames } from "./option-names.ts";
import type { CompactionPart } from "./session/compacting.ts";

/** How sessions are compacted; what is left out follows from the configuration, then from the model. */
export interface CompactionOptions extends Partial<CompactionConfig> {
  /** A compactor of one's own decides when, and what stays. Gates, receipt, pins and undo hold for it, too. */
  readonly compactor?: Compactor;
  /** Writes the summary instead of the model. */
  readonly curator?: Curator;
  /** Asked before each compaction; a text it returns is the reason not to compact. */
  readonly beforeCompaction?: CompactionHooks["before"];
  /** Told of each compaction. */
  readonly afterCompaction?: CompactionHooks["after"];
  /** Whether large old tool results are shown as references; they are unless this is false. */
  readonly pruneToolResults?: boolean;
  /** Whether what a summary invents is cut from it; it is unless this is false. */
  readonly cutInvented?: boolean;
  /** Who judges what a summary claims: the session's model in a call more, or a judge of one's own; nobody unless said. */
  readonly judge?: "off" | "model" | Judge;
}

/** The configuration's section. */
export interface ConfiguredCompaction extends CompactionSettings {
  readonly strategy?: string | undefined;
  readonly prune_tool_results?: boolean | undefined;
  readonly cut_invented?: boolean | undefined;
  readonly judge?: "off" | "model" | undefined;
}

const SETTINGS = {
  autoCompactThreshold: "auto_compact_threshold",
  recentTurnBudget: "recent_turn_budget",
  maxSummaryTokens: "max_summary_tokens",
  minTurnsBetweenCompactions: "min_turns_between_compactions",
} as const satisfies Record<keyof CompactionConfig, keyof CompactionSettings>;

const CODE = [
  "compactor",
  "curator",
  "beforeCompaction",
  "afterCompaction",
  "pruneToolResults",
  "cutInvented",
  "judge",
];

/** Composes the capability. Throws INVALID_PARAMS, in a sentence, for an option that is unknown or wrong. */
export function composeCompaction(
  options: CompactionOptions,
  configured: ConfiguredCompaction,
  extract: ExtractSummary,
): CompactionPart {
  requireNames(options, [...Object.keys(SETTINGS), ...CODE]);
  const {
    strategy = "summary",
    prune_tool_results = true,
    cut_invented = true,
    judge: asked,
    ...settings
  } = configured;
  const judge = options.judge ?? asked;
  if (strategy === CASCADE && options.compactor !== undefined) {
    throw invalid(`compaction.strategy: "${CASCADE}" is not for a compactor of one's own; leave one of the two out`);
  }
  const given = Object.entries(SETTINGS).flatMap(([name, wire]) => {
    // The keys of SETTINGS are those of a configuration.
    const value = options[name as keyof CompactionConfig];
    return value === undefined ? [] : [[wire, checked(name, value)]];
  });
  return {
    settings: { ...settings, ...Object.fromEntries(given) },
    strategy,
    pruneToolResults: options.pruneToolResults ?? prune_tool_results,
    cutInvented: options.cutInvented ?? cut_invented,
    judge: judge === "off" ? undefined : judge,
    compactor: options.compactor,
    curator: options.curator,
    hooks: {
      ...(options.beforeCompaction === undefined ? {} : { before: options.beforeCompaction }),
      ...(options.afterCompaction === undefined ? {} : { after: options.afterCompaction }),
    },
    extract,
  };
}

function checked(name: string, value: number): number {
  const least = name === "minTurnsBetweenCompactions" ? 0 : 1;
  if (Number.isSafeInteger(value) && value >= least) return value;
  throw invalid(`compaction.${name}: write a whole number of at least ${least}`);
}

function invalid(message: string): RuntimeError {
  return new RuntimeError("INVALID_PARAMS", message);
}
