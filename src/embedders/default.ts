import { messageOf } from "../contract/error.ts";
import type { Embedder } from "../ports/embedder.ts";
import { createLocalEmbedder, type LocalEmbedder } from "./local.ts";
import { createStaticEmbedder } from "./static.ts";

/** The local embedder; where its native runtime cannot be loaded, the static one, and `tell` hears why, once. */
export async function openDefaultEmbedder(
  tell: (sentence: string) => void,
  local: LocalEmbedder = createLocalEmbedder(),
): Promise<Embedder> {
  try {
    await local.load();
    return local;
  } catch (thrown) {
    await local.close();
    tell(`${messageOf(thrown)}; word vectors are used instead, which find paraphrases less well`);
    return createStaticEmbedder();
  }
}
