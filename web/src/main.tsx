// The shell: the bar at the top, the view below, and what is loaded first. Keep it small: the views and
// everything heavy come with import().
import { render } from "preact";
import { useEffect, useErrorBoundary, useRef } from "preact/hooks";

import "./styles/base.css";
import { identity, online, request } from "./api";
import { signOut } from "./account";
import { follow, navigate, usePlace } from "./router";
import { authProblem, authState, loadAuthState } from "./session";
import { useStore } from "./store";
import { dark, theme } from "./theme";
import { Icon, type IconName } from "./ui/icon";
import { lazy } from "./ui/lazy";
import { IconButton, Menu, Note, Questions, Spinner, Toasts } from "./ui/parts";

const Mark = lazy(() => import("./mark/view"));
const Sources = lazy(() => import("./mark/sources"));
const Play = lazy(() => import("./play/view"));
const Shared = lazy(() => import("./play/shared"));
const Admin = lazy(() => import("./admin/view"));
const Settings = lazy(() => import("./settings"));

const TABS: { path: string; label: string; icon: IconName; mark?: boolean; operator?: boolean }[] = [
  { path: "/", label: "Mark", icon: "chat", mark: true },
  { path: "/sources", label: "Sources", icon: "database", mark: true },
  { path: "/play", label: "Playground", icon: "code" },
  { path: "/admin", label: "Dashboard", icon: "gauge", operator: true },
];

function Bar() {
  const { path } = usePlace();
  const state = useStore(authState);
  const { tokens, key } = useStore(identity);
  const isDark = useStore(dark);
  const here = (tab: string) => (tab === "/" ? path === "/" || path.startsWith("/chat") : path === tab || path.startsWith(`${tab}/`));
  return (
    <header class="bar">
      <a class="brand" href="/" onClick={follow} aria-label="Glovebox">
        <svg width="24" height="24" viewBox="0 0 32 32" aria-hidden="true">
          <rect width="32" height="32" rx="7" fill="var(--accent)" />
          <rect x="6" y="8" width="20" height="16" rx="2.5" fill="none" stroke="var(--on-accent)" stroke-width="2" />
          <circle cx="12" cy="17" r="3.2" fill="none" stroke="var(--on-accent)" stroke-width="2" />
          <circle cx="20" cy="17" r="3.2" fill="none" stroke="var(--on-accent)" stroke-width="2" />
        </svg>
        <span>Glovebox</span>
      </a>
      <nav aria-label="Views">
        {TABS.filter((tab) => (!tab.mark || state?.mark !== "off") && (!tab.operator || tokens?.user.role === "operator")).map((tab) => (
          <a key={tab.path} href={tab.path} onClick={follow} aria-current={here(tab.path) ? "page" : undefined}>
            <Icon name={tab.icon} /> <span>{tab.label}</span>
          </a>
        ))}
        <a href="/docs">
          <Icon name="docs" /> <span>Docs</span>
        </a>
      </nav>
      <div class="bar-end">
        <IconButton icon={isDark ? "sun" : "moon"} label={isDark ? "Light colours" : "Dark colours"} onClick={() => theme.set(isDark ? "light" : "dark")} />
        {tokens || key ? (
          <Menu label="Account" icon="user" items={[
            ...(tokens ? [{ label: tokens.user.role === "guest" ? "Guest (demo)" : tokens.user.email, icon: "settings" as IconName, run: () => navigate("/settings") }] : []),
            { label: tokens ? "Sign out" : "Forget the key", run: () => void signOut() },
          ]} />
        ) : null}
      </div>
    </header>
  );
}

/** Looks for the server until it is back. */
function Offline() {
  const up = useStore(online);
  useEffect(() => {
    if (up) return;
    const timer = setInterval(() => void request("/health").catch(() => undefined), 2000);
    return () => clearInterval(timer);
  }, [up]);
  return up ? null : <div class="offline" role="alert"><Icon name="warning" /> The server cannot be reached. Trying again…</div>;
}

function View() {
  const { path } = usePlace();
  const state = useStore(authState);
  const problem = useStore(authProblem);
  if (!state && problem) return <div class="welcome"><section class="card"><h1>Glovebox</h1><Note bad>The server cannot be reached, or is not ready yet. <button type="button" class="link" onClick={() => void loadAuthState()}>Try again</button></Note></section></div>;
  if (!state) return <div class="center"><Spinner /></div>;
  if (path.startsWith("/play")) return <Play />;
  if (path.startsWith("/shared/")) return <Shared />;
  if (path.startsWith("/admin")) return <Admin />;
  if (path === "/settings") return <Settings />;
  if (state.mark === "off") return <Play />;
  if (path.startsWith("/sources")) return <Sources />;
  return <Mark />;
}

/** The view, or, if drawing it fails, a way out; another view may work. */
function Guarded() {
  const { path } = usePlace();
  const [error, reset] = useErrorBoundary((problem: unknown) => console.error(problem));
  const at = useRef(path);
  useEffect(() => {
    if (at.current === path) return;
    at.current = path;
    reset();
  }, [path]);
  if (error) return <div class="center"><Note bad>Something in this view went wrong. <button type="button" class="link" onClick={() => location.reload()}>Reload the page</button></Note></div>;
  return <View />;
}

function App() {
  const { path } = usePlace();
  useEffect(() => {
    document.title = path.startsWith("/play") ? "Playground · Glovebox" : path.startsWith("/shared/") ? "Shared notebook · Glovebox" : path.startsWith("/admin") ? "Dashboard · Glovebox" : path.startsWith("/sources") ? "Sources · Glovebox" : "Mark · Glovebox";
  }, [path]);
  const up = useStore(online);
  useEffect(() => {
    if (up && !authState.get()) void loadAuthState();
  }, [up]);
  return (
    <>
      <a class="skip" href="#view">Skip to the content</a>
      <Bar />
      <Offline />
      <main id="view" tabIndex={-1}>
        <Guarded />
      </main>
      <Toasts />
      <Questions />
    </>
  );
}

void loadAuthState();
render(<App />, document.getElementById("app")!);
