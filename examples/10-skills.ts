// Skills: knowledge that a model loads when it needs it, and that compactions keep word for word.
import assert from "node:assert/strict";
import { createRuntime, createScriptedModel } from "rkat";

// Twenty skills of about 2,000 tokens each, at four characters a token.
const names = Array.from({ length: 20 }, (_, at) => `team-handbook-${at + 1}`);
const textOf = (name: string) =>
  `# ${name}\n${`Rule of ${name}: check twice, then write down what was checked. `.repeat(200)}`.slice(0, 8_000);
const skills = names.map((name) => ({
  name,
  description: `How the team does part ${name.split("-").at(-1)} of its work: who decides, what is written down, and what is checked.`,
  body: textOf(name),
}));

// Stands in for a provider: it loads the skill of the part it is asked about.
const model = createScriptedModel(({ messages }) => {
  const last = messages.at(-1);
  const [, part] = (last?.role === "user" && /part (\d+)/.exec(String(last.content))) || [];
  if (part === undefined) return { text: "Understood." };
  return { calls: [{ name: "load_skill", args: { name: `team-handbook-${part}` } }] };
});
const said = () => JSON.stringify(model.requests.at(-1)?.messages);
const tokens = () => Math.round(said().length / 4);

const bare = createRuntime({ model, toolPreset: "safe" });
await bare.createSession("Hello.");
const without = tokens();

const runtime = createRuntime({ model, toolPreset: "safe", skills, compaction: { recentTurnBudget: 1 } });
const session = await runtime.createSession("Hello.");
const listed = tokens();
assert.ok(!said().includes("Rule of team-handbook-7"), "no text is there before it is asked for");

await session.turn("Do part 7 of the work.");
const loaded = tokens();
assert.ok(said().includes("Rule of team-handbook-7"), "its text follows the call");

for (const prompt of ["And now?", "And then?"]) await session.turn(prompt);
await session.compact();
await session.turn("Go on.");
const times = said().split("# team-handbook-7").length - 1;
assert.equal(times, 1, "after a compaction it stands there word for word, once");

const whole = createRuntime({ model, toolPreset: "safe", systemPrompt: skills.map(({ body }) => body).join("\n\n") });
await whole.createSession("Hello.");

console.log("| request | tokens, about |\n| --- | ---: |");
console.log(`| without skills | ${without} |`);
console.log(`| 20 skills, listed | ${listed} |`);
console.log(`| 20 skills, one of them loaded | ${loaded} |`);
console.log(`| the texts of all 20 in the prompt | ${tokens()} |`);
for (const one of [bare, runtime, whole]) await one.close();
