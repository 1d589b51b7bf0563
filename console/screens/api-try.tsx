import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { bodyExample, exampleOf } from "../api-examples.ts";
import type { Operation } from "../openapi.ts";
import { Action, Badge } from "../parts.tsx";
import { request } from "../server.ts";

/** More than that nobody reads here, and a page would be slow with. */
const SHOWN_CHARS_MAX = 200_000;

interface Told {
  readonly status: number;
  readonly ms: number;
  readonly text: string;
}

/** Asks this server, with the token at hand. */
export function TryIt({ operation }: { operation: Operation }): JSX.Element {
  const { method, path, parameters, body } = operation;
  const values = useSignal<Readonly<Record<string, string>>>({});
  const written = useSignal(body === undefined ? "" : JSON.stringify(bodyExample(body), undefined, 2));
  const told = useSignal<Told | undefined>(undefined);
  const send = async (): Promise<void> => {
    const target = targetOf(operation, values.value);
    const begun = performance.now();
    const answer = await request(target.path, {
      method,
      headers: { ...target.headers, ...(body === undefined ? {} : { "content-type": "application/json" }) },
      ...(body === undefined ? {} : { body: jsonOf(written.value) }),
    });
    const text = await answer.text();
    told.value = { status: answer.status, ms: Math.round(performance.now() - begun), text: indented(text) };
  };
  return (
    <section class="card stack" aria-labelledby="try">
      <h3 id="try">Try it here</h3>
      {method !== "GET" && <p class="soft">This changes something: it is done as if a program had asked.</p>}
      {parameters.length > 0 && (
        <div class="two">
          {parameters.map(({ name, in: where, required, schema }) => (
            <label key={name}>
              {name} ({required ? "required, " : ""}
              {where})
              <input
                value={values.value[name] ?? ""}
                placeholder={required ? String(exampleOf(name, schema)) : ""}
                onInput={(event) => {
                  values.value = { ...values.value, [name]: event.currentTarget.value };
                }}
              />
            </label>
          ))}
        </div>
      )}
      {body !== undefined && (
        <label>
          Body
          <textarea
            class="json"
            spellcheck={false}
            value={written}
            onInput={(event) => {
              written.value = event.currentTarget.value;
            }}
          />
        </label>
      )}
      <div class="row">
        <Action class="primary" does={send} isOff={missing(operation, values.value)}>
          {method} {path}
        </Action>
      </div>
      {told.value !== undefined && (
        <div role="status">
          <p class="row">
            <Badge tone={told.value.status < 400 ? "good" : "bad"}>{told.value.status}</Badge>
            <span class="soft">{told.value.ms} ms</span>
          </p>
          <pre class="text">{told.value.text}</pre>
        </div>
      )}
    </section>
  );
}

type Values = Readonly<Record<string, string>>;

function missing({ parameters }: Operation, values: Values): boolean {
  return parameters.some(({ name, required }) => required && (values[name] ?? "").trim() === "");
}

function targetOf({ path, parameters }: Operation, values: Values): { path: string; headers: Record<string, string> } {
  const given = parameters.filter(({ name }) => (values[name] ?? "") !== "");
  const entries = (where: string): [string, string][] =>
    given.filter((one) => one.in === where).map(({ name }) => [name, values[name] ?? ""]);
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent((values[name] ?? "").trim()));
  const query = new URLSearchParams(entries("query")).toString();
  return { path: query === "" ? filled : `${filled}?${query}`, headers: Object.fromEntries(entries("header")) };
}

/** Throws, in a sentence, for what is no JSON, before a server has to. */
function jsonOf(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text));
  } catch (cause) {
    throw new Error(`the body is no JSON: ${cause instanceof Error ? cause.message : cause}`);
  }
}

function indented(text: string): string {
  const shown = ((): string => {
    try {
      return JSON.stringify(JSON.parse(text), undefined, 2);
    } catch {
      return text;
    }
  })();
  return shown.length > SHOWN_CHARS_MAX ? `${shown.slice(0, SHOWN_CHARS_MAX)}\n…` : shown;
}
