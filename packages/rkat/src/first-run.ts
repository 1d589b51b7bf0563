import { join } from "node:path";
import type { Config } from "@rkat/core/config/config-schema";
import { asRuntimeError, invalid } from "@rkat/core/contract/error";
import type { LocalServer } from "@rkat/core/providers/local-servers";
import { withoutControls } from "@rkat/core/text/terminal-text";
import { keysFileOf, storeKey } from "@rkat/node/config/keys-file";
import { askSecret, canAsk } from "./chat/ask-person.ts";
import { pickOne } from "./chat/pick-one.ts";
import type { Choice } from "./chat/picker.ts";
import { type ConfigText, changeConfigFile, projectFileOf, shownPath, userFileOf, withKey } from "./commands/config.ts";
import type { RunFlags } from "./commands/run-flags.ts";
import { fieldsOf } from "./flags.ts";
import { bytesText, type Io } from "./io.ts";
import { loadHere } from "./open-runtime.ts";
import type { Invocation, ModelOutlook } from "./parts.ts";

/**
 * Whether a turn has a model. Where none is configured, the user is asked at the terminal, and the answer is
 * stored; where nothing is chosen, it prints what to do.
 */
export async function ensureModel(invocation: Invocation, flags: RunFlags): Promise<boolean> {
  const { io } = invocation;
  const { model, provider } = fieldsOf("createSession", flags);
  const isNamed = (model ?? provider ?? flags.resume) !== undefined;
  if (isNamed || flags.output === "json" || !canAsk(io)) return true;
  const { config } = await loadHere(invocation);
  if (!(await lacksModel(invocation, config))) return true;
  io.stderr.write("No model is chosen yet: no configuration sets [agent] model, and no key is set.\n");
  return (await chooseModel(invocation)) !== undefined;
}

/** Whether no file, variable or key determines the model. */
export async function lacksModel({ parts }: Invocation, config: Config): Promise<boolean> {
  if ((config.agent.model ?? config.agent.provider) !== undefined) return false;
  const outlook = await parts.inspectModels(config);
  if (outlook.providers.some(({ hasKey }) => hasKey)) return false;
  return outlook.chooseDefault().then(
    () => false,
    () => true,
  );
}

/** What can be chosen: a model, or to give a key. */
type Offer =
  | { readonly kind: "model"; readonly model: string; readonly server?: LocalServer }
  | { readonly kind: "key" };

/** Asks for a model and where to store the choice; resolves with what was done, or undefined when nothing was. */
export async function chooseModel(invocation: Invocation): Promise<string | undefined> {
  const { io, parts } = invocation;
  try {
    const { config } = await loadHere(invocation);
    const { providers } = await parts.inspectModels(config);
    const servers = await parts.findLocalServers(io.interrupt);
    if (servers.some(({ name, models }) => name === "ollama" && models.length === 0))
      io.stderr.write("Ollama runs here and has no model yet; ollama pull llama3.2 brings one.\n");
    const offer = await pickOne(io, {
      title: "Choose a model",
      choices: [...configuredOffers(config), ...offersOf(servers, providers)],
    });
    if (offer?.kind === "key") return takeKey(invocation, providers);
    const path = offer && (await choosePlace(invocation));
    if (offer === undefined || path === undefined) return printUnchanged(io);
    await changeConfigFile(invocation, path, (before) => withOffer(before, offer));
    const done = `model = "${offer.model}" is written to ${shownPath(invocation, path)}`;
    io.stderr.write(`${withoutControls(done)}\n`);
    return done;
  } catch (thrown) {
    if (io.interrupt.aborted) printUnchanged(io);
    throw asRuntimeError(thrown);
  }
}

/** Longer lists do not fit on a screen; any model can be named with --model. */
const MODELS_SHOWN_MAX = 15;

function configuredOffers({ self_hosted }: Config): readonly Choice<Offer>[] {
  return Object.entries(self_hosted.models).map(([model, { server, remote_model = model }]) => {
    return { value: { kind: "model", model }, label: model, note: `${remote_model} at ${server}` };
  });
}

function offersOf(servers: readonly LocalServer[], providers: ModelOutlook["providers"]): readonly Choice<Offer>[] {
  const local = servers.flatMap((server) =>
    server.models.map(({ name, bytes }): Choice<Offer> => {
      const note = [server.title, ...(bytes === undefined ? [] : [bytesText(bytes)])].join(", ");
      return { value: { kind: "model", model: `${server.name}/${name}`, server }, label: name, note };
    }),
  );
  const keyed = providers
    .filter(({ hasKey }) => hasKey)
    .map(({ provider, keyVariable, defaultModel }): Choice<Offer> => {
      const note = `${provider}, with the key in ${keyVariable}`;
      return { value: { kind: "model", model: defaultModel }, label: defaultModel, note };
    });
  const names = providers.map(({ provider }) => provider).join(", ");
  const more = local.length - MODELS_SHOWN_MAX;
  const rest = more > 0 ? `; ${more} more models are here, for --model` : "";
  return [
    ...keyed,
    ...local.slice(0, MODELS_SHOWN_MAX),
    { value: { kind: "key" }, label: "a provider's model", note: `${names}: asks for a key${rest}` },
    {
      value: { kind: "model", model: "offline" },
      label: "offline",
      note: "built in, to try things out: it needs no network, and has no intelligence",
    },
  ];
}

/** The file that stores the choice: the one in use here, or, where there is none, one that the user chooses. */
async function choosePlace(invocation: Invocation): Promise<string | undefined> {
  const place = invocation.place();
  const loaded = await loadHere(invocation);
  const [project, user] = [projectFileOf(loaded, place), userFileOf(place)];
  if (project !== undefined) return project;
  if (place.projectRoot === place.userRoot) return user;
  const isUsersThere = loaded.sources.includes(user);
  const own = join(place.projectRoot, "rkat.toml");
  const choices: readonly Choice<string>[] = [
    { value: own, label: "for this project", note: shownPath(invocation, own) },
    { value: user, label: "for all my projects", note: shownPath(invocation, user) },
  ];
  return pickOne(invocation.io, {
    title: "Where should this be stored?",
    choices: isUsersThere ? choices.toReversed() : choices,
  });
}

function withOffer(before: ConfigText, { model, server }: Extract<Offer, { kind: "model" }>): ConfigText {
  const named = withKey(before, ["agent", "model"], model);
  // Ollama's own variable has its address.
  if (server === undefined || server.name === "ollama") return named;
  return withKey(named, ["self_hosted", "servers", server.name, "base_url"], server.baseUrl);
}

const KEY_CHARS_MAX = 1_000;

/** Takes a provider's key and, if the user wants, stores it; resolves with what was done, or undefined if nothing was. */
async function takeKey({ io }: Invocation, providers: ModelOutlook["providers"]): Promise<string | undefined> {
  const provider = await pickOne(io, {
    title: "Whose key?",
    choices: providers.map((row): Choice<typeof row> => {
      return { value: row, label: row.provider, note: `as ${row.keyVariable} has it` };
    }),
  });
  if (provider === undefined) return printUnchanged(io);
  const { keyVariable } = provider;
  const key = (await askSecret(io, `The key for ${provider.provider} (it is not shown): `)).trim();
  if (key === "") return printUnchanged(io);
  if (/\s/.test(key) || key.length > KEY_CHARS_MAX) throw invalid(`${keyVariable}: this is no key; copy the key alone`);
  const path = keysFileOf(io.home);
  const isStored = await pickOne(io, {
    title: "Where should the key be kept?",
    choices: [
      { value: true, label: "in a file", note: `${path}, which only you can read` },
      { value: false, label: "nowhere", note: "it is used for this run only" },
    ],
  });
  if (isStored === undefined) return printUnchanged(io);
  if (isStored) storeKey(io.home, keyVariable, key);
  // What follows in this process reads it as if it had been set.
  Object.assign(io.env, { [keyVariable]: key });
  const done = isStored
    ? `the key is stored in ${path}`
    : `the key is used for this run only; set ${keyVariable} to keep it`;
  io.stderr.write(`${withoutControls(done)}\n`);
  return done;
}

function printUnchanged({ stderr }: Io): undefined {
  stderr.write("Nothing was changed. Name a model with --model, set a provider's key, or try --model offline.\n");
  return undefined;
}
