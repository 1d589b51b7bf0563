import type { Message } from "../../../contract/message.ts";

/** Why a provider would refuse a context, and at which of its messages. */
export interface Fault {
  readonly at: number;
  readonly fault: string;
}

/** The first fault a rule finds in a context. */
export type Rule = (messages: readonly Message[]) => Fault | undefined;
