import type { Runtime } from "@rkat/core/create-runtime";

const PER_SESSION = ["readSession", "readHistory", "readContext", "listModelCalls", "listCompactions"] as const;
const MORE_PER_SESSION = ["listPins", "listRewrites"] as const;
const PER_AGENT = ["readAgentContext", "readAgentStatus", "readAgentHistory"] as const;

/** What a realm answers to every reading operation whose answer depends on what it keeps, and on nothing else. */
export async function keptAnswers(runtime: Runtime): Promise<Readonly<Record<string, unknown>>> {
  const answers: Record<string, unknown> = {};
  const read = async (name: Parameters<Runtime["dispatch"]>[0], input: object): Promise<unknown> => {
    // Every input is one that the operation takes, which is checked when it is dispatched.
    const answer = await runtime.dispatch(name, input as never);
    answers[`${name} ${JSON.stringify(input)}`] = JSON.parse(JSON.stringify(answer));
    return answer;
  };
  const { sessions } = await runtime.dispatch("listSessions", { archived: true });
  await read("listSessions", { archived: true });
  for (const { session_id } of sessions) {
    for (const name of [...PER_SESSION, ...MORE_PER_SESSION]) await read(name, { session_id });
    await read("listEvents", { scope: { type: "session", session_id } });
  }
  const { agents } = await runtime.dispatch("listAgents", {});
  await read("listAgents", {});
  for (const { agent } of agents) for (const name of PER_AGENT) await read(name, { agent });
  await read("listForgettings", {});
  await read("readUsage", {});
  return answers;
}
