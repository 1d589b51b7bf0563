import type { JsonSchema } from "../../contract/rest/operation-schema.ts";
import type { OpenApi, OpenApiOperation } from "./openapi.ts";

const STYLE = `
  body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1c1c1c; background: #fff }
  h2 { font-size: 1rem; margin: 2rem 0 .25rem } code { font: .9em ui-monospace, monospace }
  p { margin: .25rem 0 } table { border-collapse: collapse; margin: .5rem 0 }
  th, td { text-align: left; padding: .15rem 1rem .15rem 0; vertical-align: top } th { font-weight: 600 }
  @media (prefers-color-scheme: dark) { body { color: #e6e6e6; background: #161616 } a { color: #8ab4f8 } }
`;

/** An OpenAPI document as a page that needs no script and nothing from elsewhere. */
export function docsPage(document: OpenApi): string {
  const { info, paths, components } = document;
  const sections = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) =>
      section(`${method.toUpperCase()} ${path}`, operation, components.schemas),
    ),
  );
  return `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${escaped(info.title)}</title><style>${STYLE}</style></head>
<body>
<h1>${escaped(info.title)} ${escaped(info.version)}</h1>
<p>${escaped(info.description)}</p>
<p>The same for programs: <a href="openapi.json">openapi.json</a></p>
${sections.join("\n")}
</body>
</html>
`;
}

function section(title: string, operation: OpenApiOperation, schemas: Readonly<Record<string, JsonSchema>>): string {
  const { operationId, summary, description, parameters, requestBody } = operation;
  const name = `${operationId.charAt(0).toUpperCase()}${operationId.slice(1)}Request`;
  const { properties = {}, required = [] } = (requestBody === undefined ? undefined : schemas[name]) ?? {};
  const rows = [
    ...parameters.map((one) => [one.name, one.in, typeText(one.schema), one.required ? "yes" : "no"]),
    ...Object.entries(properties).map(([field, schema]) => [
      field,
      "body",
      typeText(schema),
      required.includes(field) ? "yes" : "no",
    ]),
  ];
  const cells = rows.map((row) => `<tr>${row.map((cell) => `<td><code>${escaped(cell)}</code></td>`).join("")}</tr>`);
  const head = "<tr><th>name</th><th>where</th><th>type</th><th>required</th></tr>";
  return `<section id="${escaped(operationId)}"><h2><code>${escaped(title)}</code></h2>
<p>${escaped([summary, description].filter(Boolean).join(" "))}</p>
${rows.length === 0 ? "" : `<table>${head}${cells.join("")}</table>`}</section>`;
}

function typeText({ type, enum: values, format }: JsonSchema): string {
  if (Array.isArray(values)) return values.map((value) => JSON.stringify(value)).join(" | ");
  if (typeof format === "string") return format;
  return typeof type === "string" ? type : (type ?? ["any"]).join(" | ");
}

function escaped(text = ""): string {
  return text.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);
}
