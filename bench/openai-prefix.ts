// What finding the session of a stateless conversation costs, by how long the conversation is: CPU of the process.
import { createInMemoryStore, createRuntime, createScriptedModel } from "@rkat/node";
import { readTalk } from "@rkat/server/openai/chat-messages";
import { runChat } from "@rkat/server/openai/chat-routes";
import { createConversations, hashTalk } from "@rkat/server/openai/conversations";
import { publish } from "./report.ts";

const LENGTHS = [100, 500, 1_000, 2_000];
const ROUNDS = 400;
/** Finding, besides reading the request, may become so much dearer from the shortest to the longest. */
const GROWTH_MAX = 2;
const TEXT = "The heron stands in the reeds and looks at the water for a long while. ".repeat(3);

const model = createScriptedModel(({ messages }) => ({ text: `${TEXT} ${messages.length}` }));
const runtime = createRuntime({ model, env: {}, store: createInMemoryStore() });
const party = { caller: "bench", system: undefined, marks: [] };
const messages: { role: "user" | "assistant"; content: string }[] = [];
const readings: { length: number; reading: number; hashing: number; finding: number; cold: number }[] = [];
let conversations = createConversations();

for (const length of LENGTHS) {
  while (messages.length < length) {
    messages.push({ role: "user", content: `${TEXT} ${messages.length}` });
    const talk = readTalk(messages);
    const chat = { talk, party, named: undefined, creation: { labels: {} }, continuation: {} };
    const { text } = await runChat(runtime, conversations, chat, { found: () => {} });
    messages.push({ role: "assistant", content: text });
  }
  const asked = [...messages, { role: "user" as const, content: "And?" }];
  const { said } = readTalk(asked);
  const hashed = hashTalk(party, said);
  const find = () => conversations.find(runtime, hashed);
  await find();
  const reading = await cpu(() => readTalk(asked));
  const hashing = await cpu(() => hashTalk(party, said));
  const finding = await cpu(find);
  conversations = createConversations();
  const cold = await cpu(find, 1);
  readings.push({ length, reading, hashing, finding, cold });
}
await runtime.close();

const [short, long] = [readings[0], readings.at(-1)];
if (short === undefined || long === undefined) throw new Error("two lengths are compared");
await publish({
  name: "openai-prefix",
  tables: [
    [
      ["messages", "reading the request, ms", "hashing it, ms", "finding, ms", "finding after a restart, ms"],
      ...readings.map(({ length, reading, hashing, finding, cold }) => [
        String(length),
        ...[reading, hashing, finding, cold].map((ms) => ms.toFixed(3)),
      ]),
    ],
  ],
  targets: [{ what: "finding in 2,000 messages over in 100", value: long.finding / short.finding, max: GROWTH_MAX }],
  measured: readings,
});

/** Milliseconds of CPU of one round. */
async function cpu(work: () => unknown, rounds = ROUNDS): Promise<number> {
  const before = process.cpuUsage();
  for (let round = 0; round < rounds; round += 1) await work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000 / rounds;
}
