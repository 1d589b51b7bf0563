import { useSignal } from "@preact/signals";
import type { CapabilityStatus, ModelsCatalog } from "@rkat/core/contract/capability";
import type { UsageReport } from "@rkat/core/contract/session-info";
import type { JSX } from "preact";
import { formatCost, formatCount, formatTokens } from "../format.ts";
import { Badge, Empty, Facts, Loaded, Meter, Table, textField, useRequest } from "../parts.tsx";
import { BASE_URL, call, client, fetchRoute } from "../server.ts";
import { labelsOf } from "./sessions.tsx";

export function ServerScreen(): JSX.Element {
  return (
    <div class="stack">
      <h1>Server</h1>
      <Health />
      <Usage />
      <Capabilities />
      <Models />
      <Configuration />
    </div>
  );
}

interface Ready {
  readonly status: string;
  readonly checks?: Readonly<Record<string, unknown>>;
}

async function readReady(): Promise<Ready> {
  const response = await fetchRoute("/ready");
  // The body has this shape for every status, including failures.
  return (await response.json()) as Ready;
}

function Health(): JSX.Element {
  const request = useRequest(async () => {
    const [ready, { contract_version: contract }, access, about] = await Promise.all([
      readReady(),
      call("readCapabilities", {}),
      client().readAccess(),
      fetchRoute("/openapi.json").then((response) => response.json() as Promise<{ info: { version: string } }>),
    ]);
    return { ready, contract, access, version: about.info.version };
  }, []);
  return (
    <section class="card" aria-labelledby="health">
      <h2 id="health">Health</h2>
      <Loaded request={request}>
        {({ ready, contract, access, version }) => (
          <>
            <Facts
              rows={[
                [
                  "Status",
                  <Badge key="state" tone={ready.status === "ready" ? "good" : "bad"}>
                    {ready.status}
                  </Badge>,
                ],
                ["Version", version],
                ["Contract version", `${contract.major}.${contract.minor}.${contract.patch}`],
                ["Address", BASE_URL],
                ["Your token", access.name ?? "none (local user)"],
                ["Your scopes", access.scopes.join(", ")],
              ]}
            />
            {ready.checks !== undefined && <Checks checks={ready.checks} />}
          </>
        )}
      </Loaded>
    </section>
  );
}

function Checks({ checks }: { checks: Readonly<Record<string, unknown>> }): JSX.Element {
  return (
    <details>
      <summary>Checks</summary>
      <pre class="text">{JSON.stringify(checks, undefined, 2)}</pre>
    </details>
  );
}

const SINCE = [
  ["7d", "7 days"],
  ["30d", "30 days"],
  ["", "all time"],
] as const;

function Usage(): JSX.Element {
  const since = useSignal<string>("30d");
  const label = useSignal("");
  const request = useRequest(async () => {
    const from = since.value === "" ? {} : { since: since.value };
    const filter = label.value === "" ? from : { ...from, ...labelsOf(label.value) };
    const [days, ...groups] = await Promise.all(
      (["day", "model", "label", "token"] as const).map((by) => call("readUsage", { by, ...filter })),
    );
    return { days, groups };
  }, [since.value, label.value]);
  return (
    <section class="card stack" aria-labelledby="usage">
      <div class="row">
        <h2 id="usage">Usage</h2>
        <span class="grow" />
        <input aria-label="Label, as key=value" placeholder="Label: key=value" {...textField(label)} />
        <select aria-label="Period" {...textField(since)}>
          {SINCE.map(([value, title]) => (
            <option key={value} value={value}>
              {title}
            </option>
          ))}
        </select>
      </div>
      <Loaded request={request}>
        {({ days, groups }) =>
          days === undefined || days.total.calls === 0 ? (
            <Empty>No model calls in this period.</Empty>
          ) : (
            <>
              <p>
                {formatCount(days.total.calls)} model calls, {formatTokens(days.total.usage.input_tokens)} input tokens,{" "}
                {formatTokens(days.total.usage.output_tokens)} output tokens
                {days.total.usage.cost !== undefined && <>, {formatCost(days.total.usage.cost)}</>}
              </p>
              <div class="two">
                {[days, ...groups].map((report) => (
                  <Bars key={report.by} report={report} />
                ))}
              </div>
            </>
          )
        }
      </Loaded>
    </section>
  );
}

/** Bars by cost where prices are known, otherwise by tokens. */
function Bars({ report }: { report: UsageReport }): JSX.Element {
  const tokensOf = ({ usage }: UsageReport["groups"][number]): number => usage.input_tokens + usage.output_tokens;
  const isPriced = (report.total.usage.cost?.amount ?? 0) > 0;
  const sizeOf = (group: UsageReport["groups"][number]): number =>
    isPriced ? (group.usage.cost?.amount ?? 0) : tokensOf(group);
  const most = Math.max(Number.MIN_VALUE, ...report.groups.map(sizeOf));
  return (
    <div class="meters">
      <h3>
        {isPriced ? "Cost" : "Tokens"} by {report.by}
      </h3>
      {report.groups.map((group) => (
        <Meter
          key={group.key}
          name={group.key || "none"}
          share={sizeOf(group) / most}
          text={[formatTokens(tokensOf(group)), formatCost(group.usage.cost)].filter(Boolean).join(" · ")}
        />
      ))}
    </div>
  );
}

function Capabilities(): JSX.Element {
  const request = useRequest(() => client().readCapabilities(), []);
  return (
    <section class="card" aria-labelledby="capabilities">
      <h2 id="capabilities">Capabilities</h2>
      <Loaded request={request}>
        {({ capabilities }) => (
          <Table label="Capabilities" columns={[["Capability"], ["Description", "wide"], ["Status"]]}>
            {capabilities.map(({ id, description, status }) => (
              <tr key={id}>
                <td>
                  <code>{id}</code>
                </td>
                <td class="wide">{description}</td>
                <td>
                  <Badge tone={status === "Available" ? "good" : "plain"}>{statusText(status)}</Badge>
                </td>
              </tr>
            ))}
          </Table>
        )}
      </Loaded>
    </section>
  );
}

function statusText(status: CapabilityStatus): string {
  if (status === "Available") return "available";
  if ("DisabledByPolicy" in status) return "disabled";
  if ("NotCompiled" in status) return "not built in";
  return "not available";
}

const MODEL_COLUMNS = [
  ["Model"],
  ["Provider", "wide"],
  ["Context window", "number"],
  ["Max. output", "number wide"],
  ["Input, $ per 1M tokens", "number"],
  ["Output, $ per 1M tokens", "number"],
  ["Prices as of", "wide"],
] as const;

function Models(): JSX.Element {
  const request = useRequest(() => call("readModels", {}), []);
  return (
    <section class="card" aria-labelledby="models">
      <h2 id="models">Models</h2>
      <Loaded request={request}>
        {({ providers }) => (
          <Table label="Models" columns={MODEL_COLUMNS}>
            {providers.flatMap((provider) =>
              provider.models.map((model) => <Model key={model.id} provider={provider} model={model} />),
            )}
          </Table>
        )}
      </Loaded>
    </section>
  );
}

type Provider = ModelsCatalog["providers"][number];

function Model({ provider, model }: { provider: Provider; model: Provider["models"][number] }): JSX.Element {
  const { id, display_name, context_window, max_output_tokens, prices } = model;
  const tokens = (count: number | undefined): string => (count === undefined ? "?" : formatTokens(count));
  return (
    <tr>
      <td title={display_name}>
        <code>{id}</code> {id === provider.default_model_id && <Badge tone="good">default</Badge>}
      </td>
      <td class="wide">{provider.provider}</td>
      <td class="number">{tokens(context_window)}</td>
      <td class="number wide">{tokens(max_output_tokens)}</td>
      <td class="number">{prices?.input ?? "?"}</td>
      <td class="number">{prices?.output ?? "?"}</td>
      <td class="wide">{prices?.as_of ?? ""}</td>
    </tr>
  );
}

function Configuration(): JSX.Element {
  const request = useRequest(() => call("readConfig", {}), []);
  return (
    <section class="card" aria-labelledby="configuration">
      <h2 id="configuration">Configuration</h2>
      <Loaded request={request}>
        {({ config, generation, restart_required = [], realm_id, backend }) => (
          <>
            <Facts
              rows={[
                ["Generation", formatCount(generation)],
                ["Realm", realm_id ?? "none"],
                ["Storage", backend ?? "none"],
                ["Restart required for", restart_required.join(", ") || "nothing"],
              ]}
            />
            <details>
              <summary>All effective settings, with defaults</summary>
              <Table label="Settings" columns={[["Key"], ["Value"]]}>
                {keysOf(config).map(([key, value]) => (
                  <tr key={key}>
                    <td>
                      <code>{key}</code>
                    </td>
                    <td>
                      <code class="text">{value}</code>
                    </td>
                  </tr>
                ))}
              </Table>
            </details>
          </>
        )}
      </Loaded>
    </section>
  );
}

function keysOf(table: object, before = ""): readonly (readonly [key: string, value: string])[] {
  return Object.entries(table).flatMap(([key, value]) => {
    const isTable = typeof value === "object" && value !== null && !Array.isArray(value);
    if (isTable && Object.keys(value).length > 0) return keysOf(value, `${before}${key}.`);
    return [[`${before}${key}`, JSON.stringify(value)] as const];
  });
}
