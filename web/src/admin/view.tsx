// The dashboard: what is going on, for operators. Each view is an address of its own.
import type { ComponentType } from "preact";
import { useEffect, useRef } from "preact/hooks";

import "../styles/admin.css";
import { SignIn } from "../account";
import { identity } from "../api";
import { follow, usePlace } from "../router";
import { authState } from "../session";
import { useStore } from "../store";
import { Icon, type IconName } from "../ui/icon";
import { Audit } from "./audit";
import OverviewPage from "./overview";
import { live } from "./parts";
import { Keys, Users } from "./people";
import { Spending, SourcesState, Stock } from "./stock";
import { Executions, Sessions } from "./work";

const VIEWS: { path: string; label: string; title?: string; icon: IconName; view: ComponentType }[] = [
  { path: "", label: "Overview", icon: "gauge", view: OverviewPage },
  { path: "sessions", label: "Sessions", icon: "box", view: Sessions },
  { path: "executions", label: "Executions", icon: "play", view: Executions },
  { path: "keys", label: "Keys", icon: "key", view: Keys },
  { path: "users", label: "Users", icon: "users", view: Users },
  { path: "audit", label: "Audit log", icon: "check", view: Audit },
  { path: "packages", label: "Packages", title: "Templates and packages", icon: "package", view: Stock },
  { path: "sources", label: "Sources", icon: "database", view: SourcesState },
  { path: "models", label: "Models", title: "Models and spend", icon: "chart", view: Spending },
];

function Closed({ who }: { who: string }) {
  return (
    <div class="welcome">
      <section class="card">
        <h1>The dashboard is for operators</h1>
        <p>{who} Ask an operator of this service to make you one, or sign in with another account.</p>
        <p><a href="/" onClick={follow}>Back to Mark</a> or <a href="/play" onClick={follow}>the playground</a></p>
      </section>
    </div>
  );
}

export default function Dashboard() {
  const { path } = usePlace();
  const { tokens, key } = useStore(identity);
  const state = useStore(authState);
  const on = useStore(live);
  const nav = useRef<HTMLElement>(null);
  // On a phone the list of views is wider than the screen.
  useEffect(() => {
    const link = nav.current?.querySelector<HTMLElement>("[aria-current]");
    if (nav.current && link) nav.current.scrollLeft = link.offsetLeft - (nav.current.clientWidth - link.offsetWidth) / 2;
  }, [path]);
  if (state?.mark === "off")
    return <div class="welcome"><section class="card"><h1>There is no dashboard here</h1><p>Operators are accounts, and this service runs without accounts (<code>--mark off</code>). Use <code>glovebox key</code> and <code>glovebox audit</code>, and <code>/metrics</code>.</p></section></div>;
  if (!tokens && !key) return <SignIn why="The dashboard is for operators." />;
  if (!tokens) return <Closed who="You use an API key, and only accounts can be operators." />;
  if (tokens.user.role !== "operator") return <Closed who={tokens.user.role === "guest" ? "You look around as a guest." : `You are signed in as ${tokens.user.email}.`} />;
  const name = path.replace(/^\/admin\/?/, "").replace(/\/$/, "");
  const current = VIEWS.find((one) => one.path === name);
  const View = current?.view;
  return (
    <div class="admin">
      <nav class="admin-nav" aria-label="Dashboard" ref={nav}>
        {VIEWS.map((one) => (
          <a key={one.path} href={one.path ? `/admin/${one.path}` : "/admin"} onClick={follow} aria-current={one === current ? "page" : undefined}>
            <Icon name={one.icon} /> <span>{one.label}</span>
          </a>
        ))}
      </nav>
      <div class="admin-body">
        <div class="row spread admin-head">
          <h1>{current ? (current.title ?? current.label) : "Not found"}</h1>
          <button type="button" class="live" aria-pressed={on} onClick={() => live.set(!on)} title={on ? "The numbers follow the service; click to pause" : "Paused; click to follow the service"}>
            <span class="pulse" aria-hidden="true" /> {on ? "Live" : "Paused"}
          </button>
        </div>
        {View ? <View key={name} /> : <p>There is no such view. <a href="/admin" onClick={follow}>To the overview</a></p>}
      </div>
    </div>
  );
}
