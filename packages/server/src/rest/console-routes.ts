import { readdirSync, readFileSync } from "node:fs";
import { extname, join } from "node:path";
import { gzipSync } from "node:zlib";
import { RuntimeError } from "@rkat/core/contract/error";
import { builtConsoleFolder, consoleNotBuilt } from "../http/console-folder.ts";
import { type Answer, errorAnswer } from "../http/http-answer.ts";
import type { AnsweredRoute, RestRequest } from "../http/router.ts";

const TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
};

/** Allows its own files only, nothing inline and no frames: content of a session stays text. */
const PAGE_HEADERS = {
  "content-security-policy": [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' data:",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join("; "),
  "x-frame-options": "DENY",
  "referrer-policy": "no-referrer",
  "cross-origin-opener-policy": "same-origin",
  // Not cached: it names the current files.
  "cache-control": "no-cache",
};
/** A file of another content has another name. */
const FILE_HEADERS = { "cache-control": "public, max-age=31536000, immutable" };

interface PageFile {
  readonly type: string;
  readonly bytes: Uint8Array;
  readonly gzipped: Uint8Array;
}

/** The console's page and files, served without a token; its requests need one, as any client's. */
export function createConsoleRoutes(folder = builtConsoleFolder()): readonly AnsweredRoute[] {
  const page = readPage(folder);
  const open = { method: "GET", scope: undefined, isPage: true } as const;
  // Without a build the console's path says so; the plain page of operations still works.
  if (page === undefined) return [{ ...open, path: "/", serve: notBuilt }];
  const files = readFiles(join(folder, "assets"));
  return [
    { ...open, path: "/", serve: (request) => send(page, request, PAGE_HEADERS) },
    {
      ...open,
      path: "/assets/{file}",
      serve: (request) => {
        const file = files.get(request.params.file ?? "");
        return file === undefined ? nothingAt(request.path) : send(file, request, FILE_HEADERS);
      },
    },
    { ...open, path: "/docs", serve: () => REFERENCE },
  ];
}

/** Relative, so that it works behind a proxy's prefix. */
const REFERENCE: Answer = {
  status: 302,
  type: "text/plain; charset=utf-8",
  text: "the operations are shown at ./#/api\n",
  headers: { location: "./#/api" },
};

function readPage(folder: string): PageFile | undefined {
  try {
    return readPageFile(join(folder, "index.html"));
  } catch {
    return undefined;
  }
}

function readFiles(folder: string): ReadonlyMap<string, PageFile> {
  return new Map(readdirSync(folder).map((name) => [name, readPageFile(join(folder, name))]));
}

function readPageFile(path: string): PageFile {
  const bytes = readFileSync(path);
  return { type: TYPES[extname(path)] ?? "application/octet-stream", bytes, gzipped: gzipSync(bytes) };
}

function send({ type, bytes, gzipped }: PageFile, { headers }: RestRequest, more: Answer["headers"]): Answer {
  const isGzipped = /\bgzip\b(?!\s*;\s*q=0(\.0*)?\s*(,|$))/i.test(String(headers["accept-encoding"] ?? ""));
  const encoding = isGzipped ? { "content-encoding": "gzip" } : {};
  return {
    status: 200,
    type,
    text: isGzipped ? gzipped : bytes,
    headers: { ...more, ...encoding, vary: "accept-encoding" },
  };
}

function notBuilt(): Answer {
  return errorAnswer(consoleNotBuilt());
}

function nothingAt(path: string): Answer {
  return errorAnswer(new RuntimeError("METHOD_NOT_FOUND", `there is nothing at ${path}`));
}
