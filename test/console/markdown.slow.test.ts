import type { ModelClient } from "@rkat/core/ports/model";
import type { Tool } from "@rkat/core/ports/tool";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { expect, it, vi } from "vitest";
import { expectAccessible, expectUsable, openPage, withBrowser } from "../support/browser.ts";
import { hostileMarkdown } from "../support/hostile-markdown.ts";
import { serveRest } from "../support/rest-server.ts";

// A server and a browser are started, and the machine may be busy.
vi.setConfig({ testTimeout: 240_000 });

const ANSWER = `# A heading

Some **bold**, *italic* and ~~deleted~~ text with \`code\`, a [link](https://example.com/a?b=1) and https://example.org.

1. one
2. two
   - nested

| Left | Right |
| :--- | ----: |
| a    | 1     |

\`\`\`ts
const answer: string = "x"; // why
\`\`\`

\`\`\`diff
@@ -1 +1 @@
-old
+new
\`\`\`

> quoted

![a dot](data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==)
![elsewhere](https://example.com/a.png)
`;

withBrowser("Markdown in the console", () => {
  it("[G8] shows a model's Markdown with colours, tables and images, and links to elsewhere that open apart", async () => {
    const { url, runtime } = await serveRest({ model: createScriptedModel([{ text: ANSWER }]) }, { console: true });
    const session = await runtime.createSession("**Not** Markdown");
    const page = await openPage(`${url}/#/sessions/${session.id}`);
    const answer = page.locator(".block_assistant .markdown");
    await answer.getByRole("heading", { name: "A heading" }).waitFor();
    expect(await page.locator(".message.user .text").textContent()).toBe("**Not** Markdown");
    const counted = async (selector: string) => answer.locator(selector).count();
    for (const one of ["strong", "em", "s", "ol > li > ul > li", "td", "blockquote", ".code-word", ".code-comment"]) {
      expect({ one, found: await counted(one) }).not.toEqual({ one, found: 0 });
    }
    expect(await answer.locator(".diff-line.inserted").textContent()).toBe("+new\n");
    expect(await answer.locator("img").count()).toBe(1);
    const links = answer.locator("a");
    expect(
      await links.evaluateAll((all) => all.map((one) => [one.getAttribute("href"), one.getAttribute("rel")])),
    ).toEqual([
      ["https://example.com/a?b=1", "noopener noreferrer nofollow"],
      ["https://example.org", "noopener noreferrer nofollow"],
      ["https://example.com/a.png", "noopener noreferrer nofollow"],
    ]);
    expect(await answer.textContent()).toContain("link (example.com)");
    await expectUsable(page);
  });

  it("[G8] shows a tool call as its arguments, its decoded output and its duration", async () => {
    const output = { exit_code: 0, stdout: "first\nsecond\n", files: { "a.ts": { lines: 3 } } };
    const run: Tool = {
      name: "run",
      description: "runs",
      inputSchema: { type: "object" },
      execute: () => JSON.stringify(output),
    };
    const patch = "*** Begin Patch\n*** Update File: a.ts\n@@\n-old\n+new\n*** End Patch";
    const steps = [{ calls: [{ name: "run", args: { command: "ls", patch } }] }, { text: "Done." }];
    const { url, runtime } = await serveRest({ model: createScriptedModel(steps), tools: [run] }, { console: true });
    const session = await runtime.createSession("Go.");
    const page = await openPage(`${url}/#/sessions/${session.id}`);
    const line = page.getByRole("button", { name: /^▸?\s*run/ });
    await line.getByText(/^\d+ ms$/).waitFor();
    await line.click();
    const shown = page.locator(".fold-inside");
    expect(await shown.locator("pre", { hasText: "second" }).textContent()).toBe(output.stdout);
    expect(await shown.locator(".diff-line.deleted").textContent()).toBe("-old\n");
    expect(await shown.getByText("lines", { exact: true }).isVisible()).toBe(false);
    await shown.getByText("1 field: a.ts").click();
    await shown.getByText("1 field: lines").click();
    await shown.getByText("lines", { exact: true }).waitFor();
    await expectAccessible(page);
  });

  it("[G8] shows a growing answer of ten thousand messages without making its earlier blocks again", async () => {
    const { model, tell } = createToldModel();
    const { url, runtime } = await serveRest({ model }, { console: true });
    const session = await runtime.createSession();
    await session.rewrite(
      { start: 0, end: 0 },
      Array.from({ length: 10_000 }, (_, index) => messageAt(index)),
    );
    const page = await openPage(`${url}/#/sessions/${session.id}`);
    await page.getByText("Message number 9999.").waitFor();
    const turn = session.turn("Go.");
    // The stream that tells of the turn also has its deltas, which are not sent again.
    await page.locator(".message.live").waitFor();
    tell("# First\n\nA paragraph.\n\n```ts\nconst a = 1;");
    const live = page.locator(".message.live .markdown");
    await live.getByText("const a = 1;").waitFor();
    const keep =
      "for (const one of document.querySelectorAll('.live .markdown > :nth-child(-n+2)')) one.dataset.kept = 'yes'";
    await page.evaluate(keep);
    for (let row = 0; row < 200; row += 1) tell(`\nconst b${row} = "${row}";`);
    tell("\n```\n\n- a\n- b **c**\n\nThe end.");
    await live.getByText("The end.").waitFor();
    expect(await live.locator("[data-kept]").count()).toBe(2);
    expect(await live.locator("pre .code-word").count()).toBeGreaterThan(200);
    tell(undefined);
    await turn;
    await page.locator(".block_assistant:not(.live)").getByText("The end.").waitFor();
  });

  it("[G8] hides no text of a table, and shows the host of a link whose text begins with another one", async () => {
    const text = `| a | b |
| - | - |
| 1 | 2 | kept in no column |

> - | a |
>   | - |
>   | 1 | nor here |

> | e |
> | - |
> | 4 |

| c \\| d |
| --- |
| 3 |

[https://bank.example/evil.test](https://evil.test/) and https://evil.test/path`;
    const { url, runtime } = await serveRest({ model: createScriptedModel([{ text }]) }, { console: true });
    const session = await runtime.createSession("Hi.");
    const page = await openPage(`${url}/#/sessions/${session.id}`);
    const answer = page.locator(".block_assistant .markdown");
    await answer.getByText("kept in no column").waitFor({ timeout: 20_000 });
    await answer.getByText("nor here").waitFor();
    expect(await answer.locator("th").allTextContents()).toEqual(["e", "c | d"]);
    expect(await answer.locator("p").last().textContent()).toBe(
      "https://bank.example/evil.test (evil.test) and https://evil.test/path",
    );
  });

  it("[G8] runs no script and asks nobody else for anything, whatever 500 hostile answers contain", async () => {
    const { url, runtime } = await serveRest({}, { console: true });
    const session = await runtime.createSession("Hi.");
    const cases = hostileMarkdown(500);
    const asked = (content: string) => [
      { role: "user" as const, content: "Go on." },
      { role: "assistant" as const, content },
    ];
    await session.rewrite({ start: 0, end: 2 }, cases.flatMap(asked));
    const page = await openPage(`${url}/#/sessions/${session.id}`, { viewport: { width: 1_200, height: 2_000 } });
    const feed = page.getByRole("feed");
    await feed.waitFor();
    await feed.focus();
    await page.keyboard.press("Home");
    const seen = new Set<string>();
    const links = new Set<string>();
    for (let step = 0; step < 2_000 && seen.size < cases.length; step += 1) {
      const shown = (await page.evaluate(LOOK)) as { seqs: string[]; links: string[]; forbidden: string[] };
      expect(shown.forbidden).toEqual([]);
      for (const seq of shown.seqs) seen.add(seq);
      for (const link of shown.links) links.add(link);
      await page.keyboard.press("PageDown");
    }
    expect(seen.size).toBe(cases.length);
    expect([...links].filter((link) => !/^(?:https?:\/\/|mailto:)/.test(link))).toEqual([]);
    expect(links.size).toBeGreaterThan(10);
    expect(await page.evaluate("window.evil")).toBeUndefined();
    expect(page.url()).toBe(`${url}/#/sessions/${session.id}`);
  });
});

function messageAt(index: number) {
  const content = `Message number ${index}. ${"It has **some** words. ".repeat(index % 7)}`;
  return index % 2 === 0 ? { role: "user" as const, content } : { role: "assistant" as const, content };
}

/** A model that says what it is told, when it is told; undefined ends its answer. */
function createToldModel() {
  const told: (string | undefined)[] = [];
  let wake = (): void => {};
  const next = async (): Promise<string | undefined> => {
    while (told.length === 0) await new Promise<void>((resolve) => (wake = resolve));
    return told.shift();
  };
  const model: ModelClient = {
    provider: "scripted",
    modelId: "told",
    contextWindow: undefined,
    async *stream() {
      let text = "";
      for (let delta = await next(); delta !== undefined; delta = await next()) {
        text += delta;
        yield { type: "text_delta", delta };
      }
      yield { type: "block", block: { block_type: "text", data: { text } } };
      yield { type: "finish", stopReason: "end_turn", usage: { input_tokens: 10, output_tokens: 5 } };
    },
  };
  const tell = (delta: string | undefined): void => {
    told.push(delta);
    wake();
  };
  return { model, tell };
}

/** What the page shows of the answers, after the frame that shows it: their numbers, links, and what should not be there. */
const LOOK = `new Promise((tell) => requestAnimationFrame(() => requestAnimationFrame(() => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const bad = all(".message :is(script, iframe, object, embed, form, input, style, link, meta, base, svg, math, video, audio)");
  const images = all(".message img").filter((one) => !one.src.startsWith("data:image/"));
  const handlers = all(".message .markdown *").filter((one) => [...one.attributes].some(({ name }) => name.startsWith("on")));
  const open = all(".message .markdown a").filter((one) => !/noopener/.test(one.rel) || one.target !== "_blank");
  tell({
    seqs: all(".message.block_assistant[data-seq]").map((one) => one.dataset.seq),
    links: all(".message .markdown a").map((one) => one.getAttribute("href")),
    forbidden: [...bad, ...images, ...handlers, ...open].map((one) => one.outerHTML),
  });
})))`;
