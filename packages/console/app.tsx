import { useSignal } from "@preact/signals";
import type { SessionPage } from "@rkat/core/contract/wire/session-page";
import type { ComponentChildren, ComponentType, JSX } from "preact";
import { useEffect, useErrorBoundary } from "preact/hooks";
import { formatTime } from "./format.ts";
import { Frame } from "./frame.tsx";
import { Note, Spinner, textField } from "./parts.tsx";
import { linkTo, route } from "./router.ts";
import { savedSession } from "./saved-page.ts";
import { AgentsScreen } from "./screens/agents.tsx";
import { ApiScreen } from "./screens/api.tsx";
import { MemoryScreen } from "./screens/memory.tsx";
import { NewSessionScreen } from "./screens/new-session.tsx";
import { SchedulesScreen } from "./screens/schedules.tsx";
import { ServerScreen } from "./screens/server.tsx";
import { SessionScreen } from "./screens/session.tsx";
import { SessionsScreen } from "./screens/sessions.tsx";
import { connectToServer, currentToken, logOut, state } from "./server.ts";

interface Screen {
  readonly name: string;
  readonly title: string;
  readonly Content: ComponentType<{ path: readonly string[] }>;
}

/** The screens, named by the first part of their route. The first one is the default. */
const SCREENS: readonly [Screen, ...Screen[]] = [
  {
    name: "sessions",
    title: "Sessions",
    Content: ({ path }) =>
      path[0] === "new" ? <NewSessionScreen /> : path[0] ? <SessionScreen path={path} /> : <SessionsScreen />,
  },
  { name: "schedules", title: "Schedules", Content: SchedulesScreen },
  { name: "memory", title: "Memory", Content: MemoryScreen },
  { name: "agents", title: "Agents", Content: AgentsScreen },
  { name: "server", title: "Server", Content: ServerScreen },
  { name: "api", title: "API", Content: ApiScreen },
];

export function App(): JSX.Element {
  switch (state.value.kind) {
    case "connecting":
      return <Spinner label="Connecting" />;
    case "login":
      return <Login problem={state.value.problem} />;
    case "unreachable":
      return <Unreachable problem={state.value.problem} />;
    case "ready":
      return savedSession === undefined ? <LivePage /> : <SavedPage saved={savedSession} />;
  }
}

function LivePage(): JSX.Element {
  const [name = "", ...rest] = route.value.path;
  const found = SCREENS.find((one) => one.name === name);
  const screen = found ?? SCREENS[0];
  const path = found === undefined ? [] : rest;
  useEffect(() => {
    document.title = [...path, screen.title, "rkat"].join(" · ");
    document.getElementById("main")?.scrollTo(0, 0);
    // On a narrow page the navigation bar scrolls, and the current screen may be out of view.
    document.querySelector(".nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [route.value.path.join("/")]);
  return (
    <Frame
      home={linkTo(["sessions"])}
      label="Screens"
      nav={SCREENS.map((one) => (
        <a key={one.name} href={linkTo([one.name])} aria-current={one === screen ? "page" : undefined}>
          {one.title}
        </a>
      ))}
      actions={
        currentToken() !== undefined && (
          <button type="button" class="quiet" onClick={() => logOut()}>
            Log out
          </button>
        )
      }
    >
      <GuardedScreen key={screen.name} screen={screen} path={path} />
    </Frame>
  );
}

/** The screens of the one session that a saved page holds. Every other route leads to that session. */
function SavedPage({ saved }: { saved: SessionPage }): JSX.Element {
  const { session_id, title } = saved.session;
  const [, id, ...rest] = route.value.path;
  useEffect(() => {
    document.title = [title || session_id, "rkat"].join(" · ");
  }, []);
  return (
    <Frame
      home={linkTo(["sessions", session_id])}
      label="This page"
      nav={<p class="saved-note">Session saved {formatTime(saved.kept_at)}. This page works offline.</p>}
    >
      <SessionScreen path={[session_id, ...(id === session_id ? rest : [])]} />
    </Frame>
  );
}

/** Shows a screen, or its error if it throws, for example on a response from another version of the server. */
function GuardedScreen({ screen, path }: { screen: Screen; path: readonly string[] }): JSX.Element {
  const [thrown, reset] = useErrorBoundary();
  useEffect(reset, [path.join("/")]);
  if (thrown === undefined) return <screen.Content path={path} />;
  return (
    <div class="stack">
      <h1>{screen.title}</h1>
      <Note kind="bad">
        This screen cannot be shown: {thrown instanceof Error ? thrown.message : String(thrown)}. The server and this
        page may be different versions.
      </Note>
      <div class="row">
        <button type="button" class="primary" onClick={() => location.reload()}>
          Reload page
        </button>
      </div>
    </div>
  );
}

function Login({ problem }: { problem: string | undefined }): JSX.Element {
  const token = useSignal("");
  const submit = (event: Event): void => {
    event.preventDefault();
    if (token.value.trim() !== "") void connectToServer(token.value.trim());
  };
  return (
    <LoginCard>
      <p>
        This server requires a token. <code>rkat console</code> prints an address that holds one. The token is stored
        for this tab only and removed when the tab is closed.
      </p>
      {problem !== undefined && <Note kind="bad">{problem}</Note>}
      <form onSubmit={submit}>
        <label>
          Token
          <input type="password" name="token" autocomplete="current-password" {...textField(token)} />
        </label>
        <button type="submit" class="primary">
          Log in
        </button>
      </form>
    </LoginCard>
  );
}

function Unreachable({ problem }: { problem: string }): JSX.Element {
  return (
    <LoginCard>
      <Note kind="bad">The server is not responding: {problem}</Note>
      <button type="button" class="primary" onClick={() => void connectToServer()}>
        Try again
      </button>
    </LoginCard>
  );
}

function LoginCard({ children }: { children: ComponentChildren }): JSX.Element {
  return (
    <main class="login">
      <div class="card">
        <h1>rkat</h1>
        {children}
      </div>
    </main>
  );
}
