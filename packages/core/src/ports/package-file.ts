import { type ErrorCode, RuntimeError } from "../contract/error.ts";

/** Loads a module of a package that may be missing; then throws an error of the table that says `missing`. */
export async function loadOptional<T>(code: ErrorCode, missing: string, load: () => Promise<T>): Promise<T> {
  try {
    return await load();
  } catch (cause) {
    const isMissing = cause instanceof Error && "code" in cause && cause.code === "ERR_MODULE_NOT_FOUND";
    throw isMissing ? new RuntimeError(code, missing, { cause }) : cause;
  }
}

let warn: ((sentence: string) => void) | undefined;
let hasWarned = false;

/** Sets the function that receives one warning per process if the files of our packages cannot be found. */
export function warnOfMissingPackage(report: (sentence: string) => void): void {
  warn = report;
}

/** The address of a file of one of our packages; undefined for a bundle that runs where the package is not installed. */
export function packageFile(name: string, path: string): URL | undefined {
  try {
    return new URL(path, import.meta.resolve(`${name}/package.json`));
  } catch {
    if (!hasWarned) warn?.(MISSING.replace("{name}", name));
    hasWarned = warn !== undefined;
    return undefined;
  }
}

const MISSING =
  "the package {name} cannot be found from this bundle; memory is searched by words, and long texts are read in the main" +
  " thread; install the package beside the bundle (docs/bundling.md)";

/**
 * The file that a thread or a process of ours runs: a module of a package, by its path without the suffix. It is never the
 * module that starts it: a bundler puts that into the user's program, which would then start itself without end.
 */
export function workerFile(name: string, module: string): URL | undefined {
  const isSource = import.meta.url.endsWith("/ports/package-file.ts");
  return packageFile(name, isSource ? `src/${module}.ts` : `dist/${module}.js`);
}
