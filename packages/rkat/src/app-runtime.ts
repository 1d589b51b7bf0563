import { existsSync, statSync } from "node:fs";
import { registerHooks } from "node:module";
import { basename } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { invalid, messageOf } from "@rkat/core/contract/error";
import type { RuntimeLink } from "@rkat/core/runtime/runtime-calls";
import { createSystemClock } from "@rkat/core/runtime/system-clock";

export interface AppOptions {
  /** The module, by its absolute path. */
  readonly path: string;
  readonly watches: boolean;
  readonly log: (sentence: string) => void;
}

/** How often the files of a watched module are looked at. */
const LOOK_MS = 300;

/** Opens the runtime that a module exports. A watched one is loaded again when its files change, between two turns. */
export async function openApp({ path, watches, log }: AppOptions): Promise<RuntimeLink> {
  if (!watches) return load(path, pathToFileURL(path).href);
  const files = trackFiles(path);
  let current = createServing(await load(path, files.next()));
  let waiting: RuntimeLink | undefined;
  let running = 0;
  const closing = new AbortController();
  const name = basename(path);

  const swap = async (): Promise<void> => {
    if (waiting === undefined || running > 0) return;
    const { runtime, ending } = current;
    current = createServing(waiting);
    waiting = undefined;
    log(`${name} was loaded again`);
    ending.abort("another version is served");
    await runtime.close();
  };
  /** Counts work to its end, which may let the next version in. */
  const track = (work: Promise<unknown>): void => {
    running += 1;
    const end = (): void => {
      running -= 1;
      swap().catch((thrown: unknown) => log(`the runtime before did not close: ${messageOf(thrown)}`));
    };
    work.then(end, end);
  };
  const reload = async (): Promise<void> => {
    try {
      const loaded = await load(path, files.next());
      await waiting?.close();
      waiting = loaded;
      if (running > 0) log(`${name} changed; it is served when what runs has ended`);
      await swap();
    } catch (thrown) {
      log(`${messageOf(thrown)}; the version before is still served`);
    }
  };
  const watch = async (): Promise<void> => {
    const clock = createSystemClock();
    for (let seen = files.state(); !closing.signal.aborted; await clock.sleep(LOOK_MS, closing.signal)) {
      const now = files.state();
      if (now === seen) continue;
      await reload();
      // As it was before it was loaded: a file that changed meanwhile is loaded once more.
      seen = now;
    }
  };
  const watched = watch();
  return {
    dispatch: (operation, input, call = {}) => {
      const background = (turn: Promise<unknown>): void => {
        track(turn);
        call.background?.(turn);
      };
      const answer = current.runtime.dispatch(operation, input, { ...call, background });
      track(answer);
      return answer;
    },
    subscribe: async function* (sessionId, { after, signal, ...asked } = {}) {
      const left = signal ?? new AbortController().signal;
      let last = after;
      for (let isLast = false; !isLast; ) {
        const { runtime, ending } = current;
        const both = AbortSignal.any([left, ending.signal]);
        const from = last === undefined ? {} : { after: last };
        for await (const delivery of runtime.subscribe(sessionId, { ...asked, ...from, signal: both })) {
          if (delivery.seq > 0) last = delivery.seq;
          yield delivery;
        }
        isLast = left.aborted || !ending.signal.aborted;
      }
    },
    close: async () => {
      closing.abort("closed");
      await watched;
      await Promise.all([waiting?.close(), current.runtime.close()]);
    },
  };
}

function createServing(runtime: RuntimeLink) {
  return { runtime, ending: new AbortController() };
}

/** Loads a module and returns the runtime it exports; throws INVALID_PARAMS, in a sentence, if there is none. */
async function load(path: string, address: string): Promise<RuntimeLink> {
  const fault = (what: string, cause?: unknown) => invalid(`--app ${path}: ${what}`, cause);
  if (!existsSync(path)) throw fault("there is no such file");
  const module: Readonly<Record<string, unknown>> = await import(address).catch((cause: unknown) => {
    throw fault(`the module cannot be loaded: ${messageOf(cause)}`, cause);
  });
  const exported = module.default ?? module.runtime;
  if (exported === undefined) throw fault("export a runtime, or a function that makes one, as default or runtime");
  try {
    const made: unknown = await (typeof exported === "function" ? exported() : exported);
    if (isRuntime(made)) return made;
  } catch (cause) {
    throw fault(`the runtime cannot be made: ${messageOf(cause)}`, cause);
  }
  throw fault("what it exports is no runtime; export what createRuntime returns, or what openRuntime resolves to");
}

/** Not by its class: the module may have another copy of the package. */
function isRuntime(value: unknown): value is RuntimeLink {
  return ["dispatch", "subscribe", "close"].every((name) => typeof Object(value)[name] === "function");
}

/** The files of a module that its own imports by path lead to, each loaded anew in every version. */
function trackFiles(path: string) {
  const files = new Set([path]);
  let version = 0;
  const MARK = /\?version=\d+$/;
  registerHooks({
    resolve: (specifier, context, next) => {
      const found = next(specifier, context);
      const [mark] = MARK.exec(context.parentURL ?? "") ?? [];
      if (mark === undefined || !/^(?:\.{0,2}\/|file:)/.test(specifier)) return found;
      files.add(fileURLToPath(found.url));
      return { ...found, url: `${found.url}${mark}` };
    },
  });
  return {
    /** The address of the next version. */
    next: () => {
      version += 1;
      return `${pathToFileURL(path).href}?version=${version}`;
    },
    /** Changes when one of the files does. */
    state: () => [...files].map(changedAt).join(),
  };
}

/** Undefined for a file that is missing or cannot be looked at: an editor may be replacing it. */
function changedAt(file: string): number | undefined {
  try {
    return statSync(file).mtimeMs;
  } catch {
    return undefined;
  }
}
