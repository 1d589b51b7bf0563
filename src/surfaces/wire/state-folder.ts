import { constants } from "node:fs";
import { access, mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { RuntimeError } from "../../contract/error.ts";

/** The text of a file; undefined when there is none. */
export async function readIfThere(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, "utf8");
  } catch (thrown) {
    if (isErrno(thrown) && ["ENOENT", "ENOTDIR"].includes(thrown.code ?? "")) return undefined;
    throw thrown;
  }
}

/** Whether a thrown value is a failed system call, which carries a code such as `EACCES`. */
export function isErrno(thrown: unknown): thrown is NodeJS.ErrnoException {
  return thrown instanceof Error && "code" in thrown;
}

/** Whether a runtime of the configuration writes to its state folder: sessions, or the memory of what was said. */
export function keepsSomething({ features }: { readonly features: readonly string[] }): boolean {
  return features.includes("session-store") || features.includes("memory-store");
}

/** Makes the folder that keeps a realm; throws SESSION_STORE_ERROR, with advice, when that cannot be. */
export async function makeStateFolder(stateFolder: string): Promise<void> {
  const stateRoot = dirname(stateFolder);
  try {
    // What was said to a model is nobody else's business, and no part of the project.
    const made = await mkdir(stateRoot, { recursive: true, mode: 0o700 });
    if (made !== undefined) await ignoreInGit(stateRoot);
    await mkdir(stateFolder, { recursive: true, mode: 0o700 });
    await access(stateFolder, constants.W_OK);
  } catch (cause) {
    const why = isErrno(cause) ? cause.code : "it failed";
    const advice = "keep them elsewhere with --state-root FOLDER, or not at all with RKAT_FEATURES=none";
    const message = `sessions cannot be kept in ${stateFolder} (${why}); ${advice}`;
    throw new RuntimeError("SESSION_STORE_ERROR", message, { cause });
  }
}

async function ignoreInGit(folder: string): Promise<void> {
  try {
    await writeFile(join(folder, ".gitignore"), "*\n", { flag: "wx" });
  } catch (thrown) {
    if (!isErrno(thrown) || thrown.code !== "EEXIST") throw thrown;
  }
}
