import { join } from "node:path";
import type { Config } from "@rkat/core/config/config-schema";
import { asRuntimeError } from "@rkat/core/contract/error";
import type { LocalServer } from "@rkat/core/providers/local-servers";
import { withoutControls } from "@rkat/server/http/terminal-text";
import { canAsk } from "./chat/ask-person.ts";
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

/** What can be chosen: a model, or how to set a key. */
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
    if (offer?.kind === "key") return printKeys(io, providers);
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
    { value: { kind: "key" }, label: "a provider's model", note: `${names}: shows how to set a key${rest}` },
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

/** Keys are never written to a file: every reader of the project would have them. */
function printKeys({ stderr, env }: Io, providers: ModelOutlook["providers"]): undefined {
  const isFish = env.SHELL?.endsWith("fish") === true;
  const profile = isFish
    ? "~/.config/fish/config.fish"
    : env.SHELL?.endsWith("zsh") === true
      ? "~/.zshrc"
      : "~/.bashrc";
  const lines = providers.map(({ keyVariable }) => {
    return isFish ? `  set -gx ${keyVariable} YOUR_KEY` : `  export ${keyVariable}=YOUR_KEY`;
  });
  stderr.write(
    `Nothing was changed. Put one of these lines into ${profile}, open a new shell, and start rkat again:\n${lines.join("\n")}\n`,
  );
  return undefined;
}

function printUnchanged({ stderr }: Io): undefined {
  stderr.write("Nothing was changed. Name a model with --model, set a provider's key, or try --model offline.\n");
  return undefined;
}
