import { basename } from "node:path/posix";
import type { Rule } from "./tidy-rules.ts";

const FOREIGN_WORDS: readonly { readonly pattern: RegExp; readonly advice: string }[] = [
  {
    pattern: /(?<![\w.~)}\]*-])\/(?:root|work|farm|home|Users)\/[\w.]+/,
    advice: "a path of one machine: write it relative to the project",
  },
  {
    pattern: /"resolved": "https?:\/\/(?!registry\.npmjs\.org\/)[^/"]+/,
    advice: "a registry of one machine: install from the public one",
  },
  {
    pattern: /\bregistry\s*=\s*https?:\/\/\S+|\b(?:artifactory|verdaccio|jfrog\.io|npm\.pkg\.github\.com)\b/,
    advice: "a registry of one machine: leave the choice to whoever installs",
  },
];

export const foreignFaults: Rule = (files) =>
  files
    .filter((file) => !basename(file.path).startsWith("tidy"))
    .flatMap((file) =>
      FOREIGN_WORDS.flatMap(({ pattern, advice }) => {
        const [word] = pattern.exec(file.text) ?? [];
        return word === undefined ? [] : [`${file.path} says ${word}, ${advice}`];
      }),
    );

/** Words that plain English replaces: each names no subject, or is our dialect for a standard word. */
const BANNED_WORDS: readonly { readonly pattern: RegExp; readonly advice: string }[] = [
  { pattern: /\b[Ww]hoever\b/, advice: "name the subject: the caller, the client, the user, the server" },
  {
    pattern: /\b(?:[Nn]o|[Ss]ome|[Aa]ny)body\b/,
    advice: "name the subject: the caller, the client, the user, no person",
  },
  { pattern: /\b[Mm]end(?:s|ed|ing)?\b/, advice: "write fix" },
  { pattern: /\b[Bb]reathes?\b/, advice: "write yield to the event loop" },
  { pattern: /\b[Ww]aits? for a word\b/, advice: "write waits for approval" },
  { pattern: /\b[Gg]o(?:es)? on with\b/, advice: "write continue or resume" },
  { pattern: /\bthose there are\b/, advice: "write all, or list them" },
];

/** The folders that are free of these words; add one when it is. */
const PLAIN_FOLDERS: readonly string[] = [
  "packages/client/src/",
  "packages/console/",
  ...[
    "agents",
    "agent-memory",
    "config",
    "contract",
    "erasure",
    "memory",
    "permission",
    "ports",
    "providers",
    "replay",
  ].map((room) => `packages/core/src/${room}/`),
  ...["runtime", "skills", "stores", "sub-agents", "telemetry", "tools", "transfer"].map(
    (room) => `packages/core/src/${room}/`,
  ),
  "packages/node/src/",
  "packages/postgres/src/",
  "packages/rkat/src/",
  "packages/server/src/",
  "docs/",
];
/** Decisions are history. Names of files, and a caller's name on the wire, are not prose. */
const NOT_PLAIN = /^docs\/decisions\/|\.test\.tsx?$/;
const NAMES = /^import .*$|"\.\/mend\.ts"|name: "nobody"/gm;

export const wordFaults: Rule = (files) =>
  files
    .filter(({ path }) => PLAIN_FOLDERS.some((folder) => path.startsWith(folder)) && !NOT_PLAIN.test(path))
    .flatMap(({ path, text }) => {
      const prose = text.replace(NAMES, "");
      return BANNED_WORDS.flatMap(({ pattern, advice }) => {
        const [word] = pattern.exec(prose) ?? [];
        return word === undefined ? [] : [`${path} says ${word}: ${advice}`];
      });
    });
