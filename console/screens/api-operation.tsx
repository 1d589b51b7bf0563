import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { exampleIn, LANGUAGES } from "../api-examples.ts";
import { type Document, fieldsOf, type Operation, type Schema, typeOf } from "../openapi.ts";
import { Badge, Prose } from "../parts.tsx";
import { linkTo } from "../router.ts";
import { BASE, may, tokenAtHand } from "../server.ts";
import { TryIt } from "./api-try.tsx";

/** One operation: what it is for, what it takes, what it answers, and how it is asked for. */
export function OperationView({ operation, document }: { operation: Operation; document: Document }): JSX.Element {
  const { name, method, path, summary, description, scope, types } = operation;
  return (
    <article class="stack">
      <div>
        <h2>{name}</h2>
        <p>
          <span class={`verb ${method.toLowerCase()}`}>{method}</span> <code class="text">{path}</code>{" "}
          {scope !== undefined && <Badge tone={mayDo(scope) ? "good" : "warn"}>needs the scope {scope}</Badge>}
        </p>
        <p>
          <Prose text={summary} />
        </p>
        {description !== undefined && (
          <p class="soft">
            <Prose text={description} />
          </p>
        )}
      </div>
      <Takes operation={operation} />
      <Examples operation={operation} />
      {mayDo(scope) && !types.every((type) => type === "text/event-stream") && <TryIt operation={operation} />}
      <section class="card" aria-labelledby="answers">
        <h3 id="answers">Answers</h3>
        <p class="soft">
          200, as {types.join(" or ")}. An answer may have further fields; what went wrong is told with a code, see{" "}
          <a href={linkTo(["api"])}>errors</a>.
        </p>
        <Fields schema={operation.result} isAnswer={true} />
        <details>
          <summary>When it fails</summary>
          <Fields schema={document.components.schemas.Error} isAnswer={true} />
        </details>
      </section>
    </article>
  );
}

/** What is no operation of the clients needs no more than to be let in. */
function mayDo(scope: string | undefined): boolean {
  switch (scope) {
    case "read":
    case "run":
    case "tools":
    case "approve":
    case "config":
    case "admin":
      return may(scope);
    default:
      return true;
  }
}

function Takes({ operation }: { operation: Operation }): JSX.Element {
  const { parameters, body } = operation;
  const isEmpty = parameters.length === 0 && body === undefined;
  return (
    <section class="card fields" aria-labelledby="takes">
      <h3 id="takes">Takes</h3>
      {isEmpty && <p class="soft">Nothing.</p>}
      {parameters.length > 0 && (
        <ul>
          {parameters.map(({ name, in: where, required, schema, description }) => (
            <Field
              key={name}
              name={name}
              schema={description === undefined ? schema : { ...schema, description }}
              note={`${where}${required ? ", required" : ""}`}
            />
          ))}
        </ul>
      )}
      {body !== undefined && (
        <>
          <h4>In the body, as JSON</h4>
          <Fields schema={body} isAnswer={false} />
        </>
      )}
    </section>
  );
}

function Fields({ schema, isAnswer }: { schema: Schema | undefined; isAnswer: boolean }): JSX.Element {
  const fields = fieldsOf(schema);
  if (fields.length === 0) return <p class="soft">{schema === undefined ? "No JSON." : typeOf(schema)}</p>;
  return (
    <div class="fields">
      <ul>
        {fields.map(([name, field, isRequired]) => {
          // Of an answer one wants to know what may be missing, of a request what must not be.
          const note = isAnswer ? (isRequired ? "" : "may be absent") : isRequired ? "required" : "";
          return <Field key={name} name={name} schema={field} note={note} isAnswer={isAnswer} />;
        })}
      </ul>
    </div>
  );
}

function Field(props: { name: string; schema: Schema; note: string; isAnswer?: boolean }): JSX.Element {
  const { name, schema, note, isAnswer = false } = props;
  // What is inside is made when it is looked at: some schemas are deep, and some hold themselves.
  const isOpen = useSignal(false);
  const { description, default: fallback, examples = [] } = schema;
  return (
    <li>
      <code>{name}</code> <code class="soft text">{typeOf(schema)}</code> {note !== "" && <Badge>{note}</Badge>}
      {description !== undefined && (
        <div>
          <Prose text={description} />
        </div>
      )}
      {fallback !== undefined && <div class="soft">Without it: {JSON.stringify(fallback)}</div>}
      {examples.length > 0 && (
        <div class="soft">
          Such as <code class="text">{JSON.stringify(examples[0])}</code>
        </div>
      )}
      {fieldsOf(schema).length > 0 && (
        <details
          onToggle={(event) => {
            isOpen.value = event.currentTarget.open;
          }}
        >
          <summary>Its fields</summary>
          {isOpen.value && <Fields schema={schema} isAnswer={isAnswer} />}
        </details>
      )}
    </li>
  );
}

function Examples({ operation }: { operation: Operation }): JSX.Element {
  const language = useSignal<(typeof LANGUAGES)[number]>("curl");
  const place = { url: BASE, hasToken: tokenAtHand() !== undefined };
  const told = LANGUAGES.flatMap((name) => {
    const text = exampleIn(name, operation, place);
    return text === undefined ? [] : [{ name, text }];
  });
  const chosen = told.find(({ name }) => name === language.value) ?? told[0];
  return (
    <section class="card" aria-labelledby="examples">
      <h3 id="examples">Examples</h3>
      <div class="tabs">
        {told.map(({ name }) => (
          <button
            key={name}
            type="button"
            class="quiet"
            aria-pressed={name === chosen?.name}
            onClick={() => {
              language.value = name;
            }}
          >
            {name}
          </button>
        ))}
      </div>
      <pre class="text">{chosen?.text}</pre>
    </section>
  );
}
