import { useSignal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { useEffect } from "preact/hooks";
import { failed } from "./server.ts";

/** A sentence that is to be noticed. */
export function Note({ kind, children }: { kind: "bad" | "good" | "plain"; children: ComponentChildren }): JSX.Element {
  return (
    <p class={`note ${kind}`} role={kind === "bad" ? "alert" : "status"}>
      {children}
    </p>
  );
}

export function Spinner({ what }: { what: string }): JSX.Element {
  return (
    <p class="spinner" role="status">
      {what} …
    </p>
  );
}

/** Where there is nothing yet, and what to do about it. */
export function Empty({ children }: { children: ComponentChildren }): JSX.Element {
  return <p class="empty">{children}</p>;
}

/** A word about a thing's state, by colour and by name. */
export function Badge({ tone = "plain", children }: { tone?: Tone; children: ComponentChildren }): JSX.Element {
  return <span class={`badge ${tone}`}>{children}</span>;
}
export type Tone = "plain" | "good" | "warn" | "bad" | "live";

/** What is known of a thing, name by name. */
export function Facts({ rows }: { rows: readonly (readonly [string, ComponentChildren])[] }): JSX.Element {
  return (
    <dl class="facts">
      {rows.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>
            <bdi>{value}</bdi>
          </dd>
        </div>
      ))}
    </dl>
  );
}

/** Our own sentences, with what stands between backticks as code. */
export function Prose({ text }: { text: string }): JSX.Element {
  return <>{text.split("`").map((part, index) => (index % 2 === 1 ? <code key={index}>{part}</code> : part))}</>;
}

/** How much of a whole something is, from 0 to 1, by length and by its number. */
export function Meter({ name, part, text }: { name: string; part: number; text: string }): JSX.Element {
  return (
    <div class="meter">
      <span class="meter-name">
        <bdi>{name}</bdi>
      </span>
      <span class="meter-track">
        <span class="meter-fill" style={{ width: `${Math.max(0, Math.min(1, part)) * 100}%` }} />
      </span>
      <span class="meter-text">{text}</span>
    </div>
  );
}

/** What was asked of the server, as far as it has answered. */
export interface Asked<T> {
  readonly value: T | undefined;
  readonly problem: string | undefined;
  readonly isAsking: boolean;
  again(): void;
}

/** Asks when it is first shown, and whenever `of` changes; an answer that was overtaken is not shown. */
export function useAsked<T>(ask: () => Promise<T>, of: readonly unknown[]): Asked<T> {
  const value = useSignal<T | undefined>(undefined);
  const problem = useSignal<string | undefined>(undefined);
  const isAsking = useSignal(true);
  const round = useSignal(0);
  useEffect(() => {
    let isCurrent = true;
    isAsking.value = true;
    ask().then(
      (answer) => {
        if (!isCurrent) return;
        value.value = answer;
        problem.value = undefined;
        isAsking.value = false;
      },
      (thrown: unknown) => {
        if (!isCurrent) return;
        problem.value = failed(thrown);
        isAsking.value = false;
      },
    );
    return () => {
      isCurrent = false;
    };
  }, [...of, round.value]);
  return {
    value: value.value,
    problem: problem.value,
    isAsking: isAsking.value,
    again: () => {
      round.value += 1;
    },
  };
}

/** What was asked for, or why it is not there. */
export function Answer<T>({ asked, children }: { asked: Asked<T>; children: (value: T) => JSX.Element }): JSX.Element {
  const { value, problem } = asked;
  if (value === undefined && problem === undefined) return <Spinner what="Loading" />;
  return (
    <>
      {problem !== undefined && (
        <Note kind="bad">
          {problem}{" "}
          <button type="button" class="quiet" onClick={asked.again}>
            Try again
          </button>
        </Note>
      )}
      {/* What was there before stays to be read. */}
      {value !== undefined && children(value)}
    </>
  );
}

/** A button that does something at the server: it waits for the answer, and says what went wrong beside itself. */
export function Action(props: {
  does: () => Promise<unknown>;
  children: ComponentChildren;
  class?: string;
  title?: string;
  /** Its name for those who do not see what it stands beside. */
  label?: string;
  isOff?: boolean;
}): JSX.Element {
  const isDoing = useSignal(false);
  const problem = useSignal<string | undefined>(undefined);
  const act = async (): Promise<void> => {
    isDoing.value = true;
    problem.value = undefined;
    try {
      await props.does();
    } catch (thrown) {
      problem.value = failed(thrown);
    } finally {
      isDoing.value = false;
    }
  };
  return (
    <span class="action">
      <button
        type="button"
        class={props.class ?? ""}
        title={props.title}
        aria-label={props.label}
        disabled={isDoing.value || props.isOff === true}
        aria-busy={isDoing.value}
        onClick={() => void act()}
      >
        {props.children}
      </button>
      {problem.value !== undefined && (
        <span class="problem" role="alert">
          {problem.value}
        </span>
      )}
    </span>
  );
}
