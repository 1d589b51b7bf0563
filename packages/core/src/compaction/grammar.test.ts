import { describe, expect, it } from "vitest";
import { createRandom } from "../../../../test/crash/random.ts";
import {
  answer,
  answerThat,
  calls,
  GEMINI,
  ITEM,
  notice,
  PLANTED,
  results,
  SIGNED,
  says,
  system,
  thinks,
  user,
} from "../../../../test/support/planted-histories.ts";
import { fc } from "../../../../test/support/property.ts";
import { type Random, randomHistory } from "../../../../test/support/random-history.ts";
import type { AssistantBlock, Message, ToolResult } from "../contract/message.ts";
import { INTERRUPTED } from "../turn/tool-batch.ts";
import { grammarFaults } from "./grammar.ts";

const closed = (tool_use_id: string): ToolResult => ({ tool_use_id, content: INTERRUPTED, is_error: true });
const searched: AssistantBlock = { block_type: "server_tool_content", data: { name: "web_search", content: {} } };
const drawn: AssistantBlock = { block_type: "image", data: { media_type: "image/png", data: "iVBORw0KGgo=" } };
const other = thinks({ provider: "unknown", metadata: { bedrock: { signature: "c2ln" } } });
const redacted = thinks({ provider: "anthropic_redacted", data: "cmVk" }, "");
const seen: ToolResult = {
  tool_use_id: "a",
  content: [
    { type: "text", text: "a screenshot" },
    { type: "image", source: "inline", media_type: "image/png", data: "iVBORw0KGgo=" },
  ],
  is_error: false,
};

describe("bad histories", () => {
  it.each(PLANTED)("[C14] $name is refused by those that cannot take it", ({ messages, refusedBy }) => {
    expect(grammarFaults(messages).map((fault) => fault.grammar)).toEqual(refusedBy);
  });

  it("[C14] a fault says what is wrong, and where", () => {
    const messages = [system(), user(), answer(calls("a"), calls("b")), results("b"), user("go on")];
    const fault = "the call a has no result before the user message 4";
    expect(grammarFaults(messages)).toEqual([
      { grammar: "anthropic", at: 2, fault },
      { grammar: "openai-chat", at: 2, fault },
      { grammar: "openai-responses", at: 2, fault },
      { grammar: "gemini", at: 2, fault: "the call a has no result in the results 3 of its batch" },
    ]);
  });
});

const GOOD: readonly { readonly name: string; readonly messages: readonly Message[] }[] = [
  { name: "nothing", messages: [] },
  { name: "a system prompt alone", messages: [system()] },
  { name: "an idle conversation", messages: [system(), user(), answer(says())] },
  {
    name: "consecutive user messages and notices",
    messages: [notice(), user(), notice(), notice(), user("and quick")],
  },
  { name: "a summary as the first user message", messages: [system(), user("[Context compacted] …"), user("go on")] },
  {
    name: "a summary and a tail that begins with an answer",
    messages: [user("[…] …"), answer(calls("a")), results("a")],
  },
  {
    name: "parallel tools, answered in another order, and a notice after them",
    messages: [user(), answer(says(), calls("a"), calls("b")), results("b", "a"), notice(), answer(says())],
  },
  { name: "calls closed as interrupted", messages: [user(), answer(calls("a")), results(closed("a")), user("again")] },
  {
    name: "images of a tool and of an answer",
    messages: [user(), answer(calls("a")), results(seen), answer(says(), drawn)],
  },
  { name: "an answer that was cut off", messages: [user(), answerThat("cancelled", says("the par")), user("again")] },
  {
    name: "an answer that was cut off while it thought and called",
    messages: [user(), answerThat("cancelled", says("the par"), thinks(SIGNED), calls("a")), user("again")],
  },
  {
    name: "two answers in a row, once nothing stands between them",
    messages: [user(), answer(says()), answer(says())],
  },
  {
    name: "thinking, redacted thinking and a step without",
    messages: [
      user(),
      answer(thinks(SIGNED), redacted, says(), calls("a")),
      results("a"),
      answer(calls("b")),
      results("b"),
    ],
  },
  {
    name: "thinking that comes up again after a tool of the server",
    messages: [user(), answer(says("I will search"), searched, thinks(SIGNED), says())],
  },
  {
    name: "thinking without a signature in a cycle that is over",
    messages: [user(), answer(thinks(SIGNED), calls("a")), results("a"), answer(thinks(), says()), user("go on")],
  },
  {
    name: "thinking that led to nothing, in the middle and at the end",
    messages: [user(), answer(thinks(SIGNED)), user()],
  },
  {
    name: "reasoning whose answer is gone",
    messages: [user(), answer(thinks(ITEM)), user(), answer(thinks(ITEM), says())],
  },
  {
    name: "blocks of one reasoning item",
    messages: [user(), answer(thinks(ITEM), thinks(ITEM), calls("a")), results("a")],
  },
  { name: "a call of Gemini and the empty text it signs", messages: [user(), answer(says("", GEMINI)), user()] },
  {
    name: "parallel calls of which Gemini signed the first",
    messages: [user(), answer(thinks(GEMINI), calls("a", GEMINI), calls("b")), results("a", "b")],
  },
  {
    name: "answers of every provider in one session",
    messages: [
      ...[user(), answer(thinks(SIGNED), says())],
      ...[user(), answer(thinks(ITEM), calls("a", { provider: "open_ai", id: "fc_1" })), results("a"), answer(says())],
      ...[user(), answer(thinks(GEMINI), calls("b", GEMINI)), results("b"), answer(says())],
      ...[user(), answer(other, says()), user(), answer(thinks(), says())],
    ],
  },
  { name: "blank text and answers of nothing", messages: [user(), answer(says(" ")), user(), answer(), user()] },
];

describe("good histories", () => {
  it.each(GOOD)("[C14] everybody takes $name", ({ messages }) => {
    expect(grammarFaults(messages)).toEqual([]);
  });

  it("[C14] everybody takes what sessions are like", () => {
    const takes = (seed: number): void => {
      expect(grammarFaults(randomHistory(createRandom(seed)))).toEqual([]);
    };
    fc.assert(fc.property(fc.nat(), takes), { numRuns: 20_000 });
  });

  it("[C14] a context of 20,000 messages is judged within the time of a test", () => {
    const messages: Message[] = [system()];
    for (let turn = 0; turn < 5_000; turn += 1) {
      messages.push(user(), answer(thinks(SIGNED), calls(`call_${turn}`)), results(`call_${turn}`), answer(says()));
    }
    expect(grammarFaults(messages)).toEqual([]);
  });
});

/** A history that something went wrong with; undefined where there is nothing to go wrong. */
type Mutation = (messages: readonly Message[], random: Random) => readonly Message[] | undefined;

const at = (random: Random, length: number): number => Math.floor(random() * length);

const dropOneOf =
  (role: Message["role"]): Mutation =>
  (messages, random) => {
    const places = messages.flatMap((message, index) => (message.role === role && isOfTools(message) ? [index] : []));
    const dropped = places[at(random, places.length)];
    return dropped === undefined ? undefined : messages.toSpliced(dropped, 1);
  };

function isOfTools(message: Message): boolean {
  if (message.role === "tool_results") return true;
  return message.role === "block_assistant" && message.blocks.some((block) => block.block_type === "tool_use");
}

const dropOneResult: Mutation = (messages, random) => {
  const places = messages.flatMap((message, index) => (message.role === "tool_results" ? [index] : []));
  const place = places[at(random, places.length)] ?? -1;
  const message = messages[place];
  if (message?.role !== "tool_results") return undefined;
  const left = message.results.toSpliced(at(random, message.results.length), 1);
  return messages.with(place, { ...message, results: left });
};

const dropAny: Mutation = (messages, random) => messages.toSpliced(at(random, messages.length), 1);

const duplicateAny: Mutation = (messages, random) => {
  const place = at(random, messages.length);
  return messages.toSpliced(place, 0, ...messages.slice(place, place + 1));
};

const duplicateOfTools: Mutation = (messages, random) => {
  const place = at(random, messages.length);
  const message = messages[place];
  return message !== undefined && isOfTools(message) ? messages.toSpliced(place, 0, message) : undefined;
};

const swapAny: Mutation = (messages, random) => {
  const [one, two] = [at(random, messages.length), at(random, messages.length)];
  const [first, second] = [messages[one], messages[two]];
  const isSame = first === undefined || second === undefined || first.role === second.role;
  return isSame ? undefined : messages.with(one, second).with(two, first);
};

describe("mutations of good histories", () => {
  // Where less than all is caught, the rest is harmless: without one user message a conversation is still one.
  it.each([
    { name: "a call is dropped", mutate: dropOneOf("block_assistant"), share: 1 },
    { name: "results are dropped", mutate: dropOneOf("tool_results"), share: 1 },
    { name: "one result is dropped", mutate: dropOneResult, share: 1 },
    { name: "a call or its results are duplicated", mutate: duplicateOfTools, share: 1 },
    { name: "any message is dropped", mutate: dropAny, share: 0.5 },
    { name: "any message is duplicated", mutate: duplicateAny, share: 0.5 },
    { name: "any two messages change places", mutate: swapAny, share: 0.75 },
  ])("[C14] at least $share of the histories in which $name are refused", ({ mutate, share }) => {
    let mutants = 0;
    let caught = 0;
    for (let seed = 0; seed < 3_000; seed += 1) {
      const random = createRandom(seed);
      const mutant = mutate(randomHistory(random), random);
      if (mutant === undefined) continue;
      mutants += 1;
      if (grammarFaults(mutant).length > 0) caught += 1;
    }
    expect(mutants).toBeGreaterThan(1_000);
    expect(caught / mutants).toBeGreaterThanOrEqual(share);
  });
});
