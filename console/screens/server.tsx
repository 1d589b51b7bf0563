import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import type { CapabilityStatus, ModelsCatalog } from "../../src/contract/capability.ts";
import type { UsageReport } from "../../src/contract/usage.ts";
import { formatCost, formatCount, formatTokens } from "../format.ts";
import { Answer, Badge, Empty, Facts, Meter, useAsked } from "../parts.tsx";
import { BASE, client, request } from "../server.ts";

/** The server: how it is, what it can do, how it is configured, and what was used. */
export function ServerScreen(): JSX.Element {
  return (
    <div class="stack">
      <h1>Server</h1>
      <Health />
      <Used />
      <Abilities />
      <Models />
      <Configuration />
    </div>
  );
}

/** What `/ready` says. */
interface Ready {
  readonly status: string;
  readonly checks?: Readonly<Record<string, unknown>>;
}

async function readReady(): Promise<Ready> {
  const answer = await request("/ready");
  // What it says is what it is, also with a status of failure.
  return (await answer.json()) as Ready;
}

function Health(): JSX.Element {
  const asked = useAsked(async () => {
    const [ready, { contract_version: contract }, access, about] = await Promise.all([
      readReady(),
      client().readCapabilities(),
      client().readAccess(),
      request("/openapi.json").then((answer) => answer.json() as Promise<{ info: { version: string } }>),
    ]);
    return { ready, contract, access, version: about.info.version };
  }, []);
  return (
    <section class="card" aria-labelledby="health">
      <h2 id="health">Health</h2>
      <Answer asked={asked}>
        {({ ready, contract, access, version }) => (
          <>
            <Facts
              rows={[
                [
                  "State",
                  <Badge key="state" tone={ready.status === "ready" ? "good" : "bad"}>
                    {ready.status}
                  </Badge>,
                ],
                ["Version", version],
                ["Wire contract", `${contract.major}.${contract.minor}.${contract.patch}`],
                ["Address", BASE],
                ["You are", access.name ?? "the user of this machine"],
                ["You may", access.scopes.join(", ")],
              ]}
            />
            {ready.checks !== undefined && <Checks checks={ready.checks} />}
          </>
        )}
      </Answer>
    </section>
  );
}

function Checks({ checks }: { checks: Readonly<Record<string, unknown>> }): JSX.Element {
  return (
    <details>
      <summary>What was checked</summary>
      <pre class="text">{JSON.stringify(checks, undefined, 2)}</pre>
    </details>
  );
}

const SINCE = [
  ["7d", "7 days"],
  ["30d", "30 days"],
  ["", "all days"],
] as const;

function Used(): JSX.Element {
  const since = useSignal<string>("30d");
  const asked = useAsked(async () => {
    const from = since.value === "" ? {} : { since: since.value };
    const [days, models] = await Promise.all([
      client().readUsage({ by: "day", ...from }),
      client().readUsage({ by: "model", ...from }),
    ]);
    return { days, models };
  }, [since.value]);
  return (
    <section class="card stack" aria-labelledby="used">
      <div class="row">
        <h2 id="used">What was used</h2>
        <span class="grow" />
        <select
          aria-label="Since when"
          value={since}
          onChange={(event) => {
            since.value = event.currentTarget.value;
          }}
        >
          {SINCE.map(([value, title]) => (
            <option key={value} value={value}>
              {title}
            </option>
          ))}
        </select>
      </div>
      <Answer asked={asked}>
        {({ days, models }) =>
          days.total.calls === 0 ? (
            <Empty>No model was called.</Empty>
          ) : (
            <>
              <p>
                {formatCount(days.total.calls)} model calls, {formatTokens(days.total.usage.input_tokens)} tokens in,{" "}
                {formatTokens(days.total.usage.output_tokens)} tokens out
                {days.total.usage.cost !== undefined && <>, {formatCost(days.total.usage.cost)}</>}
              </p>
              <div class="two">
                <Bars title="Tokens by day" report={days} />
                <Bars title="Tokens by model" report={models} />
              </div>
            </>
          )
        }
      </Answer>
    </section>
  );
}

function Bars({ title, report }: { title: string; report: UsageReport }): JSX.Element {
  const tokensOf = ({ usage }: UsageReport["groups"][number]): number => usage.input_tokens + usage.output_tokens;
  const most = Math.max(1, ...report.groups.map(tokensOf));
  return (
    <div class="meters">
      <h3>{title}</h3>
      {report.groups.map((group) => (
        <Meter
          key={group.key}
          name={group.key || "none"}
          part={tokensOf(group) / most}
          text={[formatTokens(tokensOf(group)), formatCost(group.usage.cost)].filter(Boolean).join(" · ")}
        />
      ))}
    </div>
  );
}

function Abilities(): JSX.Element {
  const asked = useAsked(() => client().readCapabilities(), []);
  return (
    <section class="card" aria-labelledby="abilities">
      <h2 id="abilities">Capabilities</h2>
      <Answer asked={asked}>
        {({ capabilities }) => (
          <table>
            <thead>
              <tr>
                <th>Capability</th>
                <th class="wide">What it is</th>
                <th>State</th>
              </tr>
            </thead>
            <tbody>
              {capabilities.map(({ id, description, status }) => (
                <tr key={id}>
                  <td>
                    <code>{id}</code>
                  </td>
                  <td class="wide">{description}</td>
                  <td>
                    <Badge tone={status === "Available" ? "good" : "plain"}>{statusWord(status)}</Badge>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
      </Answer>
    </section>
  );
}

function statusWord(status: CapabilityStatus): string {
  if (status === "Available") return "available";
  if ("DisabledByPolicy" in status) return "switched off";
  if ("NotCompiled" in status) return "left out";
  return "not served here";
}

function Models(): JSX.Element {
  const asked = useAsked(() => client().readModels(), []);
  return (
    <section class="card" aria-labelledby="models">
      <h2 id="models">Models</h2>
      <Answer asked={asked}>
        {({ providers }) => (
          <div class="scroll-x">
            <table>
              <thead>
                <tr>
                  <th>Model</th>
                  <th class="wide">Provider</th>
                  <th class="number">Window</th>
                  <th class="number wide">Output</th>
                  <th class="number">$ a million in</th>
                  <th class="number">out</th>
                  <th class="wide">Prices as of</th>
                </tr>
              </thead>
              <tbody>
                {providers.flatMap((provider) =>
                  provider.models.map((model) => <Model key={model.id} provider={provider} model={model} />),
                )}
              </tbody>
            </table>
          </div>
        )}
      </Answer>
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
  const asked = useAsked(() => client().readConfig(), []);
  return (
    <section class="card" aria-labelledby="configuration">
      <h2 id="configuration">Configuration</h2>
      <Answer asked={asked}>
        {({ config, generation, restart_required = [], realm_id, backend }) => (
          <>
            <Facts
              rows={[
                ["Generation", formatCount(generation)],
                ["Realm", realm_id ?? "none"],
                ["Kept in", backend ?? "nothing"],
                ["Waits for the next start", restart_required.join(", ") || "nothing"],
              ]}
            />
            <details>
              <summary>Every key that holds, defaults filled in</summary>
              <div class="scroll-x">
                <table>
                  <thead>
                    <tr>
                      <th>Key</th>
                      <th>Value</th>
                    </tr>
                  </thead>
                  <tbody>
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
                  </tbody>
                </table>
              </div>
            </details>
          </>
        )}
      </Answer>
    </section>
  );
}

/** The keys of tables within tables as one writes them, with their values. */
function keysOf(table: object, before = ""): readonly (readonly [key: string, value: string])[] {
  return Object.entries(table).flatMap(([key, value]) => {
    const isTable = typeof value === "object" && value !== null && !Array.isArray(value);
    if (isTable && Object.keys(value).length > 0) return keysOf(value, `${before}${key}.`);
    return [[`${before}${key}`, JSON.stringify(value)] as const];
  });
}
