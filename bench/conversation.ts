import { ANSWER, TOOL_NAME } from "./model-server.ts";

/** One way to hold the conversation of the bench; all ways send the same messages and run the same tool. */
export interface Contender {
  readonly name: string;
  /** Starts a conversation; each call of what it returns is one turn and answers with the text it ended with. */
  open(): (prompt: string) => Promise<string>;
}

export const SYSTEM_PROMPT = "You keep a ledger. Look a row up before you speak of it.";
export const OUTPUT_TOKENS_MAX = 16_384;

export const TOOL = {
  name: TOOL_NAME,
  description: "Looks up a row of the ledger.",
  inputSchema: {
    type: "object",
    properties: { account: { type: "string" }, row: { type: "integer" } },
    required: ["account", "row"],
    additionalProperties: false,
  },
  execute: (args: Readonly<Record<string, unknown>>): string => `account ${args.account}, row ${args.row}: 12.50 EUR`,
};

/** Holds a conversation and calls back around its turns; an answer that is not the server's ends the bench. */
export async function converse(
  contender: Contender,
  turns: number,
  onTurn: (turn: number) => void = () => {},
): Promise<void> {
  const ask = contender.open();
  for (let turn = 1; turn <= turns; turn += 1) {
    const text = await ask(`What does row ${turn} say?`);
    if (text !== ANSWER) throw new Error(`${contender.name} answered ${JSON.stringify(text)} in turn ${turn}`);
    onTurn(turn);
  }
}
