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
  if (asked.value !== undefined) return children(asked.value);
  if (asked.problem !== undefined) {
    return (
      <Note kind="bad">
        {asked.problem}{" "}
        <button type="button" class="quiet" onClick={asked.again}>
          Try again
        </button>
      </Note>
    );
  }
  return <Spinner what="Loading" />;
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
