import { readFile } from "node:fs/promises";
import { basename, extname, resolve } from "node:path";
import { RuntimeError } from "@rkat/core/contract/error";
import type { Content, ContentBlock } from "@rkat/core/contract/message";
import { isErrno } from "@rkat/node/config/realm";
import type { Option } from "commander";
import { repeated } from "../flags.ts";

/** Files that the model is shown with the prompt. */
export function fileFlag(): Option {
  return repeated("--file <path>", "a text, image or PDF that the model is shown; may be repeated");
}

const IMAGES: Readonly<Record<string, string>> = {
  ".png": "image/png",
  ".jpg": "image/jpeg",
  ".jpeg": "image/jpeg",
  ".gif": "image/gif",
  ".webp": "image/webp",
};

/** A prompt with files before it, as one would hand them over before asking. */
export async function withFiles(prompt: string, paths: readonly string[], cwd: string): Promise<Content> {
  if (paths.length === 0) return prompt;
  const files = await Promise.all(paths.map((path) => readAttached(path, cwd)));
  return [...files, { type: "text", text: prompt }];
}

async function readAttached(path: string, cwd: string): Promise<ContentBlock> {
  const bytes = await readFile(resolve(cwd, path)).catch((cause: unknown) => {
    const reason = isErrno(cause) && cause.code === "ENOENT" ? "there is no such file" : "it cannot be read";
    throw new RuntimeError("INVALID_PARAMS", `--file ${path}: ${reason}`, { cause });
  });
  return attachedBlock(path, bytes);
}

/** A file as a model is shown it, by the ending of its name: an image, a PDF, or text. */
export function attachedBlock(path: string, bytes: Buffer): ContentBlock {
  const ending = extname(path).toLowerCase();
  const data = bytes.toString("base64");
  const image = IMAGES[ending];
  if (image !== undefined) return { type: "image", media_type: image, source: "inline", data };
  // Other files are read as text, and refused where they are not.
  const media_type = ending === ".pdf" ? "application/pdf" : "text/plain";
  return { type: "file", name: basename(path), media_type, source: "inline", data };
}
