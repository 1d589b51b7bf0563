import type { ToolResult, ToolUseBlock } from "@rkat/core/contract/message";
import { withoutControls } from "@rkat/core/text/terminal-text";
import type { JSX } from "preact";
import { formatDuration, formatSize } from "./format.ts";
import { Badge, Fold } from "./parts.tsx";
import { ContentView, excerpt, LongText, plainText } from "./transcript-text.tsx";

/** A tool call and its result behind one line: the name, an excerpt, the duration and the size of the result. */
export function ToolFold(props: {
  call?: ToolUseBlock;
  result?: ToolResult | undefined;
  durationMs?: number | undefined;
}): JSX.Element {
  const { call, result, durationMs } = props;
  const output = result === undefined ? "" : plainText(result.content);
  const values = call === undefined ? "" : Object.values(call.data.args).map(wordOf).join(" ");
  return (
    <Fold
      name={`tool ${call?.data.id ?? result?.tool_use_id}`}
      class="tool"
      line={
        <>
          <bdi class="mono">{call?.data.name ?? "result"}</bdi>
          <bdi class="soft fold-words">{excerpt(values || output)}</bdi>
          {durationMs !== undefined && <span class="soft">{formatDuration(durationMs)}</span>}
          {result === undefined ? (
            <Badge>no result yet</Badge>
          ) : result.is_error ? (
            <Badge tone="bad">failed</Badge>
          ) : (
            <span class="soft">{formatSize(output.length)}</span>
          )}
        </>
      }
    >
      {() => (
        <>
          {call !== undefined && <p class="soft">Arguments</p>}
          {call !== undefined && <JsonView value={call.data.args} />}
          {result !== undefined && <p class="soft">{result.is_error ? "Error" : "Result"}</p>}
          {result !== undefined && <Output result={result} text={output} />}
        </>
      )}
    </Fold>
  );
}

function wordOf(value: unknown): string {
  return typeof value === "string" ? value : (JSON.stringify(value) ?? "");
}

function Output({ result, text }: { result: ToolResult; text: string }): JSX.Element {
  const decoded = typeof result.content === "string" ? decode(text) : undefined;
  return decoded === undefined ? <ContentView content={result.content} isCode /> : <JsonView value={decoded} />;
}

/** Longer JSON is shown as text. */
const DECODED_CHARS_MAX = 100_000;

/** The object or list that a text is the JSON of. */
function decode(text: string): object | undefined {
  if (text.length > DECODED_CHARS_MAX || !/^\s*[[{]/.test(text)) return undefined;
  try {
    const value: unknown = JSON.parse(text);
    // Throws for a value that is nested too deeply to be shown.
    JSON.stringify(value);
    return typeof value === "object" && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}

const DEPTH_MAX = 5;
const LINE_CHARS_MAX = 120;
const NAMES_MAX = 4;

/** A decoded value: strings as the text they are, and what is nested behind its names. */
function JsonView({ value, depth = 0 }: { value: unknown; depth?: number }): JSX.Element {
  if (typeof value === "string") {
    const isLong = value.length > LINE_CHARS_MAX || value.includes("\n");
    return isLong ? <LongText text={value} isCode /> : <bdi class="mono">{withoutControls(value) || "(empty)"}</bdi>;
  }
  if (typeof value !== "object" || value === null) return <code class="code-number">{String(value)}</code>;
  const fields = Object.entries(value);
  if (fields.length === 0) return <code>{Array.isArray(value) ? "[]" : "{}"}</code>;
  if (depth > DEPTH_MAX) return <LongText text={JSON.stringify(value)} isCode />;
  const rows = (
    <dl class="json">
      {fields.map(([name, field]) => (
        <div key={name}>
          <dt>
            <bdi>{excerpt(name)}</bdi>
          </dt>
          <dd>
            <JsonView value={field} depth={depth + 1} />
          </dd>
        </div>
      ))}
    </dl>
  );
  if (depth === 0) return rows;
  const unit = `${Array.isArray(value) ? "item" : "field"}${fields.length === 1 ? "" : "s"}`;
  const names = Array.isArray(value) ? "" : `: ${Object.keys(value).slice(0, NAMES_MAX).join(", ")}`;
  return (
    <details>
      <summary>
        <bdi class="soft">
          {fields.length} {unit}
          {excerpt(names)}
        </bdi>
      </summary>
      {rows}
    </details>
  );
}
