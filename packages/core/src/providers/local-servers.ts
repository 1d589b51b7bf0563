import { asText } from "./model-failure.ts";
import { type Environment, ollamaUrl } from "./provider-settings.ts";

export interface LocalServer {
  /** Its name in a configuration: `ollama` is built in. */
  readonly name: string;
  readonly title: string;
  /** The address of its OpenAI-compatible API. */
  readonly baseUrl: string;
  /** The largest first, without embedding models. */
  readonly models: readonly LocalModel[];
}

export interface LocalModel {
  readonly name: string;
  readonly bytes?: number | undefined;
}

export interface UsualServer extends Omit<LocalServer, "models"> {
  /** Required owner of its models, where other programs may use the port. */
  readonly owner?: string;
}

const USUAL: readonly UsualServer[] = [
  { name: "lmstudio", title: "LM Studio", baseUrl: "http://127.0.0.1:1234/v1" },
  { name: "llamacpp", title: "llama.cpp", baseUrl: "http://127.0.0.1:8080/v1", owner: "llamacpp" },
];

interface Looking {
  readonly env: Environment;
  readonly signal: AbortSignal;
  /** Besides Ollama. */
  readonly usual?: readonly UsualServer[];
}

/** Asks local servers for their models; a server that does not answer at once is skipped. */
export async function findLocalServers({ env, signal, usual = USUAL }: Looking): Promise<readonly LocalServer[]> {
  const asked = [askOllama(ollamaUrl(env), signal), ...usual.map((server) => askUsual(server, signal))];
  return (await Promise.all(asked)).filter((server) => server !== undefined);
}

async function askOllama(url: string, signal: AbortSignal): Promise<LocalServer | undefined> {
  const rows = rowsOf(await readJson(`${url}/api/tags`, signal), "models");
  if (rows === undefined) return undefined;
  const models = rows.flatMap(({ name, size, modified_at, details }) => {
    const { family } = Object(details);
    if (!isModelName(name) || isEmbedder(name) || isEmbedder(asText(family))) return [];
    const bytes = typeof size === "number" && size > 0 ? size : undefined;
    return [{ name, bytes, at: asText(modified_at) }];
  });
  const sorted = models.sort((a, b) => (b.bytes ?? 0) - (a.bytes ?? 0) || (a.at < b.at ? 1 : -1));
  return {
    name: "ollama",
    title: "Ollama",
    baseUrl: `${url}/v1`,
    models: sorted.map(({ name, bytes }) => ({ name, bytes })),
  };
}

async function askUsual({ owner, ...server }: UsualServer, signal: AbortSignal): Promise<LocalServer | undefined> {
  const rows = rowsOf(await readJson(`${server.baseUrl}/models`, signal), "data");
  if (rows === undefined) return undefined;
  const ours = rows.filter(({ owned_by }) => owner === undefined || owned_by === owner);
  const names = ours.flatMap(({ id }) => (isModelName(id) && !isEmbedder(id) ? [id] : []));
  return ours.length === 0 ? undefined : { ...server, models: names.map((name) => ({ name })) };
}

const MODELS_MAX = 1_000;

function rowsOf(answer: unknown, key: string): readonly Readonly<Record<string, unknown>>[] | undefined {
  const rows: unknown = Object(answer)[key];
  if (!Array.isArray(rows)) return undefined;
  return rows.slice(0, MODELS_MAX).map(Object);
}

/** Names are written to a file and shown on a terminal, so others are ignored. */
function isModelName(name: unknown): name is string {
  return typeof name === "string" && name.length <= NAME_CHARS_MAX && /^[A-Za-z0-9][\w.:/@+-]*$/.test(name);
}

const NAME_CHARS_MAX = 200;

function isEmbedder(name: string): boolean {
  return /embed|bert|minilm|\bbge\b|\be5\b|\bgte\b/i.test(name);
}

const ANSWER_MS_MAX = 2_000;
const ANSWER_BYTES_MAX = 1_000_000;

/** The JSON at an address; undefined after a timeout, an oversized answer, a redirect or invalid JSON. */
async function readJson(url: string, signal: AbortSignal): Promise<unknown> {
  try {
    const timeout = AbortSignal.any([signal, AbortSignal.timeout(ANSWER_MS_MAX)]);
    const response = await fetch(url, { redirect: "error", signal: timeout });
    const read: Uint8Array[] = [];
    let bytes = 0;
    for await (const chunk of response.body ?? []) {
      bytes += chunk.length;
      // Leaving the loop closes the connection.
      if (bytes > ANSWER_BYTES_MAX) return undefined;
      read.push(chunk);
    }
    return response.ok ? JSON.parse(Buffer.concat(read).toString("utf8")) : undefined;
  } catch {
    signal.throwIfAborted();
    return undefined;
  }
}
