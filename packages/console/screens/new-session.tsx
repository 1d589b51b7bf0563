import { type Signal, signal } from "@preact/signals";
import type { Content } from "@rkat/core/contract/message";
import type { JSX } from "preact";
import { textField, useRequest } from "../parts.tsx";
import { PromptBox } from "../prompt-box.tsx";
import { linkTo, navigate } from "../router.ts";
import { call } from "../server.ts";

const PRESETS = [
  ["", "as configured"],
  ["none", "none"],
  ["safe", "safe: time, tasks, memory"],
  ["workspace", "workspace: also files and a shell"],
  ["full", "full: all there are"],
] as const;

// The choice stays for further sessions until the page is reloaded.
const model = signal("");
const tools = signal("");
const agent = signal("");
const system = signal("");
const cost = signal("");
const tokens = signal("");

/** A session is created when its first message is sent. */
export function NewSessionScreen(): JSX.Element {
  const models = useRequest(() => call("readModels", {}), []);
  const agents = useRequest(() => call("listAgents", {}), []);
  const known = models.value?.providers.flatMap((provider) => provider.models) ?? [];
  return (
    <div class="stack">
      <h1>New session</h1>
      <div class="card composer">
        <label>
          Model
          <input list="models" placeholder="the default" {...textField(model)} />
          <datalist id="models">
            {known.map(({ id, display_name }) => (
              <option key={id} value={id}>
                {display_name}
              </option>
            ))}
          </datalist>
        </label>
        <Choice name="Tools" value={tools} options={PRESETS} />
        <Choice
          name="Agent"
          value={agent}
          options={[["", "none"], ...(agents.value?.agents.map((one) => [one.agent, one.agent] as const) ?? [])]}
        />
        <label>
          Budget in US dollars
          <input type="number" min="0" step="any" placeholder="no limit" {...textField(cost)} />
        </label>
        <label>
          Budget in tokens
          <input type="number" min="1" step="1" placeholder="no limit" {...textField(tokens)} />
        </label>
        <label class="composer-wide">
          System prompt
          <textarea rows={2} placeholder="as configured" {...textField(system)} />
        </label>
      </div>
      <PromptBox draft="new" send={create} />
    </div>
  );
}

function Choice(props: {
  name: string;
  value: Signal<string>;
  options: readonly (readonly [value: string, title: string])[];
}): JSX.Element {
  return (
    <label>
      {props.name}
      <select {...textField(props.value)}>
        {props.options.map(([value, title]) => (
          <option key={value} value={value}>
            {title}
          </option>
        ))}
      </select>
    </label>
  );
}

async function create(prompt: Content): Promise<void> {
  const given = (value: Signal<string>): string | undefined => value.value.trim() || undefined;
  const limits = { max_cost: numberOf(cost), max_tokens: numberOf(tokens) };
  const name = given(agent);
  const context = name === undefined ? undefined : await call("readAgentContext", { agent: name });
  const { session_id } = await call("createSession", {
    prompt,
    model: given(model),
    tool_preset: PRESETS.map(([preset]) => preset).find((preset) => preset !== "" && preset === tools.value),
    system_prompt: given(system),
    additional_instructions: context === undefined ? undefined : [context.prompt],
    labels: name === undefined ? undefined : { agent: name },
    budget_limits: Object.values(limits).some((limit) => limit !== undefined) ? limits : undefined,
    // The response comes at once, and the session's screen shows the turn.
    keep_alive: true,
  });
  navigate(linkTo(["sessions", session_id]));
}

function numberOf(text: Signal<string>): number | undefined {
  const number = Number(text.value);
  return text.value.trim() !== "" && Number.isFinite(number) ? number : undefined;
}
