import type { EmbeddingModelV4 } from "@ai-sdk/provider";
import { messageOf, RuntimeError } from "@rkat/core/contract/error";
import type { Embedder } from "@rkat/core/ports/memory";
import { toUnitLength } from "./word-pieces.ts";

/** The batch size for providers without a limit. */
const TEXTS_PER_CALL_MAX = 96;

/** The used part of the AI SDK's embedding model. */
export type RemoteModel = Pick<EmbeddingModelV4, "provider" | "modelId" | "maxEmbeddingsPerCall" | "doEmbed">;

/** Embeds with any embedding model of the AI SDK; `dimensions` is the expected vector length. */
export function createRemoteEmbedder(model: RemoteModel, dimensions: number): Embedder {
  const id = `${model.provider}/${model.modelId}-${dimensions}`;
  return {
    id,
    dimensions,
    async embed(texts, _kind, signal) {
      const limit = (await model.maxEmbeddingsPerCall) ?? TEXTS_PER_CALL_MAX;
      const perCall = Math.max(1, Math.min(limit, TEXTS_PER_CALL_MAX));
      const vectors: Float32Array[] = [];
      for (let first = 0; first < texts.length; first += perCall) {
        vectors.push(...(await ask({ model, id, dimensions }, texts.slice(first, first + perCall), signal)));
      }
      return vectors;
    },
    async close() {},
  };
}

async function ask(
  to: { readonly model: RemoteModel; readonly id: string; readonly dimensions: number },
  values: string[],
  signal: AbortSignal,
): Promise<readonly Float32Array[]> {
  if (signal.aborted) throw new RuntimeError("REQUEST_CANCELLED", "embedding was cancelled");
  const { embeddings } = await Promise.resolve(to.model.doEmbed({ values, abortSignal: signal })).catch(
    (cause: unknown) => {
      if (signal.aborted) throw new RuntimeError("REQUEST_CANCELLED", "embedding was cancelled", { cause });
      throw new RuntimeError("PROVIDER_ERROR", `${to.id} could not embed: ${messageOf(cause)}`, { cause });
    },
  );
  if (embeddings.length !== values.length || embeddings.some((vector) => vector.length !== to.dimensions)) {
    const shape = `${embeddings.length} vectors of ${embeddings[0]?.length ?? 0}`;
    throw new RuntimeError("PROVIDER_ERROR", `${to.id} answered ${values.length} texts with ${shape}`);
  }
  return embeddings.map((vector) => toUnitLength(Float32Array.from(vector)));
}
