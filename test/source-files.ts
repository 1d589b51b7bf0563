import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path/posix";

export interface SourceFile {
  /** From the project's root, with forward slashes. */
  readonly path: string;
  readonly text: string;
}

export interface Import {
  readonly kind: "static" | "type" | "dynamic";
  /** As written. */
  readonly specifier: string;
  /** The file of this project it names; undefined for a package or a Node builtin. */
  readonly target: string | undefined;
}

const root = join(import.meta.dirname, "..");
/** Weights of tens of megabytes hold no text to judge. */
const BINARY = /\.bin$/;
const LISTING_BYTES_MAX = 16 * 1024 * 1024;

/** Every file git knows or would take in, so that a file is checked before it is committed, too. */
export function projectFiles(): readonly SourceFile[] {
  const listing = execFileSync("git", ["ls-files", "-z", "--cached", "--others", "--exclude-standard"], {
    cwd: root,
    encoding: "utf8",
    maxBuffer: LISTING_BYTES_MAX,
  });
  const names = [...new Set(listing.split("\0"))].filter((path) => path !== "" && !BINARY.test(path));
  const paths = names.filter((path) => existsSync(join(root, path)));
  return paths.sort().map((path) => ({ path, text: readFileSync(join(root, path), "utf8") }));
}

const STATIC_IMPORT = /^(?:import|export)\s+(type\s+)?(?:[\w$*{},\s]+?\s+from\s+)?["']([^"']+)["']/gm;
const DYNAMIC_IMPORT = /\bimport\(\s*["']([^"']+)["']/g;

/** What a TypeScript file imports, in the order written: first statements, then `import()` calls. */
export function importsOf(file: SourceFile): readonly Import[] {
  const code = withoutComments(file.text);
  const target = (specifier: string) => {
    if (specifier.startsWith(".")) return join(dirname(file.path), specifier);
    const [, scoped, path = "index"] = /^(?:@rkat\/)?(\w+)(?:\/(.+))?$/.exec(specifier) ?? [];
    return packageOfPath(specifier) === undefined ? undefined : `packages/${scoped}/src/${path}.ts`;
  };
  const statements = [...code.matchAll(STATIC_IMPORT)].map(([, type, specifier = ""]): Import => {
    return { kind: type === undefined ? "static" : "type", specifier, target: target(specifier) };
  });
  const calls = [...code.matchAll(DYNAMIC_IMPORT)].map(([, specifier = ""]): Import => {
    return { kind: "dynamic", specifier, target: target(specifier) };
  });
  return [...statements, ...calls];
}

/** The text without block comments and without lines that are only a comment; line numbers are not kept. */
export function withoutComments(text: string): string {
  return text.replace(/^\s*\/\*[\s\S]*?\*\//gm, "").replace(/^\s*\/\/.*$/gm, "");
}

/** The npm package a specifier names, or undefined for a relative path or a Node builtin. */
export function packageOf(specifier: string): string | undefined {
  if (specifier.startsWith(".") || specifier.startsWith("node:")) return undefined;
  const [first = "", second = ""] = specifier.split("/");
  return first.startsWith("@") ? `${first}/${second}` : first;
}

/** Which of our packages a specifier names, without the scope. */
function packageOfPath(specifier: string): string | undefined {
  return /^(?:@rkat\/(\w+)|(rkat))(?:\/|$)/
    .exec(specifier)
    ?.slice(1)
    .find((name) => name !== undefined);
}

/** A source of a package: neither a test nor the console. */
export function isShipped(file: SourceFile): boolean {
  return /^packages\/\w+\/src\/.*\.ts$/.test(file.path) && !file.path.endsWith(".test.ts");
}
