import { signal } from "@preact/signals";
import type { Client } from "../src/client.ts";
import { connect, RuntimeError } from "../src/clients/browser.ts";
import type { Scope } from "../src/contract/caller.ts";
import { createKeptRuntime, kept } from "./kept.ts";
import { decoded, replace } from "./router.ts";

/** Where the page was served from, whatever prefix a proxy has put before it. */
export const BASE = new URL(".", location.href.replace(/#.*$/, "")).href.replace(/\/$/, "");

const TOKEN = "rkat-token";

type State =
  | { readonly kind: "connecting" }
  | { readonly kind: "ready"; readonly client: Client; may(scope: Scope): boolean; has(capability: string): boolean }
  | { readonly kind: "login"; readonly sentence: string | undefined }
  | { readonly kind: "away"; readonly sentence: string };

/** How this page stands with its server. */
export const state = signal<State>({ kind: "connecting" });

/** A token in the address is taken out of it at once: addresses are shown, kept and copied. */
function takeToken(): string | undefined {
  const [, given] = /^#token=(.*)$/s.exec(location.hash) ?? [];
  if (given !== undefined) replace(`${location.pathname}${location.search}`);
  if (given !== undefined && given !== "") sessionStorage.setItem(TOKEN, decoded(given));
  return sessionStorage.getItem(TOKEN) ?? undefined;
}

// An address with a token may also be given to a page that is open already.
window.addEventListener("hashchange", () => {
  if (location.hash.startsWith("#token=")) void open();
});

/** How often it was connected: what an earlier attempt is told counts no more. */
let attempts = 0;

/** Connects with the token at hand; leads to the login where the server asks for another. */
export async function open(token = takeToken()): Promise<void> {
  // No header could carry it, so no server has it.
  if (token !== undefined && !/^[\x21-\x7e]+$/.test(token)) return leave(WRONG);
  attempts += 1;
  const attempt = attempts;
  state.value = { kind: "connecting" };
  try {
    const server = { url: BASE, ...(token === undefined ? {} : { token }) };
    const client = await connect(kept === undefined ? server : { runtime: createKeptRuntime(kept) });
    const [{ scopes }, { capabilities }] = await Promise.all([client.readAccess(), client.readCapabilities()]);
    if (attempt !== attempts) return;
    const there = capabilities.filter(({ status }) => status === "Available").map(({ id }) => id);
    if (token !== undefined) sessionStorage.setItem(TOKEN, token);
    state.value = { kind: "ready", client, may: (scope) => scopes.includes(scope), has: (id) => there.includes(id) };
  } catch (thrown) {
    if (attempt !== attempts) return;
    if (isUnauthorized(thrown)) return leave(token === undefined ? undefined : WRONG);
    // A token that may not even read shows nothing; another may.
    if (thrown instanceof RuntimeError && thrown.code === "PERMISSION_DENIED") return leave(`${thrown.message}.`);
    state.value = { kind: "away", sentence: sentenceOf(thrown) };
  }
}

const WRONG = "That token is not one of this server's.";

/** Forgets the token. */
export function leave(sentence?: string): void {
  attempts += 1;
  sessionStorage.removeItem(TOKEN);
  state.value = { kind: "login", sentence };
}

/** The token of this tab, for examples and for files that are opened beside it. */
export function tokenAtHand(): string | undefined {
  return sessionStorage.getItem(TOKEN) ?? undefined;
}

/** Asks what is no operation of the client, such as whether the server is ready; with the token at hand. */
export function request(path: string, init: RequestInit = {}): Promise<Response> {
  const token = tokenAtHand();
  const headers = new Headers(init.headers);
  if (token !== undefined) headers.set("authorization", `Bearer ${token}`);
  return fetch(`${BASE}${path}`, { ...init, headers });
}

/** The client; screens are only shown while there is one. */
export function client(): Client {
  if (state.value.kind !== "ready") throw new Error("no screen is shown before the server answers");
  return state.value.client;
}

/** Whether the token at hand may do this: what it may not has no button. */
export function may(scope: Scope): boolean {
  return state.value.kind === "ready" && state.value.may(scope);
}

/** Whether the server has a part that can be left out, as `capabilities/get` names it. */
export function has(capability: string): boolean {
  return state.value.kind === "ready" && state.value.has(capability);
}

/** What went wrong, in a sentence. A token that counts no more leads back to the login. */
export function failed(thrown: unknown): string {
  if (isUnauthorized(thrown)) leave("The token counts no more; give another.");
  return sentenceOf(thrown);
}

function isUnauthorized(thrown: unknown): boolean {
  return thrown instanceof RuntimeError && thrown.code === "UNAUTHORIZED";
}

function sentenceOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}
