import type { CatalogModel } from "@rkat/core/contract/capability";
import { RuntimeError } from "@rkat/core/contract/error";
import { nearMiss } from "@rkat/core/text/near-miss";
import { keyNote, priceText } from "../commands/overview.ts";
import { grouped } from "../io.ts";
import { type Chat, type ChatPlace, choose, printNote, type SlashCommand } from "./conversation.ts";
import type { Choice } from "./picker.ts";

/** The slash command that chooses the model. */
export const MODEL_COMMANDS: Readonly<Record<string, SlashCommand>> = {
  model: {
    takes: "[NAME]",
    meaning: "use another model from the next turn on; without a name, choose one from a list",
    candidates: async (chat) => (await rowsOf(chat)).map(({ model, note }) => ({ text: model.id, note })),
    run: async (chat, rest) => {
      const name = rest === "" ? await chooseModel(chat) : await requireKnown(chat, rest);
      if (name === undefined) return false;
      chat.conversation.useModel(name);
      return printNote(chat, `The next turn uses ${name}.`);
    },
  },
};

interface Row {
  readonly provider: string;
  readonly model: CatalogModel;
  readonly canBeAsked: boolean;
  readonly note: string;
}

/** Every known model, usable ones first. */
async function rowsOf({ invocation, opened }: ChatPlace): Promise<readonly Row[]> {
  const catalog = await opened.runtime.dispatch("readModels", {});
  const { providers } = await invocation.parts.inspectModels(opened.config);
  const rows = catalog.providers.flatMap(({ provider, models }) => {
    const canBeAsked = providers.find((row) => row.provider === provider)?.hasKey !== false;
    return models.map((model): Row => {
      const window = model.context_window === undefined ? "" : `${grouped(model.context_window)} context`;
      const facts = [provider, window, priceText(model.prices), keyNote(provider, providers)];
      return { provider, model, canBeAsked, note: facts.filter((fact) => fact !== "").join(" · ") };
    });
  });
  return rows.toSorted((a, b) => Number(b.canBeAsked) - Number(a.canBeAsked));
}

async function chooseModel(chat: Chat): Promise<string | undefined> {
  const current = await currentModel(chat);
  const choices = (await rowsOf(chat)).map(({ model, note }): Choice<string> => {
    const isCurrent = model.id === current.id;
    return { value: model.id, label: `${model.id}${isCurrent ? " *" : ""}`, note, words: model.display_name };
  });
  const title = `Current model: ${current.words}. Switch to:`;
  return choose(chat, { title, choices }, `Current model: ${current.words}. /model NAME switches to another.`);
}

async function currentModel({ opened, conversation }: Chat): Promise<{ readonly id: string; readonly words: string }> {
  const { sessionId, model } = conversation;
  if (model !== undefined) return { id: model, words: model };
  if (sessionId === undefined || !opened.isKept) {
    const configured = opened.config.agent.model;
    return { id: configured ?? "", words: configured ?? "the first that has a key" };
  }
  const info = await opened.runtime.readSession(sessionId);
  return { id: info.model, words: `${info.model} (${info.provider})` };
}

/**
 * Refuses an unknown name: the provider would report a typo only after the prompt. With a provider before
 * it any name is accepted, since new models appear faster than lists of them.
 */
async function requireKnown(chat: Chat, name: string): Promise<string> {
  const { providers, self_hosted, profiles } = chat.opened.config;
  const rows = await rowsOf(chat);
  const ids = [...rows.map(({ model }) => model.id), ...Object.keys(profiles)];
  if (ids.some((id) => id === name || isVariant(name, id))) return name;
  const [provider = "", ...rest] = name.split("/");
  const inspected = (await chat.invocation.parts.inspectModels(chat.opened.config)).providers;
  const hosted = [...ALIASES, ...inspected.map((row) => row.provider)];
  const owners = [...hosted, ...Object.keys(providers), ...Object.keys(self_hosted.servers)];
  if (rest.length > 0 && rest.join("/") !== "") {
    if (owners.includes(provider)) return name;
    const meant = nearMiss(provider, owners);
    const hint = meant === undefined ? `write one of ${owners.join(", ")}` : `did you mean ${meant}/${rest.join("/")}?`;
    throw new RuntimeError("INVALID_PARAMS", `there is no provider ${provider}; ${hint}`);
  }
  const meant = nearMiss(name, ids);
  const hint = meant === undefined ? "/model lists them." : `did you mean ${meant}?`;
  throw new RuntimeError(
    "INVALID_PARAMS",
    `no model ${name} is known; ${hint} For a new model: /model PROVIDER/${name}`,
  );
}

/** Providers without a key, which no list of keys has. */
const ALIASES = ["ollama", "google"];

/** `gpt-5.5-2026-04-23` is a variant of `gpt-5.5`. */
function isVariant(name: string, id: string): boolean {
  return name.startsWith(id) && /^(?:-\d{4}|[@:])/.test(name.slice(id.length));
}
