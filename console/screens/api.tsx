import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { type Document, type Operation, operationsOf } from "../openapi.ts";
import { Answer, Empty, Prose, useAsked } from "../parts.tsx";
import { linkTo } from "../router.ts";
import { BASE, request, tokenAtHand } from "../server.ts";
import { OperationView } from "./api-operation.tsx";

/** The document does not change while the server lives. */
let kept: Promise<Document> | undefined;

function readDocument(): Promise<Document> {
  kept ??= request("/openapi.json").then(async (answer) => {
    if (!answer.ok) throw new Error(`the reference cannot be read: ${answer.status}`);
    return (await answer.json()) as Document; // What the server promises to serve there.
  });
  kept.catch(() => {
    kept = undefined;
  });
  return kept;
}

/** The operations as a reference, and something to try them by. */
export function ApiScreen({ path }: { path: readonly string[] }): JSX.Element {
  const asked = useAsked(readDocument, []);
  return (
    <div class="stack">
      <h1>API</h1>
      <Answer asked={asked}>{(document) => <Reference document={document} name={path[0]} />}</Answer>
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
        <Empty>There is no such operation.</Empty>
      ) : (
        <OperationView key={chosen.name} operation={chosen} document={document} />
      )}
    </div>
  );
}

function List({
  operations,
  chosen,
}: {
  operations: readonly Operation[];
  chosen: Operation | undefined;
}): JSX.Element {
  const words = useSignal("");
  const sought = words.value.toLowerCase().trim();
  const found = operations.filter((one) => `${one.name} ${one.path} ${one.summary}`.toLowerCase().includes(sought));
  const groups = Map.groupBy(found, ({ path }) => path.split("/")[1] ?? "");
  return (
    <nav class="api-list" aria-label="Operations">
      <input
        type="search"
        aria-label="Find an operation"
        placeholder="Find an operation"
        value={words}
        onInput={(event) => {
          words.value = event.currentTarget.value;
        }}
      />
      {found.length === 0 && <span class="soft">None has these words.</span>}
      {[...groups].map(([group, inside]) => (
        <div key={group}>
          <h2>{group}</h2>
          <ul>
            {inside.map(({ name, method }) => (
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
        {count} routes, version {document.info.version}, at <code>{BASE}</code>. The same for programs:{" "}
        {/* A link cannot carry the token. */}
        {tokenAtHand() === undefined ? <a href={`${BASE}/openapi.json`}>openapi.json</a> : <code>openapi.json</code>}.
        The same operations are served over JSON-RPC and MCP, and are methods of the clients in TypeScript and Python.
      </p>
      <section aria-labelledby="codes">
        <h2 id="codes">Errors</h2>
        {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by the keyboard */}
        <section class="scroll-x" tabIndex={0} aria-label="Codes of errors">
          <table>
            <thead>
              <tr>
                <th>Code</th>
                <th class="number">Status</th>
                <th>Meaning</th>
              </tr>
            </thead>
            <tbody>
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
            </tbody>
          </table>
        </section>
      </section>
    </div>
  );
}
