import { createHash } from "node:crypto";
import { appendFileSync, existsSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Embedder } from "@rkat/core/ports/memory";

const KEY_BYTES = 16;

/**
 * The same embedder, whose vectors are kept in a folder: making them takes nearly all of a run, and a second run that
 * ranks them otherwise needs the same ones.
 */
export function keepVectors(embedder: Embedder, folder: string): Embedder {
  mkdirSync(folder, { recursive: true });
  const file = join(folder, `${embedder.id}.bin`);
  const known = existsSync(file) ? readVectors(readFileSync(file), embedder.dimensions) : new Map();
  const embedOne = async (text: string, kind: "passage" | "query", signal: AbortSignal): Promise<Float32Array> => {
    const hash = createHash("sha256").update(`${kind}\n${text}`).digest().subarray(0, KEY_BYTES);
    const key = hash.toString("hex");
    const kept = known.get(key);
    if (kept !== undefined) return kept;
    const [vector = new Float32Array(embedder.dimensions)] = await embedder.embed([text], kind, signal);
    known.set(key, vector);
    appendFileSync(file, Buffer.concat([hash, Buffer.from(vector.buffer, vector.byteOffset, vector.byteLength)]));
    return vector;
  };
  return {
    ...embedder,
    embed: async (texts, kind, signal) => {
      const vectors: Float32Array[] = [];
      for (const text of texts) vectors.push(await embedOne(text, kind, signal));
      return vectors;
    },
  };
}

/** A run that was ended may have left half a row at the end. */
function readVectors(bytes: Buffer, dimensions: number): Map<string, Float32Array> {
  const rowBytes = KEY_BYTES + dimensions * Float32Array.BYTES_PER_ELEMENT;
  const known = new Map<string, Float32Array>();
  for (let at = 0; at + rowBytes <= bytes.length; at += rowBytes) {
    const numbers = bytes.subarray(at + KEY_BYTES, at + rowBytes);
    known.set(bytes.toString("hex", at, at + KEY_BYTES), new Float32Array(Uint8Array.from(numbers).buffer));
  }
  return known;
}
