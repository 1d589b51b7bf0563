// A process of its own that compacts one context a few times and prints what it cost: `<tokens> <rounds>`. With no
// rounds it only builds the history, which is what the memory of the others is compared with.
import { recoverByExpanding } from "@rkat/core/compaction/receipt";
import { runCompaction } from "@rkat/core/compaction/run-compaction";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { type History, tileHistory } from "./compaction-history.ts";
import { askingFor, composeFor, cpuMs, foldHistory } from "./compaction-stage.ts";
import { median } from "./report.ts";

/** The steps of a compaction in their order. */
export const STEPS = ["prepare", "request", "model", "groundedness", "plan again", "receipt", "append"] as const;
type Step = (typeof STEPS)[number];

export interface Reading {
  /** What the context is estimated at. */
  readonly tokens: number;
  /** The first compaction of the process, and the median of those after it. */
  readonly coldMs: number;
  readonly warmMs: number;
  /** Of the warm ones. */
  readonly steps: Readonly<Record<Step, number>>;
  /** JSON.stringify and JSON.parse of the same messages. */
  readonly floorMs: number;
  readonly specifics: number;
  readonly lost: number;
  /** The most memory the process ever had. */
  readonly peakMb: number;
}

const FLOOR_ROUNDS = 9;
/** The request for a summary fits the window, so that every size takes the same steps. */
const WINDOW_PER_TOKEN = 1.5;

if (import.meta.main) {
  const [tokens = 0, rounds = 0] = process.argv.slice(2).map(Number);
  console.log(JSON.stringify(await measure(tokens, rounds)));
}

async function measure(tokens: number, rounds: number): Promise<Reading> {
  const history = tileHistory({ tokens });
  const compactions: Compacted[] = [];
  let session = await foldHistory(history.messages);
  const { shownTokens } = session.state;
  for (let round = 0; round < rounds; round += 1) {
    if (round > 0) session = await foldHistory(history.messages);
    globalThis.gc?.();
    compactions.push(await compactOnce(session, history));
  }
  const peakMb = process.resourceUsage().maxRSS / 1_024;
  const [cold, ...warm] = compactions;
  const { receipt } = session.state.compactions.at(-1)?.body ?? {};
  return {
    tokens: shownTokens,
    coldMs: cold?.totalMs ?? 0,
    warmMs: median(warm.map(({ totalMs }) => totalMs)),
    // The keys are the steps.
    steps: Object.fromEntries(
      STEPS.map((step) => [step, median(warm.map(({ steps }) => steps.get(step) ?? Number.NaN))]),
    ) as Record<Step, number>,
    floorMs: rounds === 0 ? 0 : floorOf(history),
    specifics: receipt?.total ?? 0,
    lost: receipt?.lost ?? 0,
    peakMb,
  };
}

interface Compacted {
  readonly totalMs: number;
  readonly steps: ReadonlyMap<Step, number>;
}

type Session = Awaited<ReturnType<typeof foldHistory>>;

/**
 * One compaction as a session makes it, but for a model that answers at once. Each step begins with something that is
 * handed in (the compactor, the model, the clock, the log), so the steps are told apart in the very run that is timed.
 */
async function compactOnce({ state, append }: Session, { summary }: History): Promise<Compacted> {
  const marks: { readonly step: Step; readonly atMs: number }[] = [];
  const begin = (step: Step): void => {
    marks.push({ step, atMs: cpuMs() });
  };
  const contextWindow = Math.ceil(state.shownTokens * WINDOW_PER_TOKEN);
  const model = createScriptedModel(
    () => {
      begin("model");
      return { text: summary };
    },
    { contextWindow },
  );
  const asking = askingFor(model, append);
  const compacting = composeFor({}, contextWindow);
  const { compactor } = compacting;
  const watched = {
    compacting: {
      ...compacting,
      compactor: {
        shouldCompact: compactor.shouldCompact.bind(compactor),
        compactionPrompt: compactor.compactionPrompt.bind(compactor),
        maxSummaryTokens: compactor.maxSummaryTokens.bind(compactor),
        prepareForSummarization: compactor.prepareForSummarization.bind(compactor),
        rebuildHistory: (...draft: Parameters<typeof compactor.rebuildHistory>) => {
          if (marks.at(-1)?.step === "groundedness") begin("plan again");
          return compactor.rebuildHistory(...draft);
        },
      },
      recovering: (...gone: Parameters<typeof recoverByExpanding>) => {
        begin("receipt");
        return (compacting.recovering ?? recoverByExpanding)(...gone);
      },
    },
    asking: {
      ...asking,
      clock: {
        ...asking.clock,
        newId: () => {
          begin("request");
          return asking.clock.newId();
        },
      },
      model: { ...model, stream: watchEnd(model.stream, () => begin("groundedness")) },
    },
  };
  const appendWatched: typeof append = async (bodies) => {
    if (marks.at(-1)?.step === "receipt") begin("append");
    await append(bodies);
  };
  begin("prepare");
  const outcome = await runCompaction({ state, ...watched, trigger: "manual", append: appendWatched });
  const endMs = cpuMs();
  if (!outcome.compacted) throw new Error(`nothing was compacted: ${outcome.reason}`);
  const order = marks.map(({ step }) => step).join();
  if (order !== STEPS.join()) throw new Error(`a compaction takes other steps than this bench knows: ${order}`);
  const steps = new Map(marks.map(({ step, atMs }, at) => [step, (marks[at + 1]?.atMs ?? endMs) - atMs]));
  return { totalMs: endMs - (marks[0]?.atMs ?? endMs), steps };
}

type Stream = ReturnType<typeof createScriptedModel>["stream"];

/** A stream that tells when nobody reads it any more. */
function watchEnd(stream: Stream, onEnd: () => void): Stream {
  return async function* (...call) {
    try {
      yield* stream(...call);
    } finally {
      onEnd();
    }
  };
}

function floorOf({ messages }: History): number {
  const readings = Array.from({ length: FLOOR_ROUNDS }, () => {
    const startedMs = cpuMs();
    JSON.parse(JSON.stringify(messages));
    return cpuMs() - startedMs;
  });
  return median(readings);
}
