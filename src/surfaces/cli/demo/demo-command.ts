import type { Command } from "commander";
import type { Runtime, RuntimeOptions } from "../../../runtime.ts";
import { createSystemClock } from "../../../service/system-clock.ts";
import { describeHelp } from "../help.ts";
import type { Invocation } from "../parts.ts";
import { createPage, type Page } from "./page.ts";
import { createWatch, type Scene, type Stage } from "./stage.ts";
import { parallelTools, structuredOutput, talk } from "./talk.ts";
import { badCall, budget, retry } from "./trouble.ts";

const SCENES: readonly Scene[] = [talk, parallelTools, badCall, retry, budget, structuredOutput];

/** Declares `rkat demo`. */
export function addDemoCommand(program: Command, invocation: Invocation): void {
  const command = program
    .command("demo")
    .description("Plays a few short sessions to watch: no key, no network, nothing is written.")
    .summary("watch what it does; no key, no network")
    .option("--fast", "do not pause; the default where stdout is no terminal")
    .action(async (flags: { readonly fast?: boolean }) => {
      const { io } = invocation;
      const page = createPage(io, io.stdout.isTerminal && flags.fast !== true);
      invocation.exitWith(await playDemo(invocation, page));
    });
  describeHelp(command, {
    examples: [["rkat demo", "half a minute to watch"]],
    notes: [["Exit codes", "0 everything happened as told · 1 something did not"]],
  });
}

async function playDemo({ parts }: Invocation, page: Page): Promise<number> {
  const { paint } = page;
  const opened: Runtime[] = [];
  let claims = 0;
  let broken = 0;
  const open = async (model: NonNullable<RuntimeOptions["model"]>): Promise<Runtime> => {
    // Neither the configuration nor the environment of whoever watches may change what is shown.
    const runtime = await parts.createRuntime({ model, env: {}, clock: createDemoClock() });
    opened.push(runtime);
    return runtime;
  };
  const stage: Stage = {
    runtime: await open("offline"),
    openScripted: async (script) => open(await parts.createScriptedModel(script)),
    watch: createWatch(page),
    show: (value) => page.line(`  result  ${JSON.stringify(value)}`),
    claim: async (sentence, isTrue) => {
      claims += 1;
      if (!isTrue) broken += 1;
      await page.line(isTrue ? `  ${paint.green("✓")} ${sentence}` : `  ${paint.red("✗ not so:")} ${sentence}`);
    },
  };
  try {
    for (const [index, scene] of SCENES.entries()) {
      await page.line();
      await page.line(paint.bold(`${index + 1}  ${scene.title}`));
      await page.line(paint.dim(`   ${scene.story}`));
      await scene.play(stage);
    }
  } finally {
    page.endLine();
    for (const runtime of opened.toReversed()) await runtime.close();
  }
  for (const line of closingLines(claims, broken)) await page.line(line);
  return broken === 0 ? 0 : 1;
}

/** Ids and chance are fixed, so that two showings are the same. */
function createDemoClock(): ReturnType<typeof createSystemClock> {
  let count = 0;
  return {
    ...createSystemClock(),
    random: () => 0.5,
    newId: () => {
      count += 1;
      return `00000000-0000-7000-8000-${String(count).padStart(12, "0")}`;
    },
  };
}

function closingLines(claims: number, broken: number): readonly string[] {
  const verdict = broken === 0 ? `All ${claims} claims held.` : `${broken} of ${claims} claims did not hold.`;
  return [
    "",
    verdict,
    "",
    "Try next:",
    '  rkat "what time is it?" --model offline     your own words, without a key',
    "  rkat doctor                                 what works here, and what a key would add",
    '  git diff | rkat "review this change"        with a model that has a key',
  ];
}
