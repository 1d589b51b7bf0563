import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { RuntimeError } from "@rkat/core/contract/error";
import { builtConsoleFolder } from "../http/host.ts";
import { type Answer, errorAnswer } from "../http/http-answer.ts";
import type { AnsweredRoute } from "../http/router.ts";

/** The documentation for models, which the build places in the package. It is the same for all, so no token is needed. */
export function createDocsRoutes(folder = dirname(builtConsoleFolder())): readonly AnsweredRoute[] {
  const known = new Map<string, string>();
  const read = (name: string): string | undefined => {
    try {
      if (!known.has(name)) known.set(name, readFileSync(join(folder, name), "utf8"));
    } catch {
      // In a clone that is not built there is none.
    }
    return known.get(name);
  };
  const open = { method: "GET", scope: undefined, isPage: true } as const;
  return [
    { ...open, path: "/llms.txt", serve: () => send(read("llms.txt"), "text/plain") },
    { ...open, path: "/llms-full.txt", serve: () => send(read("llms-full.txt"), "text/plain") },
    {
      ...open,
      path: "/docs/{page}",
      serve: ({ params }) => {
        const parts = read("llms-full.txt")?.split(/^<!-- docs\/([\w-]+\.md) -->\n/m) ?? [];
        // A name, then its text.
        const at = parts.indexOf(params.page ?? "");
        return send(at < 0 ? undefined : parts[at + 1], "text/markdown");
      },
    },
  ];
}

function send(text: string | undefined, type: string): Answer {
  if (text === undefined) return errorAnswer(new RuntimeError("METHOD_NOT_FOUND", "there is no such page here"));
  return { status: 200, type: `${type}; charset=utf-8`, text, headers: { "cache-control": "no-cache" } };
}
