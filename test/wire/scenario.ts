import type { ProviderConfig } from "@rkat/core/providers/provider-settings";

/** One answer of a model, in no provider's words. */
export interface Scenario {
  readonly reasoning?: { readonly text: string; readonly signature: string };
  /** As it is streamed. */
  readonly text?: readonly string[];
  readonly toolCalls?: readonly { readonly id: string; readonly name: string; readonly args: string }[];
  readonly usage?: {
    readonly input: number;
    readonly output: number;
    /** Of the input. */
    readonly cacheRead?: number;
    readonly cacheWrite?: number;
  };
  readonly stop?: "end" | "length";
  /** The provider's own compaction of what it was sent, with what only it can read. */
  readonly compaction?: { readonly opaque: string };
}

/** What a provider refuses, with the status and body it really sends. */
export type Refusal = "rate_limited" | "overloaded" | "server_error" | "context_exceeded" | "auth" | "model_not_found";

interface RefusalReply {
  readonly status: number;
  readonly body: unknown;
}

/** Calls and results a recorded request holds, in order. */
interface Conversation {
  readonly calls: readonly string[];
  readonly results: readonly string[];
  /** How many messages the calls are in; parallel calls belong in one. */
  readonly callMessages: number;
}

/** A provider's wire format: how it says an answer, how it refuses, and how its requests are read. */
export interface WireFormat {
  readonly name: string;
  readonly contentType: string;
  /** The body of an answer, cut where a server flushes. */
  render(scenario: Scenario): readonly string[];
  /** What it tells of its cache. */
  readonly countsCache: "nothing" | "reads" | "reads and writes";
  /** Whether a client can tell that an answer is over before its connection closes. */
  readonly saysWhenOver: boolean;
  /** One frame whose JSON is broken. */
  readonly brokenFrame: string;
  /** An error after the status line said 200. */
  readonly errorFrame: { readonly text: string; readonly kind: string };
  readonly refusals: Readonly<Record<Refusal, RefusalReply>>;
  /** What a request says whose answer must call a tool, or `look`, or at most one; absent where that cannot be asked for. */
  readonly forced?: { readonly required: object; readonly named: object; readonly apart?: object };
  /** Undefined where the format has no tools. */
  readConversation?(body: Json): Conversation;
  /** Signatures found in a request; undefined where the format has none. */
  readSignatures?(body: Json): readonly string[];
  /** What makes the resolver talk to a server of this format. */
  settings(url: string): WireSettings;
}

interface WireSettings {
  readonly env: Readonly<Record<string, string>>;
  readonly config: ProviderConfig;
  readonly model: string;
}

/** Parsed JSON, read loosely: a test fails on what it does not find. */
export interface Json {
  readonly [key: string]: Json;
  readonly [index: number]: Json;
}

/** A JSON list as an array; anything else is an empty one. */
export function listOf(value: Json | undefined): readonly Json[] {
  return Array.isArray(value) ? value : [];
}

/** A JSON string as text. */
export function textOf(value: Json | undefined): string {
  return String(value);
}

export function sse(data: unknown, event?: string): string {
  const text = typeof data === "string" ? data : JSON.stringify(data);
  return `${event === undefined ? "" : `event: ${event}\n`}data: ${text}\n\n`;
}
