import { messageOf, RuntimeError } from "../contract/error.ts";
import type { Embedder } from "../ports/embedder.ts";
import { createHashingEmbedder } from "./hashing.ts";
import { rememberTexts } from "./known-texts.ts";
import { createLocalEmbedder, type LocalEmbedder } from "./local.ts";
import { createStaticEmbedder } from "./static.ts";

/** The local embedder; where its native runtime cannot be loaded, the static one, and `tell` hears why, once. */
export async function openDefaultEmbedder(
  tell: (sentence: string) => void,
  signal: AbortSignal,
  local: LocalEmbedder = createLocalEmbedder(),
): Promise<Embedder> {
  const stop = (): void => void local.close();
  signal.addEventListener("abort", stop, { once: true });
  try {
    signal.throwIfAborted();
    await local.load();
    return rememberTexts(local);
  } catch (thrown) {
    await local.close();
    if (signal.aborted) throw new RuntimeError("REQUEST_CANCELLED", "the local embedder was not waited for");
    tell(`${messageOf(thrown)}; word vectors are used instead, which find paraphrases less well`);
    return createStaticEmbedder();
  } finally {
    signal.removeEventListener("abort", stop);
  }
}

/** Opens an embedder by its name in a configuration. */
export async function openNamedEmbedder(
  name: "local" | "static" | "hashing" | "remote",
  parts: { tell: (sentence: string) => void; openRemote: () => Promise<Embedder>; signal: AbortSignal },
): Promise<Embedder> {
  switch (name) {
    case "local":
      return openDefaultEmbedder(parts.tell, parts.signal);
    case "static":
      return createStaticEmbedder();
    case "hashing":
      return createHashingEmbedder();
    case "remote":
      return rememberTexts(await parts.openRemote());
  }
}
