import { describe, expect, it } from "vitest";
import { scriptedRuntime } from "../../../../test/support/runtime.ts";
import type { ContentBlock } from "../contract/message.ts";
import { createInMemoryStore, createRuntime } from "../create-runtime.ts";
import type { ModelClient } from "../ports/model.ts";
import { createScriptedModel } from "../providers/scripted.ts";

const base64 = (text: string) => Buffer.from(text).toString("base64");
const inline = { source: "inline" } as const;
const PHOTO = base64("a heron ".repeat(2_000));
const photo: ContentBlock = { type: "image", media_type: "image/png", ...inline, data: PHOTO };
const pdf: ContentBlock = { type: "file", media_type: "application/pdf", name: "plan.pdf", ...inline, data: PHOTO };
const kept = () => ({ store: createInMemoryStore() });
const ask: ContentBlock = { type: "text", text: "What is it?" };

describe("what people send beside text", () => {
  it("[K1] images and files are kept as blobs, once, and shown to the model whole at every call", async () => {
    const { runtime, model } = scriptedRuntime([{ text: "A heron." }, { text: "The same." }], kept());
    const session = await runtime.createSession([photo, pdf, ask]);
    const { messages } = await session.context();
    expect(messages.at(-2)).toMatchObject({
      role: "user",
      content: [
        { type: "image", media_type: "image/png", source: "blob", size: 16_000 },
        { type: "file", name: "plan.pdf", source: "blob", size: 16_000 },
        ask,
      ],
    });
    expect(JSON.stringify(messages)).not.toContain(PHOTO.slice(0, 100));
    await session.turn([photo]);
    for (const { messages: sent } of model.requests) {
      expect(sent.find(({ role }) => role === "user")).toMatchObject({ content: [photo, pdf, ask] });
    }
    const ids = JSON.stringify((await session.context()).messages).match(/sha256:[0-9a-f]{64}/g);
    // A blob is its bytes: whatever they are said to be, they are kept once.
    expect(ids).toHaveLength(3);
    expect(new Set(ids).size).toBe(1);
    const { data, mediaType } = await runtime.readBlob(ids?.[0] ?? "");
    expect({ data: Buffer.from(data).toString("base64"), mediaType }).toEqual({ data: PHOTO, mediaType: "image/png" });
  });

  it("[K1] a blob that was sent before is sent again by its id", async () => {
    const { runtime, model } = scriptedRuntime([{ text: "A heron." }, { text: "Still." }], kept());
    const session = await runtime.createSession([photo]);
    const [blob_id = ""] = JSON.stringify((await session.context()).messages).match(/sha256:[0-9a-f]{64}/) ?? [];
    await session.turn([{ type: "image", media_type: "image/png", source: "blob", blob_id }, ask]);
    expect(model.requests.at(-1)?.messages.at(-1)).toMatchObject({ content: [photo, ask] });
  });

  it("[K1] images of tools are kept likewise", async () => {
    const look = {
      name: "look",
      description: "Looks.",
      inputSchema: { type: "object" },
      execute: () => ({ content: [photo] }),
    };
    const steps = [{ calls: [{ id: "c1", name: "look", args: {} }] }, { text: "A heron." }];
    const { runtime, model } = scriptedRuntime(steps, { ...kept(), tools: [look] });
    const session = await runtime.createSession("Look.");
    expect(JSON.stringify((await session.context()).messages)).not.toContain(PHOTO);
    expect(model.requests.at(-1)?.messages.at(-1)).toMatchObject({ results: [{ content: [photo] }] });
  });

  it("[K1] a file of text is text to every model, with its name", async () => {
    const { runtime, model } = scriptedRuntime([{ text: "Noted." }]);
    const notes: ContentBlock = { type: "file", media_type: "text/markdown", ...inline, data: base64("# Übung\n") };
    const json: ContentBlock = { type: "file", media_type: "application/ld+json", ...inline, data: base64("{}") };
    await runtime.createSession([{ ...notes, name: 'no"tes.md' }, json, ask]);
    expect(model.requests[0]?.messages.at(-1)).toMatchObject({
      content: [
        { type: "text", text: '<file name="no tes.md">\n# Übung\n\n</file>' },
        { type: "text", text: '<file name="">\n{}\n</file>' },
        ask,
      ],
    });
  });

  const HUGE = "A".repeat(16 * 1_024 * 1_024 + 4);
  const far = { type: "image", source: "url", url: "ftp://x/y.png" } as unknown as ContentBlock;
  it.each<[string, ContentBlock, RegExp]>([
    ["no Base64", { ...photo, data: "not base64!" } as ContentBlock, /^prompt\[1\]\.data: it is no Base64/],
    ["half of it", { ...photo, data: "QUJ" } as ContentBlock, /^prompt\[1\]\.data: it is no Base64/],
    ["too large", { ...photo, data: HUGE } as ContentBlock, /^prompt\[1\]\.data: it is larger than 12 MiB/],
    ["no text", { ...pdf, media_type: "text/plain", data: "/w==" } as ContentBlock, /^prompt\[1\]\.data: .*not UTF-8/],
    ["another file", { ...pdf, media_type: "application/zip" } as ContentBlock, /^prompt\[1\]\.media_type: .*zip/],
    ["no such blob", { type: "image", media_type: "image/png", source: "blob", blob_id: "x" }, /no blob x/],
    ["another scheme", far, /url/],
  ])("[K1] %s is refused in a sentence, and nothing is kept", async (_name, block, sentence) => {
    const store = createInMemoryStore();
    const { runtime } = scriptedRuntime([], { store });
    await expect(runtime.createSession([ask, block])).rejects.toMatchObject({
      message: expect.stringMatching(sentence),
    });
    expect(await runtime.listSessions()).toHaveLength(0);
    expect(await store.blobs.ids("", 10)).toEqual([]);
  });

  it("[K1] what a model cannot be shown is refused with the reason its provider gives", async () => {
    const scripted = createScriptedModel([{ text: "Hello." }]);
    const refuseContent: ModelClient["refuseContent"] = ({ type }) =>
      type === "file" ? "it reads no files" : undefined;
    const runtime = createRuntime({ model: { ...scripted, refuseContent, stream: scripted.stream }, env: {} });
    const session = await runtime.createSession([photo, ask]);
    await expect(session.turn([ask, pdf])).rejects.toMatchObject({
      code: "CAPABILITY_UNAVAILABLE",
      message: expect.stringMatching(
        /^prompt\[1\]: .* cannot be shown \[file: application\/pdf plan\.pdf\]: it reads no files$/,
      ),
    });
  });
});
