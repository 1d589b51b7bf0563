import { basename } from "node:path/posix";
import { importsOf, isShipped, type SourceFile, withoutComments } from "./source-files.ts";
import type { Rule } from "./tidy-rules.ts";

const PROCESS_MODULES = ["node:child_process", "node:worker_threads", "playwright-core"];
/** Reads the list of files from git, which is one quick process. */
const LISTS_FILES = "test/source-files.ts";

/** Tests of the fast project start nothing by themselves, and every random choice comes from the seed of the run. */
export const testFaults: Rule = (files) => {
  const byPath = new Map(files.map((file) => [file.path, file]));
  const startsProcesses = (path: string, seen: Set<string>): boolean => {
    const file = byPath.get(path);
    if (file === undefined || seen.has(path) || isShipped(file) || path === LISTS_FILES) return false;
    seen.add(path);
    return importsOf(file).some(
      ({ specifier, target, kind }) =>
        kind !== "type" &&
        (PROCESS_MODULES.includes(specifier) || (target !== undefined && startsProcesses(target, seen))),
    );
  };
  return files.filter(isTest).flatMap((file) => {
    const isFast = /^(?!.*\.(?:process|slow)\.).*\.test\.ts$/.test(file.path);
    return [
      ...(isFast && startsProcesses(file.path, new Set())
        ? [`${file.path} starts processes: name it .process.test.ts, or .slow.test.ts where it takes minutes`]
        : []),
      ...(importsOf(file).some(({ specifier }) => specifier === "fast-check") && !file.path.endsWith("/property.ts")
        ? [`${file.path} imports fast-check: take it from test/support/property.ts, which gives it the seed of the run`]
        : []),
      ...(/seed = (?:Date\.now|Math\.random)/i.test(file.text)
        ? [`${file.path} draws a seed of its own: take testSeed() of test/support/seed.ts`]
        : []),
    ];
  });
};

const SPEC_RULE = /^- \*\*([A-Z]\d+)\*\*/gm;
const LEADING_IDS = /(?:\b(?:it|test|describe)\.(skip|todo)\(\s*)?["'`]((?:\[[A-Z]\d+\]\s*)+)/g;

/** Rules without a test, and tests that cite a rule that is not there; a skipped test proves nothing. */
export function specFaults(files: readonly SourceFile[], spec: string | undefined): readonly string[] {
  if (spec === undefined) return ["docs/spec.md is missing: write its rules as lines like `- **A1** …`"];
  const stated = [...spec.matchAll(SPEC_RULE)].map(([, id = ""]) => id);
  const cited = new Map(files.filter(isTest).flatMap((file) => citedIds(file).map((id) => [id, file.path] as const)));
  const repeated = stated.filter((id, index) => stated.indexOf(id) !== index);
  return [
    ...repeated.map((id) => `docs/spec.md states ${id} twice: give one of them its own id`),
    ...stated
      .filter((id) => !cited.has(id))
      .map((id) => `no test cites ${id} of docs/spec.md: write it("[${id}] …"), or take the rule out`),
    ...[...cited]
      .filter(([id]) => !stated.includes(id))
      .map(([id, path]) => `${path} cites ${id}, which docs/spec.md does not state: add the rule, or correct the id`),
  ];
}

function isTest(file: SourceFile): boolean {
  if (basename(file.path).startsWith("tidy")) return false;
  return file.path.endsWith(".test.ts") || /^test\/.*\.ts$/.test(file.path);
}

function citedIds(file: SourceFile): readonly string[] {
  return [...withoutComments(file.text).matchAll(LEADING_IDS)].flatMap(([, skipped, ids = ""]) =>
    skipped === undefined ? [...ids.matchAll(/[A-Z]\d+/g)].map(([id]) => id) : [],
  );
}
