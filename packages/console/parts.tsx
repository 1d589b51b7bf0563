import { type Signal, signal, useSignal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { useEffect } from "preact/hooks";
import { handleError } from "./server.ts";

export function Note({ kind, children }: { kind: "bad" | "good" | "plain"; children: ComponentChildren }): JSX.Element {
  return (
    <p class={`note ${kind}`} role={kind === "bad" ? "alert" : "status"}>
      {children}
    </p>
  );
}

export function Spinner({ label }: { label: string }): JSX.Element {
  return (
    <p class="spinner" role="status">
      {label} …
    </p>
  );
}

export function Empty({ children }: { children: ComponentChildren }): JSX.Element {
  return <p class="empty">{children}</p>;
}

export type Tone = "plain" | "good" | "warn" | "bad" | "live";
export function Badge({ tone = "plain", children }: { tone?: Tone; children: ComponentChildren }): JSX.Element {
  return <span class={`badge ${tone}`}>{children}</span>;
}

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

/** A table that scrolls if it is wider than the page. A column is its title and the CSS class of its head cell. */
export function Table(props: {
  columns: readonly (readonly [title: string, className?: string])[];
  /** For a table without links: a name and a tab stop, so that it can be scrolled by keyboard. */
  label?: string;
  children: ComponentChildren;
}): JSX.Element {
  return (
    <section class="scroll-x" aria-label={props.label} tabIndex={props.label === undefined ? undefined : 0}>
      <table>
        <thead>
          <tr>
            {props.columns.map(([title, className]) => (
              <th key={title} scope="col" class={className}>
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{props.children}</tbody>
      </table>
    </section>
  );
}

/** A text of our own, with the parts between backticks as code. */
export function Prose({ text }: { text: string }): JSX.Element {
  return <>{text.split("`").map((part, index) => (index % 2 === 1 ? <code key={index}>{part}</code> : part))}</>;
}

/** A bar for a share from 0 to 1, with its name and its value as text. */
export function Meter({ name, share, text }: { name: string; share: number; text: string }): JSX.Element {
  return (
    <div class="meter">
      <span class="meter-name">
        <bdi>{name}</bdi>
      </span>
      <span class="meter-track">
        <span class="meter-fill" style={{ width: `${Math.max(0, Math.min(1, share)) * 100}%` }} />
      </span>
      <span class="meter-text">{text}</span>
    </div>
  );
}

export function textField(text: Signal<string>) {
  return {
    value: text,
    onInput: (event: { readonly currentTarget: { readonly value: string } }): void => {
      text.value = event.currentTarget.value;
    },
  };
}

/** The names of the open folds: a fold stays open when it scrolls out of a virtual list and back. */
const openFolds = signal<ReadonlySet<string>>(new Set());

function toggleFold(name: string): void {
  const next = new Set(openFolds.value);
  if (!next.delete(name)) next.add(name);
  openFolds.value = next;
}

/** Long content behind a single line. The content is rendered when it is opened. */
export function Fold(props: {
  name: string;
  line: ComponentChildren;
  class?: string;
  children: () => ComponentChildren;
}): JSX.Element {
  const isOpen = openFolds.value.has(props.name);
  return (
    <div class={`fold ${props.class ?? ""}`}>
      <button type="button" class="fold-line" aria-expanded={isOpen} onClick={() => toggleFold(props.name)}>
        <span aria-hidden="true">{isOpen ? "▾" : "▸"}</span>
        {props.line}
      </button>
      {isOpen && <div class="fold-inside">{props.children()}</div>}
    </div>
  );
}

export interface Request<T> {
  readonly value: T | undefined;
  readonly problem: string | undefined;
  repeat(): void;
}

/** Sends a request when the component is mounted and whenever `inputs` change. Outdated responses are ignored. */
export function useRequest<T>(send: () => Promise<T>, inputs: readonly unknown[]): Request<T> {
  const value = useSignal<T | undefined>(undefined);
  const problem = useSignal<string | undefined>(undefined);
  const round = useSignal(0);
  useEffect(() => {
    let isCurrent = true;
    send().then(
      (response) => {
        if (!isCurrent) return;
        value.value = response;
        problem.value = undefined;
      },
      (thrown: unknown) => {
        if (isCurrent) problem.value = handleError(thrown);
      },
    );
    return () => {
      isCurrent = false;
    };
  }, [...inputs, round.value]);
  return {
    value: value.value,
    problem: problem.value,
    repeat: () => {
      round.value += 1;
    },
  };
}

/** Renders the response of a request, a spinner until there is one, and an error. An earlier response stays visible. */
export function Loaded<T>(props: { request: Request<T>; children: (value: T) => JSX.Element }): JSX.Element {
  const { value, problem, repeat } = props.request;
  if (value === undefined && problem === undefined) return <Spinner label="Loading" />;
  return (
    <>
      {problem !== undefined && (
        <Note kind="bad">
          {problem}{" "}
          <button type="button" class="quiet" onClick={repeat}>
            Try again
          </button>
        </Note>
      )}
      {value !== undefined && props.children(value)}
    </>
  );
}

/** A button that runs an action on the server. It is disabled while the action runs and shows its error. */
export function Action(props: {
  run: () => Promise<unknown>;
  children: ComponentChildren;
  class?: string;
  title?: string;
  /** The accessible name, if the text alone is ambiguous. */
  label?: string;
  disabled?: boolean;
}): JSX.Element {
  const isRunning = useSignal(false);
  const problem = useSignal<string | undefined>(undefined);
  const act = async (): Promise<void> => {
    isRunning.value = true;
    problem.value = undefined;
    try {
      await props.run();
    } catch (thrown) {
      problem.value = handleError(thrown);
    } finally {
      isRunning.value = false;
    }
  };
  return (
    <span class="action">
      <button
        type="button"
        class={props.class ?? ""}
        title={props.title}
        aria-label={props.label}
        disabled={isRunning.value || props.disabled === true}
        aria-busy={isRunning.value}
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
