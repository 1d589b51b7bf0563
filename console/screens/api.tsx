import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { type Document, type Operation, operationsOf } from "../openapi.ts";
import { Empty, Loaded, Prose, Table, textField, useRequest } from "../parts.tsx";
import { linkTo } from "../router.ts";
import { BASE_URL, currentToken, fetchRoute } from "../server.ts";
import { OperationView } from "./api-operation.tsx";

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
        {count} routes, version {document.info.version}, at <code>{BASE_URL}</code>. Machine-readable:{" "}
        {/* A link cannot carry the token, so with one the file name is no link. */}
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
