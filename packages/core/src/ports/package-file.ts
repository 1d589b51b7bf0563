let warn: ((sentence: string) => void) | undefined;
let hasWarned = false;

/** Sets the function that receives, once per process, the warning that the package's files are missing. */
export function warnOfMissingPackage(receiver: (sentence: string) => void): void {
  warn = receiver;
}

/** The URL of a file of the package; undefined for a bundle where the package is not installed. */
export function packageFile(path: string): URL | undefined {
  try {
    return new URL(path, import.meta.resolve("rkat/package.json"));
  } catch {
    if (!hasWarned) warn?.(MISSING);
    hasWarned = warn !== undefined;
    return undefined;
  }
}

const MISSING =
  "the package rkat cannot be found from this bundle; memory is searched by words, and long texts are read in the main" +
  " thread; install the package beside the bundle (docs/bundling.md)";

/**
 * The file that a worker or child process runs: a module of `src`, by its path without suffix. It is never the module
 * that starts it, since a bundler would make that the user's program, which would start itself without end.
 */
export function workerFile(module: string): URL | undefined {
  const isSource = packageFile("src/ports/package-file.ts")?.href === import.meta.url;
  return packageFile(isSource ? `src/${module}.ts` : `dist/${module}.js`);
}
