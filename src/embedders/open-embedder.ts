import { messageOf } from "../contract/error.ts";
import type { Embedder } from "../ports/embedder.ts";
import { createHashingEmbedder } from "./hashing.ts";
import { rememberTexts } from "./known-texts.ts";
import { createLocalEmbedder, type LocalEmbedder } from "./local.ts";
import { createStaticEmbedder } from "./static.ts";

/** The local embedder; where its native runtime cannot be loaded, the static one, and `tell` hears why, once. */
export async function openDefaultEmbedder(
  tell: (sentence: string) => void,
  local: LocalEmbedder = createLocalEmbedder(),
): Promise<Embedder> {
  try {
    await local.load();
    return rememberTexts(local);
  } catch (thrown) {
    await local.close();
    tell(`${messageOf(thrown)}; word vectors are used instead, which find paraphrases less well`);
    return createStaticEmbedder();
  }
}

/** Opens an embedder by its name in a configuration. */
export async function openNamedEmbedder(
  name: "local" | "static" | "hashing" | "remote",
  { tell, openRemote }: { tell: (sentence: string) => void; openRemote: () => Promise<Embedder> },
): Promise<Embedder> {
  switch (name) {
    case "local":
      return openDefaultEmbedder(tell);
    case "static":
      return createStaticEmbedder();
    case "hashing":
      return createHashingEmbedder();
    case "remote":
      return rememberTexts(await openRemote());
  }
}
