import { mountOpenAi } from "@rkat/server/openai/mount";
import type { RestService } from "@rkat/server/rest/serve";
import { openServerHere } from "./server-here.ts";

/** A server of OpenAI's endpoints, on a port of this machine. */
export function openChatServer(
  runtime: RestService["runtime"],
  { settings = {}, ...rest }: Partial<RestService> & { settings?: Partial<Parameters<typeof mountOpenAi>[0]> } = {},
) {
  const wanted = { memory: "session" as const, tools: "none" as const, ...settings };
  return openServerHere(runtime, "chat", { mounts: [(parts) => mountOpenAi(wanted, parts)], ...rest });
}

export interface Received {
  readonly status: number;
  readonly session: string | null;
  /** The body as JSON. */
  readonly body: {
    readonly choices: readonly [
      { readonly message: { readonly content: string | null }; readonly finish_reason: string },
    ];
    readonly usage: Readonly<Record<string, unknown>>;
    readonly error?: {
      readonly message: string;
      readonly type: string;
      readonly param: string | null;
      readonly code: string;
    };
  };
}

/** Asks for a completion as plainly as it can be done. */
export async function complete(
  url: string,
  body: Readonly<Record<string, unknown>>,
  headers: Readonly<Record<string, string>> = {},
): Promise<Received> {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify({ model: "scripted", ...body }),
  });
  const { status } = response;
  // What is compared in a test is what is looked at.
  return { status, session: response.headers.get("x-rkat-session"), body: (await response.json()) as Received["body"] };
}
