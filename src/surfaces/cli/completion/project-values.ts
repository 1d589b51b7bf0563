import { readConfiguration } from "../configuration.ts";
import { createEmpty, isThere, withSessions } from "../open-runtime.ts";
import type { Invocation } from "../parts.ts";
import { counted, oneLine } from "../plain-text.ts";
import { ageOf } from "../sessions/age.ts";
import { shortId } from "../sessions/selector.ts";
import type { Candidate, ValueKind } from "./complete-line.ts";

/** Nobody chooses among more. */
const SESSIONS_MAX = 30;
const TITLE_CHARS_MAX = 60;

/** The values of a kind that there are in the project. */
export async function projectValues(
  invocation: Invocation,
  kind: Exclude<ValueKind, "files" | "folders">,
): Promise<readonly Candidate[]> {
  switch (kind) {
    case "sessions":
      return ifKept(invocation, sessions);
    case "agents":
      return ifKept(invocation, agents);
    case "models":
      return models(invocation);
    case "providers":
      return providers(invocation);
  }
}

/** Where nothing was kept yet nothing is loaded to find that out. */
async function ifKept(
  invocation: Invocation,
  read: (invocation: Invocation) => Promise<readonly Candidate[]>,
): Promise<readonly Candidate[]> {
  return (await isThere(invocation.place().stateFolder)) ? read(invocation) : [];
}

async function sessions(invocation: Invocation): Promise<readonly Candidate[]> {
  return withSessions(invocation, async ({ runtime }) => {
    const { sessions } = await runtime.dispatch("listSessions", { limit: SESSIONS_MAX });
    const now = Date.now();
    const short = sessions.map(({ session_id }) => shortId(session_id));
    const named = sessions.map(({ session_id, title, updated_at }, index) => {
      const begin = short[index] ?? session_id;
      const isAlone = short.indexOf(begin) === short.lastIndexOf(begin);
      const description = `${ageOf(updated_at, now)}: ${oneLine(title, TITLE_CHARS_MAX)}`;
      return { value: isAlone ? begin : session_id, description };
    });
    const [newest] = named;
    // In other words than those of its id: zsh shows words of one meaning as one.
    return newest === undefined ? [] : [{ value: "last", description: `the newest, ${newest.description}` }, ...named];
  });
}

async function agents(invocation: Invocation): Promise<readonly Candidate[]> {
  return withSessions(invocation, async ({ runtime }) => {
    const { agents } = await runtime.dispatch("listAgents", {});
    return agents.map(({ agent, count }) => ({ value: agent, description: counted(count, "memory") }));
  });
}

async function models(invocation: Invocation): Promise<readonly Candidate[]> {
  const { providers } = await catalogOf(invocation);
  return providers.flatMap(({ provider, models }) =>
    models.map(({ id, display_name }) => ({ value: id, description: `${display_name}, ${provider}` })),
  );
}

async function providers(invocation: Invocation): Promise<readonly Candidate[]> {
  const { providers } = await catalogOf(invocation);
  return providers.map(({ provider, models }) => ({ value: provider, description: counted(models.length, "model") }));
}

async function catalogOf(invocation: Invocation) {
  const { config } = await readConfiguration(invocation);
  const runtime = await createEmpty(invocation, config);
  try {
    return await runtime.dispatch("readModels", {});
  } finally {
    await runtime.close();
  }
}
