import { mkdir, mkdtemp, readdir, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import {
  createAgentSession,
  createExtensionRuntime,
  ModelRuntime,
  SessionManager,
  SettingsManager,
} from "@earendil-works/pi-coding-agent";
import type { Open } from "../driver.ts";

export const open: Open = async ({ baseUrl, model: id, systemPrompt, tools, folder, windowTokens }) => {
  const agentDir = await mkdtemp(join(homedir(), "pi-"));
  const provider = {
    baseUrl,
    api: "openai-completions",
    apiKey: "none",
    models: [{ id, ...(windowTokens && { contextWindow: windowTokens }) }],
  };
  await writeFile(join(agentDir, "models.json"), JSON.stringify({ providers: { bench: provider } }));
  const modelRuntime = await ModelRuntime.create({
    authPath: join(agentDir, "auth.json"),
    modelsPath: join(agentDir, "models.json"),
  });
  const model = modelRuntime.getModel("bench", id);
  if (folder !== undefined) await mkdir(folder, { recursive: true });
  const cwd = folder ?? agentDir;
  const resourceLoader = {
    getExtensions: () => ({ extensions: [], errors: [], runtime: createExtensionRuntime() }),
    getSkills: () => ({ skills: [], diagnostics: [] }),
    getPrompts: () => ({ prompts: [], diagnostics: [] }),
    getThemes: () => ({ themes: [], diagnostics: [] }),
    getAgentsFiles: () => ({ agentsFiles: [] }),
    getSystemPrompt: () => systemPrompt,
    getSystemPromptSource: () => undefined,
    getAppendSystemPrompt: () => [],
    getAppendSystemPromptSources: () => [],
    extendResources: () => {},
    reload: async () => {},
  };
  const customTools = tools.map(({ name, description, fields, run }) => ({
    name,
    label: name,
    description,
    parameters: {
      type: "object",
      properties: Object.fromEntries(Object.entries(fields).map(([field, type]) => [field, { type }])),
      required: Object.keys(fields),
    },
    execute: async (_id: string, args: Readonly<Record<string, unknown>>) => ({
      content: [{ type: "text", text: await run(args) }],
      details: {},
    }),
  }));
  const sessions = new Map<string, AgentSession>();
  const start = async (sessionManager: InstanceType<typeof SessionManager>): Promise<AgentSession> => {
    const { session } = await createAgentSession({
      cwd,
      agentDir,
      model,
      thinkingLevel: "off",
      modelRuntime,
      resourceLoader,
      tools: tools.map(({ name }) => name),
      customTools,
      sessionManager,
      settingsManager: SettingsManager.inMemory(),
    });
    sessions.set(session.sessionId, session);
    return session;
  };
  const sessionOf = async (session: string): Promise<AgentSession> => {
    const known = sessions.get(session);
    if (known !== undefined || folder === undefined) return known;
    const file = (await readdir(folder)).find((name) => name.includes(session));
    if (file === undefined) throw new Error(`no file of session ${session}`);
    return start(SessionManager.open(join(folder, file), folder));
  };
  return {
    begin: async () => {
      const manager = folder === undefined ? SessionManager.inMemory(cwd) : SessionManager.create(cwd, folder);
      return (await start(manager)).sessionId;
    },
    turn: async (id, prompt) => {
      const session = await sessionOf(id);
      let text = "";
      const unsubscribe = session.subscribe((event: Event) => {
        if (event.type !== "message_update" || event.assistantMessageEvent?.type !== "text_delta") return;
        text += event.assistantMessageEvent.delta;
      });
      await session.prompt(prompt);
      unsubscribe();
      return text;
    },
    kept: async (id) => JSON.stringify((await sessionOf(id)).messages),
    close: async () => {
      for (const session of sessions.values()) session.dispose();
    },
  };
};

type AgentSession = Awaited<ReturnType<typeof createAgentSession>>["session"];

interface Event {
  readonly type: string;
  readonly assistantMessageEvent?: { readonly type: string; readonly delta: string };
}
