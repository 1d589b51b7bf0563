import type { ModelRequest } from "../../ports/model.ts";
import { type Ask, readAsks } from "./asks.ts";
import { currentTurn, isCompactionPrompt, memoriesOf, type Passage, readPassages } from "./conversation.ts";
import { runErrand, type Step, type ToolCall } from "./errands.ts";
import { answerQuestion, type Knowledge, quote } from "./recall.ts";
import { restate } from "./restate.ts";
import { fillSchema } from "./structured.ts";
import { salienceOf } from "./summary/salience.ts";
import { extractiveMemorySummary, extractiveSummary } from "./summary/summary.ts";

/** Asks beyond this in one message are left for the next. */
const ASKS_MAX = 8;
const RECAP_LINES_MAX = 8;
const SUMMARY_TOKENS_DEFAULT = 4_096;

const IDENTITY =
  "I am rkat's built-in offline model: no network, no weights. I answer only from what is in this conversation and from the tools I am given: tell me facts, then ask for them. I can also add up, summarise, and search memory.";

/** What the model says and which tools it calls. */
export interface Reply {
  readonly text: string;
  readonly calls: readonly ToolCall[];
}

/** Decides on an answer; the same request always gives the same one. */
export function composeReply(request: ModelRequest): Reply {
  const { outputSchema } = request;
  const messages = withoutSchema(request);
  const maxTokens = request.maxOutputTokens ?? SUMMARY_TOKENS_DEFAULT;
  const last = messages.findLast((message) => message.role === "user");
  if (last !== undefined && isCompactionPrompt(last)) return sayOnly(extractiveSummary(messages, { maxTokens }));
  const turn = currentTurn(messages);
  const memories = memoriesOf(turn.text);
  if (memories !== undefined) return sayOnly(extractiveMemorySummary(memories, { maxTokens }));

  const passages = readPassages(messages);
  const tools = new Set(request.tools.map((tool) => tool.name));
  const knowledge: Knowledge = { passages, tools, exchanges: turn.exchanges };
  const asks = readAsks(turn.text);
  if (outputSchema !== undefined) {
    const plain = composeText(asks, { ...knowledge, tools: new Set() });
    return sayOnly(JSON.stringify(fillSchema(outputSchema, { passages, reply: plain.text })));
  }
  const reply = composeText(asks, knowledge);
  if (!turn.hasMedia || reply.calls.length > 0) return reply;
  return sayOnly(`I cannot see images or video; I read only the text beside them.\n${reply.text}`.trim());
}

/** The conversation up to where the schema itself is sent: what a schema says of its fields is no evidence. */
function withoutSchema({ messages, outputSchema }: ModelRequest): ModelRequest["messages"] {
  if (outputSchema === undefined) return messages;
  const schema = JSON.stringify(outputSchema);
  const asked = messages.findIndex(
    (message) => message.role === "user" && typeof message.content === "string" && message.content.includes(schema),
  );
  return asked === -1 ? messages : messages.slice(0, asked);
}

function sayOnly(text: string): Reply {
  return { text, calls: [] };
}

/** Calls what must be called first, all at once; when nothing must, says everything in the order it was asked. */
function composeText(asks: readonly Ask[], knowledge: Knowledge): Reply {
  const steps = groupStatements(asks)
    .slice(0, ASKS_MAX)
    .map((ask) => takeStep(ask, knowledge));
  const calls = steps.flatMap((step) => ("call" in step ? [step.call] : []));
  if (calls.length > 0) return { text: "", calls: distinct(calls) };
  const said = steps.flatMap((step) => ("say" in step ? [step.say] : []));
  return sayOnly(said.length === 0 ? IDENTITY : [...new Set(said)].join("\n"));
}

type Group = Exclude<Ask, { kind: "statement" }> | { readonly kind: "statements"; readonly texts: readonly string[] };

/** Statements are acknowledged together, before what was asked. */
function groupStatements(asks: readonly Ask[]): Group[] {
  const texts = asks.flatMap((ask) => (ask.kind === "statement" ? [ask.text] : []));
  const others = asks.flatMap((ask): Group[] => (ask.kind === "statement" ? [] : [ask]));
  return texts.length === 0 ? others : [{ kind: "statements", texts }, ...others];
}

function takeStep(ask: Group, knowledge: Knowledge): Step {
  switch (ask.kind) {
    case "greeting":
      return { say: `Hello. ${IDENTITY}` };
    case "identity":
      return { say: IDENTITY };
    case "thanks":
      return { say: "You are welcome." };
    case "arithmetic":
      return { say: ask.answer };
    case "recap":
      return { say: recap(knowledge.passages) };
    case "task_list":
      // Without a task list, what is left to do may still have been said.
      if (knowledge.tools.has("task_list") || knowledge.exchanges.some(({ name }) => name === "task_list")) {
        return runErrand(ask, knowledge);
      }
      return answerQuestion("What are the next steps, the tasks, what is pending or remaining?", knowledge);
    case "time":
    case "task_create":
    case "shell":
      return runErrand(ask, knowledge);
    case "question":
      return answerQuestion(ask.text, knowledge);
    case "request":
      return {
        say: `I cannot do that: I only quote, add up, summarise and call tools. I keep it as asked: “${ask.text}”`,
      };
    case "statements":
      return { say: restate(ask.texts, knowledge.passages) };
  }
}

/** The most telling things said so far, in their order. */
function recap(passages: readonly Passage[]): string {
  const chosen = passages
    .filter(({ source }) => source.kind !== "tool")
    .map((passage) => ({ passage, salience: salienceOf(passage.text) }))
    .filter(({ salience }) => salience >= 0)
    .sort((a, b) => b.salience - a.salience || b.passage.order - a.passage.order)
    .slice(0, RECAP_LINES_MAX)
    .map(({ passage }) => passage)
    .sort((a, b) => a.order - b.order);
  const [only] = chosen;
  if (only === undefined) return "You have told me nothing yet.";
  if (chosen.length === 1) return quote(only);
  return ["What I have from you so far:", ...chosen.map(({ text }) => `- “${text}”`)].join("\n");
}

function distinct(calls: readonly ToolCall[]): ToolCall[] {
  return [...new Map(calls.map((call) => [JSON.stringify(call), call])).values()];
}
