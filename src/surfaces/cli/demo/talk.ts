import { eventsOf, type Scene } from "./stage.ts";

/** Text as it comes, and a session that goes on. */
export const talk: Scene = {
  title: "A session, streamed",
  story: "The offline model answers: no network, no weights. Each word is an event of its own.",
  play: async ({ runtime, watch, claim }) => {
    const first = await watch("The release is on 3 June and Mara owns the rollback plan.", (prompt) =>
      runtime.createSessionStreaming(prompt, { toolPreset: "none" }),
    );
    const session = runtime.session(first.result.session_id);
    const second = await watch("Who owns the rollback plan?", (prompt) => session.stream(prompt));
    const pieces = eventsOf(second, "text_delta").length;
    await claim("the answer came in pieces", pieces > 1);
    await claim("and remembers what was said a turn earlier", second.result.text.includes("Mara"));
  },
};

/** Two calls in one answer run at once. */
export const parallelTools: Scene = {
  title: "Two tools at once",
  story: "Calls of one answer run in parallel; their results return in the order of the calls.",
  play: async ({ runtime, watch, claim }) => {
    const turn = await watch("Add a task: write the release notes. Add a task: tag the release.", (prompt) =>
      runtime.createSessionStreaming(prompt, { toolPreset: "safe" }),
    );
    const types = turn.events.map(({ type }) => type);
    const startedFirst = types
      .slice(0, types.indexOf("tool_execution_completed"))
      .filter((type) => type === "tool_execution_started");
    await claim("both calls were running before the first had answered", startedFirst.length === 2);
    const asked = eventsOf(turn, "tool_call_requested").map(({ id }) => id);
    const answered = eventsOf(turn, "tool_result_received").map(({ id }) => id);
    await claim("the results came in the order of the calls", asked.join() === answered.join() && asked.length === 2);
  },
};

const RELEASE = {
  type: "object",
  properties: {
    owner: { type: "string", description: "who owns the rollback plan" },
    risk: { enum: ["low", "medium", "high"] },
  },
  required: ["owner", "risk"],
  additionalProperties: false,
};

/** JSON that a program can rely on. */
export const structuredOutput: Scene = {
  title: "Structured output",
  story: "With a JSON schema a turn ends in a value that matches it, or says why it could not.",
  play: async ({ runtime, watch, show, claim }) => {
    const turn = await watch("The owner of the rollback plan is Mara. The risk is high.", (prompt) =>
      runtime.createSessionStreaming(prompt, { toolPreset: "none", outputSchema: RELEASE }),
    );
    const output = turn.result.structured_output;
    await show(output);
    await claim("the value was checked against the schema", eventsOf(turn, "extraction_succeeded").length === 1);
    const text = JSON.stringify(output ?? "");
    await claim("and holds what was said", text.includes("Mara") && text.includes("high"));
  },
};
