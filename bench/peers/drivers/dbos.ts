import { DBOS } from "@dbos-inc/dbos-sdk";
import type { Open } from "../driver.ts";

export const open: Open = async ({ baseUrl, model, systemPrompt, tools, database }) => {
  DBOS.setConfig({ name: "bench", systemDatabaseUrl: database, logLevel: "error" });
  const wired = tools.map(({ name, description, fields }) => {
    const properties = Object.fromEntries(Object.entries(fields).map(([field, type]) => [field, { type }]));
    const parameters = { type: "object", properties, required: Object.keys(fields), additionalProperties: false };
    return { type: "function", function: { name, description, parameters } };
  });
  const ask = async (messages: readonly object[]): Promise<Answer> => {
    const response = await fetch(`${baseUrl}/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model, messages, tools: wired, stream: true }),
    });
    const events = (await response.text()).split("\n\n").filter((event) => event.startsWith("data: {"));
    const answer = { text: "", id: "", name: "", args: "" };
    for (const event of events) {
      const { content, tool_calls: [call] = [] } = JSON.parse(event.slice("data: ".length)).choices[0]?.delta ?? {};
      answer.text += content ?? "";
      answer.id += call?.id ?? "";
      answer.name += call?.function.name ?? "";
      answer.args += call?.function.arguments ?? "";
    }
    return answer;
  };
  const turn = DBOS.registerWorkflow(
    async (prompt: string): Promise<string> => {
      const messages: object[] = [
        { role: "system", content: systemPrompt },
        { role: "user", content: prompt },
      ];
      for (let step = 0; step < STEPS_MAX; step += 1) {
        const { text, id, name, args } = await DBOS.runStep(() => ask(messages), { name: "model" });
        if (name === "") return text;
        // The call's id is of the recorded answer, so it is the same when the step is run again.
        const run = async (): Promise<string> =>
          (await tools.find((tool) => tool.name === name)?.run(JSON.parse(args), id)) ?? "no such tool";
        const content = await DBOS.runStep(run, { name });
        const call = { id, type: "function", function: { name, arguments: args } };
        messages.push({ role: "assistant", content: null, tool_calls: [call] });
        messages.push({ role: "tool", tool_call_id: id, content });
      }
      throw new Error("the model kept calling tools");
    },
    { name: "turn" },
  );
  // Continues what a process left open.
  await DBOS.launch();
  const resultOf = async (session: string): Promise<string> => DBOS.retrieveWorkflow(session).getResult();
  return {
    begin: async () => crypto.randomUUID(),
    turn: async (workflowID, prompt) => {
      await DBOS.startWorkflow(turn, { workflowID })(prompt);
      return resultOf(workflowID);
    },
    kept: resultOf,
    recover: async (session) => {
      await resultOf(session);
      return undefined;
    },
    close: () => DBOS.shutdown(),
  };
};

const STEPS_MAX = 10;

interface Answer {
  readonly text: string;
  readonly id: string;
  readonly name: string;
  readonly args: string;
}
