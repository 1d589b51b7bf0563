import type { SessionHistory } from "@rkat/core/contract/session-info";
import { withoutControls } from "@rkat/core/text/terminal-text";
import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { Fold, useRequest } from "./parts.tsx";
import { linkTo, route } from "./router.ts";
import { call } from "./server.ts";
import type { SessionView } from "./session-view.ts";

const ANSWER_MESSAGES_MAX = 100;

/** The route of a session in which a message of another was edited and run again. */
export function comparisonLink(id: string, source: { readonly id: string; readonly index: number }): string {
  return linkTo(["sessions", id], { compared: source.id, at: source.index });
}

/** Compares the answers to a message: the one in the source session, and the one to its edited version here. */
export function Comparison({ view }: { view: SessionView }): JSX.Element | null {
  const { query } = route.value;
  const [source, at] = [query.get("compared"), Number(query.get("at") ?? Number.NaN)];
  if (source === null || !Number.isSafeInteger(at) || view.info.value?.state === "running") return null;
  return <Answers key={view.count.value} here={view.id} source={source} at={at} />;
}

function Answers({ here, source, at }: { here: string; source: string; at: number }): JSX.Element | null {
  const request = useRequest(async () => {
    const limit = ANSWER_MESSAGES_MAX;
    const read = async (id: string) => answerIn(await call("readHistory", { session_id: id, offset: at, limit }));
    const [before, after] = await Promise.all([read(source), read(here)]);
    return { before, after };
  }, []);
  if (request.value === undefined || request.value.after === "") return null;
  const { before, after } = request.value;
  return (
    <section class="card comparison" aria-label="Both answers">
      <Fold name={`comparison ${here}`} line={<span>Compare with the answer before the edit</span>}>
        {() => (
          <>
            <Changes before={before} after={after} />
            <p>
              <a href={linkTo(["sessions", source])}>Open the session before the edit</a>
            </p>
          </>
        )}
      </Fold>
    </section>
  );
}

/** The text of the model from a user's message to the next one. */
function answerIn({ messages }: SessionHistory): string {
  const [, ...rest] = messages;
  const next = rest.findIndex(({ role }) => role === "user");
  return rest
    .slice(0, next < 0 ? rest.length : next)
    .flatMap((message) => (message.role === "block_assistant" ? message.blocks : []))
    .flatMap((block) => (block.block_type === "text" ? [block.data.text] : []))
    .join("\n\n");
}

function Changes({ before, after }: { before: string; after: string }): JSX.Element {
  const parts = useMemo(() => compareWords(withoutControls(before), withoutControls(after)), [before, after]);
  if (before === after) return <p>Both answers are the same.</p>;
  return (
    <div class="text changes">
      {parts.map(({ kind, text }, index) => {
        if (kind === "same") return text;
        return kind === "deleted" ? <del key={index}>{text}</del> : <ins key={index}>{text}</ins>;
      })}
    </div>
  );
}

interface Part {
  readonly kind: "same" | "deleted" | "inserted";
  readonly text: string;
}

/** Cells of the comparison's table; longer texts are shown as replaced. */
const CELLS_MAX = 4_000_000;

/** The longest common sequence of words, and what differs between them. */
function compareWords(before: string, after: string): readonly Part[] {
  const [old, now] = [before.split(/(?<=\s)(?=\S)/), after.split(/(?<=\s)(?=\S)/)];
  if (old.length * now.length > CELLS_MAX) return joined([changed("deleted", before), changed("inserted", after)]);
  const width = now.length + 1;
  const lengths = new Uint32Array((old.length + 1) * width);
  const at = (row: number, column: number): number => lengths[row * width + column] ?? 0;
  for (let row = old.length - 1; row >= 0; row -= 1) {
    for (let column = now.length - 1; column >= 0; column -= 1) {
      const isSame = old[row] === now[column];
      lengths[row * width + column] = isSame
        ? at(row + 1, column + 1) + 1
        : Math.max(at(row + 1, column), at(row, column + 1));
    }
  }
  const parts: Part[] = [];
  let [row, column] = [0, 0];
  while (row < old.length || column < now.length) {
    const isSame = row < old.length && column < now.length && old[row] === now[column];
    const isOld = !isSame && row < old.length && (column === now.length || at(row + 1, column) >= at(row, column + 1));
    if (isSame) parts.push({ kind: "same", text: old[row] ?? "" });
    else parts.push(isOld ? changed("deleted", old[row]) : changed("inserted", now[column]));
    if (isSame || isOld) row += 1;
    if (isSame || !isOld) column += 1;
  }
  return joined(parts);
}

function changed(kind: Part["kind"], text = ""): Part {
  return { kind, text };
}

function joined(parts: readonly Part[]): readonly Part[] {
  const result: Part[] = [];
  for (const part of parts) {
    const last = result.at(-1);
    if (last?.kind === part.kind) result[result.length - 1] = { ...last, text: last.text + part.text };
    else result.push(part);
  }
  return result;
}
