import { useSignal } from "@preact/signals";
import type { ComponentType, JSX } from "preact";
import { useEffect, useErrorBoundary } from "preact/hooks";
import type { KeptSession } from "../src/contract/kept-session.ts";
import { formatTime } from "./format.ts";
import { kept } from "./kept.ts";
import { Note, Spinner } from "./parts.tsx";
import { linkTo, place } from "./router.ts";
import { AgentsScreen } from "./screens/agents.tsx";
import { ApiScreen } from "./screens/api.tsx";
import { MemoryScreen } from "./screens/memory.tsx";
import { ServerScreen } from "./screens/server.tsx";
import { SessionScreen } from "./screens/session.tsx";
import { SessionsScreen } from "./screens/sessions.tsx";
import { leave, open, state, tokenAtHand } from "./server.ts";
import { nextTheme, theme } from "./theme.ts";

interface Screen {
  readonly name: string;
  readonly title: string;
  readonly Show: ComponentType<{ path: readonly string[] }>;
}

/** The screens by the first part of their address; the first is where one begins. */
const SCREENS: readonly [Screen, ...Screen[]] = [
  {
    name: "sessions",
    title: "Sessions",
    Show: ({ path }) => (path[0] ? <SessionScreen path={path} /> : <SessionsScreen />),
  },
  { name: "memory", title: "Memory", Show: MemoryScreen },
  { name: "agents", title: "Agents", Show: AgentsScreen },
  { name: "server", title: "Server", Show: ServerScreen },
  { name: "api", title: "API", Show: ApiScreen },
];

export function App(): JSX.Element {
  switch (state.value.kind) {
    case "connecting":
      return <Spinner what="Connecting" />;
    case "login":
      return <Login sentence={state.value.sentence} />;
    case "away":
      return <Away sentence={state.value.sentence} />;
    case "ready":
      return kept === undefined ? <Shell /> : <KeptShell kept={kept} />;
  }
}

function Shell(): JSX.Element {
  const [name = "", ...below] = place.value.path;
  const found = SCREENS.find((one) => one.name === name);
  const screen = found ?? SCREENS[0];
  const path = found === undefined ? [] : below;
  useEffect(() => {
    document.title = [...path, screen.title, "rkat"].join(" · ");
    document.getElementById("main")?.scrollTo(0, 0);
    // On a narrow page the names of the screens are wider than it is.
    document.querySelector(".nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [place.value.path.join("/")]);
  return (
    <div class="shell">
      <button type="button" class="skip" onClick={skip}>
        To the content
      </button>
      <nav class="nav" aria-label="Screens">
        <a class="brand" href={linkTo(["sessions"])}>
          rkat
        </a>
        {SCREENS.map((one) => (
          <a key={one.name} href={linkTo([one.name])} aria-current={one === screen ? "page" : undefined}>
            {one.title}
          </a>
        ))}
        <span class="grow" />
        <ThemeButton />
        {tokenAtHand() !== undefined && (
          <button type="button" class="quiet" onClick={() => leave()}>
            Log out
          </button>
        )}
      </nav>
      <main class="main" id="main" tabIndex={-1}>
        <Screened key={screen.name} screen={screen} path={path} />
      </main>
    </div>
  );
}

/** The screens of the one session that a file holds; every other address leads to it. */
function KeptShell({ kept }: { kept: KeptSession }): JSX.Element {
  const { session_id, title } = kept.session;
  const [, id, ...rest] = place.value.path;
  useEffect(() => {
    document.title = [title || session_id, "rkat"].join(" · ");
  }, []);
  return (
    <div class="shell">
      <button type="button" class="skip" onClick={skip}>
        To the content
      </button>
      <nav class="nav" aria-label="This page">
        <a class="brand" href={linkTo(["sessions", session_id])}>
          rkat
        </a>
        <p class="kept-note">A session as it was on {formatTime(kept.kept_at)}, in a file. Nothing is sent anywhere.</p>
        <span class="grow" />
        <ThemeButton />
      </nav>
      <main class="main" id="main" tabIndex={-1}>
        <SessionScreen path={[session_id, ...(id === session_id ? rest : [])]} />
      </main>
    </div>
  );
}

/** A screen, or why it cannot be shown: such as an answer of a server that is not of this page's version. */
function Screened({ screen, path }: { screen: Screen; path: readonly string[] }): JSX.Element {
  const [thrown, forget] = useErrorBoundary();
  useEffect(forget, [path.join("/")]);
  if (thrown === undefined) return <screen.Show path={path} />;
  return (
    <div class="stack">
      <h1>{screen.title}</h1>
      <Note kind="bad">
        This cannot be shown: {thrown instanceof Error ? thrown.message : String(thrown)}. The server may be of another
        version than this page.
      </Note>
      <div class="row">
        <button type="button" class="primary" onClick={() => location.reload()}>
          Load the page again
        </button>
      </div>
    </div>
  );
}

function ThemeButton(): JSX.Element {
  return (
    <button type="button" class="quiet" onClick={nextTheme} title="Light, dark, or as the system has it">
      Theme: {theme.value}
    </button>
  );
}

/** The address belongs to the router: the way to the content must not change it. */
function skip(): void {
  document.getElementById("main")?.focus();
}

function Login({ sentence }: { sentence: string | undefined }): JSX.Element {
  const token = useSignal("");
  const submit = (event: Event): void => {
    event.preventDefault();
    if (token.value.trim() !== "") void open(token.value.trim());
  };
  return (
    <main class="login">
      <form onSubmit={submit} class="card">
        <h1>rkat</h1>
        <p>This server asks for a token. It is kept for this tab, and forgotten with it.</p>
        {sentence !== undefined && <Note kind="bad">{sentence}</Note>}
        <label>
          Token
          <input
            type="password"
            name="token"
            autocomplete="current-password"
            value={token}
            onInput={(event) => {
              token.value = event.currentTarget.value;
            }}
          />
        </label>
        <button type="submit" class="primary">
          Log in
        </button>
      </form>
    </main>
  );
}

function Away({ sentence }: { sentence: string }): JSX.Element {
  return (
    <main class="login">
      <div class="card">
        <h1>rkat</h1>
        <Note kind="bad">The server does not answer: {sentence}</Note>
        <button type="button" class="primary" onClick={() => void open()}>
          Try again
        </button>
      </div>
    </main>
  );
}
