import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { createScriptedModel } from "rkat";
import { openAgent } from "./agent.ts";

const stateFolder = mkdtempSync(join(tmpdir(), "agent-"));
after(() => rmSync(stateFolder, { recursive: true }));

/** A model that answers with what the test says: a call of a tool, then a text. */
const modelThatCalls = (name: string) =>
  createScriptedModel([{ calls: [{ name, args: { order: "A-17" } }] }, { text: "Done." }]);

test("an order is cancelled only after the customer approved", async () => {
  const runtime = await openAgent({ stateFolder, model: modelThatCalls("cancel_order") });
  const asked: string[] = [];
  const session = await runtime.createSession("Cancel A-17.", {
    onApproval: ({ calls }) => {
      asked.push(...calls.map(({ name }) => name));
      return "deny";
    },
  });
  assert.deepEqual([asked, session.text], [["cancel_order"], "Done."]);
  await runtime.close();
});

test("a stored session is resumed by the next process", async () => {
  const first = await openAgent({ stateFolder, model: "offline" });
  const { id } = await first.createSession("The staging port is 4711.");
  await first.close();
  const second = await openAgent({ stateFolder, model: "offline" });
  const { text } = await second.session(id).turn("What is the staging port?");
  assert.match(text, /4711/);
  await second.close();
});
