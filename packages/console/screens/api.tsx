import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { Code } from "../code.tsx";
import {
  bodyExample,
  type Document,
  exampleIn,
  exampleOf,
  fieldsOf,
  LANGUAGES,
  type Operation,
  operationsOf,
  orderedFields,
  type Schema,
  typeOf,
} from "../openapi.ts";
import { Action, Badge, Empty, Loaded, Prose, Table, textField, useRequest } from "../parts.tsx";
import { linkTo } from "../router.ts";
import { BASE_URL, currentToken, fetchRoute, hasScope } from "../server.ts";

/** Loaded once: the document does not change while the server runs. */
let loaded: Promise<Document> | undefined;

function readDocument(): Promise<Document> {
  loaded ??= fetchRoute("/openapi.json").then(async (response) => {
    if (!response.ok) throw new Error(`the API reference cannot be loaded: HTTP ${response.status}`);
    return (await response.json()) as Document; // The server serves this document there.
  });
  loaded.catch(() => {
    loaded = undefined;
  });
  return loaded;
}

/** A reference of all operations, with a form to try each of them. */
export function ApiScreen({ path }: { path: readonly string[] }): JSX.Element {
  const request = useRequest(readDocument, []);
  return (
    <div class="stack">
      <h1>API</h1>
      <Loaded request={request}>{(document) => <Reference document={document} name={path[0]} />}</Loaded>
    </div>
  );
}

function Reference({ document, name }: { document: Document; name: string | undefined }): JSX.Element {
  const operations = operationsOf(document);
  const chosen = operations.find((operation) => operation.name === name);
  return (
    <div class="api">
      <List operations={operations} chosen={chosen} />
      {name === undefined ? (
        <Overview document={document} count={operations.length} />
      ) : chosen === undefined ? (
        <Empty>Unknown operation.</Empty>
      ) : (
        <OperationView key={chosen.name} operation={chosen} document={document} />
      )}
    </div>
  );
}

function List(props: { operations: readonly Operation[]; chosen: Operation | undefined }): JSX.Element {
  const { operations, chosen } = props;
  const words = useSignal("");
  const query = words.value.toLowerCase().trim();
  const found = operations.filter((one) => `${one.name} ${one.path} ${one.summary}`.toLowerCase().includes(query));
  const groups = Map.groupBy(found, ({ path }) => path.split("/")[1] ?? "");
  return (
    <nav class="api-list" aria-label="Operations">
      <input type="search" aria-label="Find an operation" placeholder="Find an operation" {...textField(words)} />
      {found.length === 0 && <span class="soft">No matching operations.</span>}
      {[...groups].map(([group, members]) => (
        <div key={group}>
          <h2>{group}</h2>
          <ul>
            {members.map(({ name, method }) => (
              <li key={name}>
                <a href={linkTo(["api", name])} aria-current={name === chosen?.name ? "page" : undefined}>
                  <span class={`verb ${method.toLowerCase()}`}>{method}</span> {name}
                </a>
              </li>
            ))}
          </ul>
        </div>
      ))}
    </nav>
  );
}

function Overview({ document, count }: { document: Document; count: number }): JSX.Element {
  const codes = Object.entries(document.components.schemas.Error?.["x-codes"] ?? {});
  return (
    <div class="stack">
      <p>
        <Prose text={document.info.description} />
      </p>
      <p>
        {count} routes, version {document.info.version}, at <code>{BASE_URL}</code>. Machine-readable:{" "}
        {/* A link cannot carry the token, so the file name is a link only without one. */}
        {currentToken() === undefined ? (
          <a href={`${BASE_URL}/openapi.json`}>openapi.json</a>
        ) : (
          <code>openapi.json</code>
        )}
        . The same operations are available over JSON-RPC and MCP, and as methods of the TypeScript and Python clients.
      </p>
      <section aria-labelledby="codes">
        <h2 id="codes">Errors</h2>
        <Table label="Error codes" columns={[["Code"], ["Status", "number"], ["Meaning"]]}>
          {codes.map(([code, { status, meaning }]) => (
            <tr key={code}>
              <td>
                <code>{code}</code>
              </td>
              <td class="number">{status}</td>
              <td>
                <Prose text={meaning} />
              </td>
            </tr>
          ))}
        </Table>
      </section>
    </div>
  );
}

function OperationView({ operation, document }: { operation: Operation; document: Document }): JSX.Element {
  const { name, method, path, summary, description, scope, types } = operation;
  const isAllowed = scope === undefined || hasScope(scope);
  return (
    <article class="stack">
      <div>
        <h2>{name}</h2>
        <p>
          <span class={`verb ${method.toLowerCase()}`}>{method}</span> <code class="text">{path}</code>{" "}
          {scope !== undefined && <Badge tone={isAllowed ? "good" : "warn"}>requires scope {scope}</Badge>}
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
      <Parameters operation={operation} />
      <Examples operation={operation} />
      {isAllowed && !types.every((type) => type === "text/event-stream") && <TryIt operation={operation} />}
      <section class="card" aria-labelledby="response">
        <h3 id="response">Response</h3>
        <p class="soft">
          200, as {types.join(" or ")}. A response may have additional fields. An error has a code, see{" "}
          <a href={linkTo(["api"])}>error codes</a>.
        </p>
        <Fields schema={operation.result} isResponse />
        <details>
          <summary>On error</summary>
          <Fields schema={document.components.schemas.Error} isResponse />
        </details>
      </section>
    </article>
  );
}

function Parameters({ operation }: { operation: Operation }): JSX.Element {
  const { parameters, body } = operation;
  const isEmpty = parameters.length === 0 && body === undefined;
  return (
    <section class="card fields" aria-labelledby="parameters">
      <h3 id="parameters">Parameters</h3>
      {isEmpty && <p class="soft">None.</p>}
      <ParameterList parameters={parameters.filter((one) => one.in !== "header")} />
      {body !== undefined && (
        <>
          <h4>JSON body</h4>
          <Fields schema={body} />
        </>
      )}
      <ParameterList parameters={parameters.filter((one) => one.in === "header")} />
    </section>
  );
}

function ParameterList({ parameters }: Pick<Operation, "parameters">): JSX.Element | null {
  if (parameters.length === 0) return null;
  return (
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
  );
}

function Fields({ schema, isResponse = false }: { schema: Schema | undefined; isResponse?: boolean }): JSX.Element {
  const fields = fieldsOf(schema);
  if (fields.length === 0) return <p class="soft">{schema === undefined ? "No JSON body." : typeOf(schema)}</p>;
  // The fields of a response have the order in which the server sends them.
  const { current, retired } = isResponse ? { current: fields, retired: [] } : orderedFields(fields);
  const rowOf = ([name, field, isRequired]: (typeof fields)[number]): JSX.Element => {
    // A response field is marked if it is optional, a request field if it is required.
    const note = isResponse ? (isRequired ? "" : "optional") : isRequired ? "required" : "";
    return <Field key={name} name={name} schema={field} note={note} isResponse={isResponse} />;
  };
  return (
    <div class="fields">
      <ul>{current.map(rowOf)}</ul>
      {retired.length > 0 && (
        <details>
          <summary>{retired.length} fields that need not be sent</summary>
          <ul>{retired.map(rowOf)}</ul>
        </details>
      )}
    </div>
  );
}

function Field(props: { name: string; schema: Schema; note: string; isResponse?: boolean }): JSX.Element {
  const { name, schema, note, isResponse = false } = props;
  // Nested fields are rendered when they are opened: some schemas are deep, and some are recursive.
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
      {fallback !== undefined && <div class="soft">Default: {JSON.stringify(fallback)}</div>}
      {examples.length > 0 && (
        <div class="soft">
          Example: <code class="text">{JSON.stringify(examples[0])}</code>
        </div>
      )}
      {fieldsOf(schema).length > 0 && (
        <details
          onToggle={(event) => {
            isOpen.value = event.currentTarget.open;
          }}
        >
          <summary>Fields</summary>
          {isOpen.value && <Fields schema={schema} isResponse={isResponse} />}
        </details>
      )}
    </li>
  );
}

function Examples({ operation }: { operation: Operation }): JSX.Element {
  const language = useSignal<(typeof LANGUAGES)[number]>("curl");
  const server = { url: BASE_URL, hasToken: currentToken() !== undefined };
  const examples = LANGUAGES.flatMap((name) => {
    const text = exampleIn(name, operation, server);
    return text === undefined ? [] : [{ name, text }];
  });
  const chosen = examples.find(({ name }) => name === language.value) ?? examples[0];
  return (
    <section class="card" aria-labelledby="examples">
      <h3 id="examples">Examples</h3>
      <div class="tabs">
        {examples.map(({ name }) => (
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
      <Code text={chosen?.text ?? ""} language={CODE_NAMES[chosen?.name ?? "curl"]} />
    </section>
  );
}

const CODE_NAMES: Readonly<Record<(typeof LANGUAGES)[number], string>> = {
  curl: "sh",
  TypeScript: "ts",
  Python: "py",
};

/** A longer response would make the page slow. */
const SHOWN_CHARS_MAX = 200_000;

interface Result {
  readonly status: number;
  readonly ms: number;
  readonly text: string;
}

/** A form that sends the operation to this server, with the current token. */
function TryIt({ operation }: { operation: Operation }): JSX.Element {
  const { method, path, parameters, body } = operation;
  const values = useSignal<Readonly<Record<string, string>>>({});
  const bodyText = useSignal(body === undefined ? "" : JSON.stringify(bodyExample(body), undefined, 2));
  const result = useSignal<Result | undefined>(undefined);
  const send = async (): Promise<void> => {
    const target = targetOf(operation, values.value);
    const startedAt = performance.now();
    const response = await fetchRoute(target.path, {
      method,
      headers: { ...target.headers, ...(body === undefined ? {} : { "content-type": "application/json" }) },
      ...(body === undefined ? {} : { body: jsonOf(bodyText.value) }),
    });
    const text = await response.text();
    result.value = { status: response.status, ms: Math.round(performance.now() - startedAt), text: indented(text) };
  };
  return (
    <section class="card stack" aria-labelledby="try">
      <h3 id="try">Try it</h3>
      {method !== "GET" && <p class="soft">This sends a real request that may change data on the server.</p>}
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
          <textarea class="json" spellcheck={false} {...textField(bodyText)} />
        </label>
      )}
      <div class="row">
        <Action class="primary" run={send} disabled={isIncomplete(operation, values.value)}>
          {method} {path}
        </Action>
      </div>
      {result.value !== undefined && (
        <div role="status">
          <p class="row">
            <Badge tone={result.value.status < 400 ? "good" : "bad"}>{result.value.status}</Badge>
            <span class="soft">{result.value.ms} ms</span>
          </p>
          <pre class="text">{result.value.text}</pre>
        </div>
      )}
    </section>
  );
}

type Values = Readonly<Record<string, string>>;

function isIncomplete({ parameters }: Operation, values: Values): boolean {
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

function jsonOf(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text));
  } catch (cause) {
    throw new Error(`the body is not valid JSON: ${cause instanceof Error ? cause.message : cause}`);
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
