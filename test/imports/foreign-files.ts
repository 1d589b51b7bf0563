/** Conversations drawn from a seed, and their files as other programs write them. Every text has a mark of its own. */

interface Call {
  readonly id: string;
  readonly name: string;
  readonly args: { readonly note: string };
  /** Absent where the program ended before the call. */
  readonly result?: string;
  readonly isError: boolean;
  readonly image: boolean;
}

interface Answer {
  readonly thinking?: string;
  readonly text?: string;
  readonly calls: readonly Call[];
}

interface Exchange {
  readonly user: string;
  readonly image: boolean;
  readonly answers: readonly Answer[];
  /** The summary of a compaction behind it. */
  readonly summary?: string;
}

export interface Drawn {
  readonly id: string;
  readonly exchanges: readonly Exchange[];
}

const PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const URL = `data:image/png;base64,${PIXEL}`;

/** The same numbers for the same seed. */
function randomFrom(seed: number): (below: number) => number {
  let state = seed >>> 0;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

export function drawConversation(seed: number, { exchanges = 4 } = {}): Drawn {
  const random = randomFrom(seed);
  let marks = 0;
  let calls = 0;
  const mark = (what: string): string => {
    marks += 1;
    return `${what} mk${seed}n${marks}x`;
  };
  const nextId = (): string => {
    calls += 1;
    return `call_${seed}_${calls}`;
  };
  const drawCall = (mayMiss: boolean): Call => ({
    id: nextId(),
    name: ["Read", "shell", "mcp__pond__look"][random(3)] ?? "Read",
    args: { note: mark("argument") },
    ...(mayMiss && random(4) === 0 ? {} : { result: mark("result é 漢") }),
    isError: random(5) === 0,
    image: random(6) === 0,
  });
  const drawAnswer = (mayMiss: boolean): Answer => ({
    ...(random(2) === 0 ? { thinking: mark("thought") } : {}),
    ...(random(3) > 0 ? { text: mark("answer") } : {}),
    calls: Array.from({ length: random(4) }, () => drawCall(mayMiss)),
  });
  const hex = seed.toString(16).padStart(12, "0");
  return {
    id: `0199aaaa-bbbb-7ccc-8ddd-${hex}`,
    exchanges: Array.from({ length: 1 + random(exchanges) }, () => ({
      user: mark("question"),
      image: random(5) === 0,
      answers: Array.from({ length: random(4) }, () => drawAnswer(random(3) === 0)),
      ...(random(4) === 0 ? { summary: mark("summary") } : {}),
    })),
  };
}

export const CWD = "/projects/pond";
const at = (step: number): string => new Date(Date.UTC(2026, 0, 2, 3, 4, step)).toISOString();
const linesOf = (values: readonly object[]): string => values.map((value) => `${JSON.stringify(value)}\n`).join("");
const saidBy = ({ thinking, text, calls }: Answer): boolean => Boolean(thinking || text) || calls.length > 0;

export function asClaudeCode({ id: sessionId, exchanges }: Drawn): string {
  const lines: object[] = [{ type: "file-history-snapshot", messageId: "x", snapshot: {} }];
  let parentUuid: string | null = null;
  const line = (fields: object): void => {
    const uuid = `${sessionId}-${lines.length}`;
    const usual = { parentUuid, isSidechain: false, cwd: CWD, sessionId, version: "2.0.1", uuid };
    lines.push({ ...usual, timestamp: at(lines.length), ...fields });
    parentUuid = uuid;
  };
  for (const [number, exchange] of exchanges.entries()) {
    const image = { type: "image", source: { type: "base64", media_type: "image/png", data: PIXEL } };
    const content = exchange.image ? [{ type: "text", text: exchange.user }, image] : exchange.user;
    line({ type: "user", message: { role: "user", content } });
    for (const [step, answer] of exchange.answers.entries()) {
      const { thinking, text, calls } = answer;
      const said = (block: object): void =>
        line({
          type: "assistant",
          message: { id: `msg_${number}_${step}`, role: "assistant", model: "claude-sonnet-5-5", content: [block] },
        });
      if (thinking !== undefined) said({ type: "thinking", thinking, signature: "c2ln" });
      if (text !== undefined) said({ type: "text", text });
      for (const { id, name, args } of calls) said({ type: "tool_use", id, name, input: args });
      for (const { id, result, isError, image: hasImage } of calls.toReversed()) {
        if (result === undefined) continue;
        const parts = [{ type: "text", text: result }, image];
        const block = { type: "tool_result", tool_use_id: id, content: hasImage ? parts : result, is_error: isError };
        line({ type: "user", message: { role: "user", content: [block] }, toolUseResult: { stdout: "long" } });
      }
    }
    if (exchange.summary === undefined) continue;
    line({ type: "system", subtype: "compact_boundary", compactMetadata: { trigger: "auto", preTokens: 9 } });
    line({ type: "user", isCompactSummary: true, message: { role: "user", content: exchange.summary } });
  }
  return linesOf(lines);
}

function itemsOf({ exchanges }: Drawn): { readonly item: object; readonly compacted?: string }[] {
  return exchanges.flatMap(({ user, image, answers, summary }) => [
    {
      item: {
        type: "message",
        role: "user",
        content: [{ type: "input_text", text: user }, ...(image ? [{ type: "input_image", image_url: URL }] : [])],
      },
    },
    ...answers
      .flatMap(({ thinking, text, calls }) => [
        ...(thinking === undefined
          ? []
          : [{ type: "reasoning", summary: [{ type: "summary_text", text: thinking }], encrypted_content: "gAAA" }]),
        ...(text === undefined
          ? []
          : [{ type: "message", role: "assistant", content: [{ type: "output_text", text }] }]),
        ...calls.map(({ id, name, args }) => ({
          type: "function_call",
          name,
          arguments: JSON.stringify(args),
          call_id: id,
        })),
        ...calls.flatMap(({ id, result, isError }) =>
          result === undefined
            ? []
            : [
                {
                  type: "function_call_output",
                  call_id: id,
                  output: isError ? { content: result, success: false } : result,
                },
              ],
        ),
      ])
      .map((item) => ({ item })),
    ...(summary === undefined ? [] : [{ item: {}, compacted: summary }]),
  ]);
}

export function asCodex(drawn: Drawn): string {
  const lines: object[] = [
    { timestamp: at(0), type: "session_meta", payload: { id: drawn.id, cwd: CWD, originator: "codex_cli_rs" } },
    { timestamp: at(0), type: "turn_context", payload: { cwd: CWD, model: "gpt-5.5-codex" } },
  ];
  for (const { item, compacted } of itemsOf(drawn)) {
    const timestamp = at(lines.length);
    if (compacted === undefined) lines.push({ timestamp, type: "response_item", payload: item });
    else lines.push({ timestamp, type: "compacted", payload: { message: compacted, replacement_history: [] } });
    lines.push({ timestamp, type: "event_msg", payload: { type: "token_count", info: null } });
  }
  return linesOf(lines);
}

function asResponses(drawn: Drawn): string {
  const items = itemsOf(drawn).flatMap(({ item, compacted }) => (compacted === undefined ? [item] : []));
  return JSON.stringify({ id: drawn.id, model: "gpt-5.5", input: items });
}

export function asPi({ id, exchanges }: Drawn): string {
  const lines: object[] = [{ type: "session", version: 3, id, timestamp: at(0), cwd: CWD }];
  let parentId: string | null = null;
  const entry = (fields: object): string => {
    const own = `e${lines.length}`;
    lines.push({ id: own, parentId, timestamp: at(lines.length), ...fields });
    parentId = own;
    return own;
  };
  for (const { user, image, answers, summary } of exchanges) {
    const picture = { type: "image", data: PIXEL, mimeType: "image/png" };
    const content = image ? [{ type: "text", text: user }, picture] : user;
    const asked = entry({ type: "message", message: { role: "user", content } });
    for (const { thinking, text, calls } of answers.filter(saidBy)) {
      const blocks = [
        ...(thinking === undefined ? [] : [{ type: "thinking", thinking }]),
        ...(text === undefined ? [] : [{ type: "text", text }]),
        ...calls.map(({ id: call, name, args }) => ({ type: "toolCall", id: call, name, arguments: args })),
      ];
      entry({ type: "message", message: { role: "assistant", model: "pi-model", content: blocks } });
      for (const { id: call, name, result, isError, image: hasImage } of calls) {
        if (result === undefined) continue;
        const parts = [{ type: "text", text: result }, ...(hasImage ? [picture] : [])];
        const message = { role: "toolResult", toolCallId: call, toolName: name, content: parts, isError };
        entry({ type: "message", message });
      }
    }
    if (summary !== undefined) entry({ type: "compaction", summary, firstKeptEntryId: asked, tokensBefore: 9 });
  }
  return linesOf(lines);
}

export function asOpencode({ id, exchanges }: Drawn): string {
  const messages: object[] = [];
  const message = (info: object, parts: readonly object[]): void => {
    messages.push({
      info: { id: `msg_${messages.length}`, time: { created: Date.parse(at(messages.length)) }, ...info },
      parts,
    });
  };
  for (const { user, image, answers, summary } of exchanges) {
    const picture = { type: "file", mime: "image/png", filename: "../a.png", url: URL };
    message({ role: "user" }, [{ type: "text", text: user }, ...(image ? [picture] : [])]);
    for (const { thinking, text, calls } of answers) {
      message({ role: "assistant", modelID: "claude-sonnet-5-5", providerID: "anthropic" }, [
        { type: "step-start" },
        ...(thinking === undefined ? [] : [{ type: "reasoning", text: thinking }]),
        ...(text === undefined ? [] : [{ type: "text", text }]),
        ...calls.map(({ id: callID, name, args, result, isError, image: hasImage }) => {
          const attachments = hasImage ? { attachments: [picture] } : {};
          const ended = isError
            ? { status: "error", error: result, ...attachments }
            : { status: "completed", output: result, ...attachments };
          return {
            type: "tool",
            callID,
            tool: name,
            state: { input: args, ...(result === undefined ? { status: "running" } : ended) },
          };
        }),
        { type: "step-finish" },
      ]);
    }
    if (summary === undefined) continue;
    message({ role: "user" }, [{ type: "compaction", auto: true }]);
    message({ role: "assistant", summary: true, modelID: "m" }, [{ type: "text", text: summary }]);
  }
  return JSON.stringify({ info: { id: `ses_${id}`, directory: CWD, title: "pond" }, messages });
}

export function asChat({ id, exchanges }: Drawn): string {
  const messages = exchanges.flatMap(({ user, image, answers }) => [
    {
      role: "user",
      content: image
        ? [
            { type: "text", text: user },
            { type: "image_url", image_url: { url: URL } },
          ]
        : user,
    },
    ...answers
      .filter(({ text, calls }) => text !== undefined || calls.length > 0)
      .flatMap(({ text, calls }) => [
        {
          role: "assistant",
          content: text ?? null,
          ...(calls.length === 0
            ? {}
            : {
                tool_calls: calls.map(({ id: call, name, args }) => ({
                  id: call,
                  type: "function",
                  function: { name, arguments: JSON.stringify(args) },
                })),
              }),
        },
        ...calls.flatMap(({ id: call, result }) =>
          result === undefined ? [] : [{ role: "tool", tool_call_id: call, content: result }],
        ),
      ]),
  ]);
  return JSON.stringify({ id, messages });
}

export function asUiMessages({ id, exchanges }: Drawn): string {
  const messages = exchanges.flatMap(({ user, image, answers }, number) => [
    {
      id: `u${number}`,
      role: "user",
      parts: [{ type: "text", text: user }, ...(image ? [{ type: "file", mediaType: "image/png", url: URL }] : [])],
    },
    {
      id: `a${number}`,
      role: "assistant",
      metadata: { createdAt: Date.parse(at(number)), model: "gpt-5.5" },
      parts: answers.flatMap(({ thinking, text, calls }) => [
        { type: "step-start" },
        ...(thinking === undefined ? [] : [{ type: "reasoning", text: thinking, state: "done" }]),
        ...(text === undefined ? [] : [{ type: "text", text, state: "done" }]),
        ...calls.map(({ id: toolCallId, name, args, result, isError }) => {
          const ended = isError
            ? { state: "output-error", errorText: result }
            : { state: "output-available", output: result };
          return {
            type: `tool-${name}`,
            toolCallId,
            input: args,
            ...(result === undefined ? { state: "input-available" } : ended),
          };
        }),
      ]),
    },
  ]);
  return JSON.stringify({ id, messages });
}

/** The writers by format, with the name of a file of it. */
export const WRITERS = {
  "claude-code": { write: asClaudeCode, file: ({ id }: Drawn) => `${id}.jsonl` },
  codex: { write: asCodex, file: ({ id }: Drawn) => `rollout-2026-01-02T03-04-00-${id}.jsonl` },
  pi: { write: asPi, file: ({ id }: Drawn) => `2026-01-02_${id}.jsonl` },
  opencode: { write: asOpencode, file: ({ id }: Drawn) => `ses_${id}.json` },
  responses: { write: asResponses, file: () => "responses.json" },
  "ui-messages": { write: asUiMessages, file: () => "chat.json" },
  openai: { write: asChat, file: () => "messages.json" },
} as const;

/** Every mark in a text, read without knowledge of the format. */
export function marksIn(text: string): readonly string[] {
  return text.match(/mk\d+n\d+x/g) ?? [];
}
