import { signal } from "@preact/signals";
import type { Client } from "@rkat/client";
import { connect, RuntimeError } from "@rkat/client/browser";
import type { Scope } from "@rkat/core/contract/caller";
import { decodePart, replaceRoute } from "./router.ts";
import { createSavedRuntime, savedSession } from "./saved-page.ts";

/** The URL this page was served from, including any prefix that a proxy adds. */
export const BASE_URL = new URL(".", location.href.replace(/#.*$/, "")).href.replace(/\/$/, "");

const TOKEN_KEY = "rkat-token";
const WRONG_TOKEN = "This token is not valid for this server.";

type State =
  | { readonly kind: "connecting" }
  | {
      readonly kind: "ready";
      readonly client: Client;
      readonly scopes: readonly Scope[];
      readonly available: readonly string[];
    }
  | { readonly kind: "login"; readonly problem: string | undefined }
  | { readonly kind: "unreachable"; readonly problem: string };

export const state = signal<State>({ kind: "connecting" });

/** Removes a token from the address at once: addresses are displayed, stored in the history and copied. */
function takeToken(): string | undefined {
  const [, given] = /^#token=(.*)$/s.exec(location.hash) ?? [];
  if (given !== undefined) replaceRoute(`${location.pathname}${location.search}`);
  if (given !== undefined && given !== "") sessionStorage.setItem(TOKEN_KEY, decodePart(given));
  return currentToken();
}

// A link with a token may also be opened in a tab that already shows this page.
window.addEventListener("hashchange", () => {
  if (location.hash.startsWith("#token=")) void connectToServer();
});

/** Counts connection attempts, so that the response to an earlier attempt is ignored. */
let attempts = 0;

/** Connects with the given or stored token. Shows the login if the server requires another token. */
export async function connectToServer(token = takeToken()): Promise<void> {
  // An HTTP header cannot carry other characters, so no server has such a token.
  if (token !== undefined && !/^[\x21-\x7e]+$/.test(token)) return logOut(WRONG_TOKEN);
  attempts += 1;
  const attempt = attempts;
  state.value = { kind: "connecting" };
  try {
    const server = { url: BASE_URL, ...(token === undefined ? {} : { token }) };
    const client = await connect(savedSession === undefined ? server : { runtime: createSavedRuntime(savedSession) });
    const [{ scopes }, { capabilities }] = await Promise.all([client.readAccess(), client.readCapabilities()]);
    if (attempt !== attempts) return;
    const available = capabilities.filter(({ status }) => status === "Available").map(({ id }) => id);
    if (token !== undefined) sessionStorage.setItem(TOKEN_KEY, token);
    state.value = { kind: "ready", client, scopes, available };
  } catch (thrown) {
    if (attempt !== attempts) return;
    if (isUnauthorized(thrown)) return logOut(token === undefined ? undefined : WRONG_TOKEN);
    // The page shows nothing without the read scope; another token may have it.
    if (thrown instanceof RuntimeError && thrown.code === "PERMISSION_DENIED") return logOut(`${thrown.message}.`);
    state.value = { kind: "unreachable", problem: messageOf(thrown) };
  }
}

export function logOut(problem?: string): void {
  attempts += 1;
  sessionStorage.removeItem(TOKEN_KEY);
  state.value = { kind: "login", problem };
}

export function currentToken(): string | undefined {
  return sessionStorage.getItem(TOKEN_KEY) ?? undefined;
}

/** Fetches a route for which the client has no method, such as `/ready`, with the current token. */
export function fetchRoute(path: string, init: RequestInit = {}): Promise<Response> {
  const token = currentToken();
  const headers = new Headers(init.headers);
  if (token !== undefined) headers.set("authorization", `Bearer ${token}`);
  return fetch(`${BASE_URL}${path}`, { ...init, headers });
}

export function client(): Client {
  if (state.value.kind !== "ready") throw new Error("the page is not connected to its server");
  return state.value.client;
}

/** Calls an operation by name. The page reads the wire's names everywhere, as the contract describes them. */
export const call: Client["dispatch"] = (...given) => client().dispatch(...given);

/** Whether the current token has a scope. Actions that it does not permit have no button. */
export function hasScope(scope: Scope): boolean {
  return state.value.kind === "ready" && state.value.scopes.includes(scope);
}

/** Whether the server has an optional capability, by its id in `capabilities/get`. */
export function hasCapability(id: string): boolean {
  return state.value.kind === "ready" && state.value.available.includes(id);
}

/** Returns the message of an error. Shows the login if the error says that the token is no longer valid. */
export function handleError(thrown: unknown): string {
  if (isUnauthorized(thrown)) logOut("This token is no longer valid. Enter another one.");
  return messageOf(thrown);
}

function isUnauthorized(thrown: unknown): boolean {
  return thrown instanceof RuntimeError && thrown.code === "UNAUTHORIZED";
}

function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}
