// The site of the pages in docs/: `npm run site` writes it to docs/.vitepress/dist. It fetches nothing.
import { copyFileSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { defineConfig } from "vitepress";

const docs = resolve(import.meta.dirname, "..");
const { GITHUB_REPOSITORY, GITHUB_SERVER_URL = "https://github.com", SITE_BASE = "/" } = process.env;
/** The repository that a build in a workflow links to; elsewhere its files are named without a link. */
const home = GITHUB_REPOSITORY && `${GITHUB_SERVER_URL}/${GITHUB_REPOSITORY}`;

/** The pages by what a reader wants; what is in no group is refused below. */
const GROUPS: Readonly<Record<string, readonly string[]>> = {
  "Get started": ["tutorial", "quick-start", "cookbook", "sdk", "programs", "models", "compared"],
  "Sessions and memory": ["compaction", "agents", "skills", "agents-md", "sub-agents", "hooks"],
  "Work and time": ["durable-turns", "inbox", "schedules"],
  "From other agents": [
    "connect",
    ...["claude-code", "codex", "opencode", "pi", "openai", "ai-sdk"].map((name) => `migrate/${name}`),
  ],
  "Tools and permissions": ["permissions", "mcp-servers", "tokens", "money", "security"],
  Surfaces: ["terminal", "console", "serving", "openai", "ui-chat", "ai-sdk", "acp", "cli"],
  Data: ["privacy", "encryption", "export", "backup", "retention", "upgrading"],
  Operation: ["deployment", "scale", "telemetry", "bundling", "conformance"],
  Reference: ["configuration", "operations", "errors", "capabilities"],
  Internals: ["architecture", "spec", "style", "glossary", "measured", "compared-measured", "releases"],
};

/** What the theme lacks for readers who need contrast, and for a button whose name is its text. */
const STYLE = `.DocSearch-Button-Keys { display: none !important }
:root { --vp-button-brand-bg: #3451b2; --vp-code-lang-color: var(--vp-c-text-2) }`;

const titleOf = (name: string): string => /^# (.*)$/m.exec(readFileSync(join(docs, `${name}.md`), "utf8"))?.[1] ?? name;

export default defineConfig({
  title: "rkat",
  description: "A runtime for agent sessions that outlive any context window.",
  lang: "en",
  base: SITE_BASE,
  srcExclude: ["decisions/**"],
  head: [
    ["link", { rel: "icon", href: "data:," }],
    ["style", {}, STYLE],
  ],
  cleanUrls: true,
  // Links to files of the repository are rewritten below.
  ignoreDeadLinks: "localhostLinks",
  vite: {
    build: { chunkSizeWarningLimit: 2_000 },
  },
  themeConfig: {
    nav: [
      { text: "Tutorial", link: "/tutorial" },
      { text: "Cookbook", link: "/cookbook" },
      { text: "SDK", link: "/sdk" },
      { text: "Measured", link: "/measured" },
    ],
    sidebar: Object.entries(GROUPS).map(([text, names]) => ({
      text,
      items: names.map((name) => ({ text: titleOf(name), link: `/${name}` })),
    })),
    search: { provider: "local" },
    outline: [2, 3],
  },
  markdown: {
    theme: { light: "github-light-high-contrast", dark: "github-dark-high-contrast" },
    config: (markdown) => {
      markdown.core.ruler.push("repository-links", ({ tokens }) => {
        let isOnlyNamed = false;
        for (const token of tokens.flatMap(({ children }) => children ?? [])) {
          const href = token.attrGet("href");
          if (token.type === "link_close" && isOnlyNamed) token.tag = "span";
          if (token.type !== "link_open" || href === null) continue;
          isOnlyNamed = false;
          if (/^(?:https?:|#|(?:migrate\/)?[\w-]+\.md)/.test(href) || href.startsWith("pictures/")) continue;
          if (home) token.attrSet("href", `${home}/blob/main/${join("docs", href)}`);
          else {
            isOnlyNamed = true;
            Object.assign(token, { tag: "span", attrs: null });
          }
        }
      });
    },
  },
  buildEnd: ({ outDir, pages }) => {
    const listed = new Set(Object.values(GROUPS).flat());
    const ours = pages.filter((page) => page !== "index.md");
    const missing = ours.filter((page) => !listed.has(page.replace(/\.md$/, "")));
    if (missing.length > 0) throw new Error(`${missing.join(", ")}: add each to a group of the site's config`);
    // Each page has its source beside it, for models and for people who copy.
    for (const page of ours) copyFileSync(join(docs, page), join(outDir, page));
    const index = readFileSync(join(docs, "../llms.txt"), "utf8");
    writeFileSync(join(outDir, "llms.txt"), index.replaceAll("](docs/", "]("));
    writeFileSync(join(outDir, "llms-full.txt"), ours.map((page) => readFileSync(join(docs, page), "utf8")).join("\n"));
  },
});
