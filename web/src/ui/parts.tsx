// Small parts that all views use: buttons with icons, dialogs, menus, messages, things that are loading.
import type { ComponentChildren, ButtonHTMLAttributes } from "preact";
import { useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";

import { isAbort, say } from "../api";
import { toClipboard } from "../clipboard";
import { store, useStore } from "../store";
import { Icon, type IconName } from "./icon";

// ---- buttons ----

interface IconButtonProps extends Omit<ButtonHTMLAttributes<HTMLButtonElement>, "label" | "icon" | "disabled"> {
  icon: IconName;
  label: string; // what it does, for screen readers and as a tooltip
  pressed?: boolean;
  disabled?: boolean;
}

export function IconButton({ icon, label, pressed, disabled, class: className, ...rest }: IconButtonProps) {
  return (
    <button type="button" class={`icon-button ${(className as string) ?? ""}`} aria-label={label} title={label} aria-pressed={pressed} disabled={disabled} {...rest}>
      <Icon name={icon} />
    </button>
  );
}

// ---- messages ----

interface Toast {
  id: number;
  text: string;
  bad: boolean;
}

const toasts = store<Toast[]>([]);
let lastToast = 0;

/** A short message at the edge of the page. */
export function toast(text: string, bad = false): void {
  const id = ++lastToast;
  toasts.set((list) => [...list.slice(-3), { id, text, bad }]);
  setTimeout(() => toasts.set((list) => list.filter((one) => one.id !== id)), bad ? 9000 : 4000);
}

/** Runs something and shows why it failed. */
export async function attempt<T>(work: () => Promise<T>): Promise<T | undefined> {
  try {
    return await work();
  } catch (error) {
    if (!isAbort(error)) toast(say(error), true);
    return undefined;
  }
}

export function Toasts() {
  const list = useStore(toasts);
  return (
    <div class="toasts" role="status" aria-live="polite">
      {list.map((one) => (
        <div key={one.id} class={one.bad ? "toast bad" : "toast"}>
          {one.text}
          <IconButton icon="close" label="Dismiss" onClick={() => toasts.set((all) => all.filter((other) => other.id !== one.id))} />
        </div>
      ))}
    </div>
  );
}

export function Note({ children, bad }: { children: ComponentChildren; bad?: boolean }) {
  return <p class={bad ? "note bad" : "note"} role={bad ? "alert" : undefined}>{children}</p>;
}

export function Spinner({ label = "Loading" }: { label?: string }) {
  return <span class="spinner" role="status"><span class="visually-hidden">{label}</span></span>;
}

/** A bar from 0 to 1, or one that only moves if `value` is null. */
export function Progress({ value, label }: { value: number | null; label: string }) {
  return <progress class="progress" aria-label={label} {...(value === null ? {} : { value, max: 1 })} />;
}

// ---- dialogs ----

interface DialogProps {
  title: string;
  onClose(): void;
  children: ComponentChildren;
  wide?: boolean;
}

/** A modal dialog; Escape and a click beside it close it. */
export function Dialog({ title, onClose, children, wide }: DialogProps) {
  const element = useRef<HTMLDialogElement>(null);
  const heading = useId();
  useEffect(() => {
    const dialog = element.current!;
    const before = document.activeElement as HTMLElement | null;
    if (!dialog.open) dialog.showModal();
    return () => {
      dialog.close();
      before?.focus?.();
    };
  }, []);
  return (
    <dialog
      ref={element}
      class={wide ? "dialog wide" : "dialog"}
      aria-labelledby={heading}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onMouseDown={(event) => {
        if (event.target === element.current) onClose();
      }}
    >
      <div class="dialog-body">
        <header>
          <h2 id={heading}>{title}</h2>
          <IconButton icon="close" label="Close" onClick={onClose} />
        </header>
        {children}
      </div>
    </dialog>
  );
}

interface Question {
  title: string;
  text: string;
  action: string;
  answer(yes: boolean): void;
}

const question = store<Question | null>(null);

/** Asks before something that cannot be undone. */
export function confirmed(title: string, text: string, action: string): Promise<boolean> {
  return new Promise((resolve) =>
    question.set({
      title, text, action,
      answer: (yes) => {
        question.set(null);
        resolve(yes);
      },
    }),
  );
}

export function Questions() {
  const one = useStore(question);
  if (!one) return null;
  return (
    <Dialog title={one.title} onClose={() => one.answer(false)}>
      <p>{one.text}</p>
      <div class="row end">
        <button type="button" onClick={() => one.answer(false)}>Cancel</button>
        <button type="button" class="danger" onClick={() => one.answer(true)}>{one.action}</button>
      </div>
    </Dialog>
  );
}

// ---- menus ----

export interface MenuItem {
  label: string;
  icon?: IconName;
  danger?: boolean;
  disabled?: boolean;
  run(): void;
}

/** Whether there is no room below the button, but there is above it, within what scrolls around it. */
function opensUp(list: HTMLElement, root: HTMLElement): boolean {
  let box = root.parentElement;
  while (box && getComputedStyle(box).overflowY === "visible") box = box.parentElement;
  const around = (box ?? document.documentElement).getBoundingClientRect();
  const button = root.getBoundingClientRect();
  const top = Math.max(0, around.top);
  const bottom = Math.min(window.innerHeight, around.bottom);
  return button.bottom + list.offsetHeight + 8 > bottom && button.top - list.offsetHeight - 8 >= top;
}

export function Menu({ label, icon = "more", items, text }: { label: string; icon?: IconName; items: MenuItem[]; text?: string }) {
  const [open, setOpen] = useState(false);
  const root = useRef<HTMLDivElement>(null);
  const list = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    if (!open) return;
    const element = list.current!;
    element.classList.toggle("up", opensUp(element, root.current!));
    const { left, right } = element.getBoundingClientRect();
    const beyond = Math.max(0, right + 8 - document.documentElement.clientWidth);
    element.style.translate = `${beyond ? -Math.min(beyond, left - 8) : Math.max(0, 8 - left)}px`; // all of it is on the screen
  }, [open]);
  useEffect(() => {
    if (!open) return;
    const outside = (event: Event) => {
      if (!root.current?.contains(event.target as Node)) setOpen(false);
    };
    document.addEventListener("pointerdown", outside);
    (list.current?.querySelector("button:not(:disabled)") as HTMLElement | null)?.focus();
    return () => document.removeEventListener("pointerdown", outside);
  }, [open]);
  const move = (event: KeyboardEvent) => {
    if (event.key === "Escape") {
      setOpen(false);
      (root.current?.firstElementChild as HTMLElement | null)?.focus();
      event.stopPropagation();
    }
    if (event.key === "Tab") setOpen(false);
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    const buttons = [...(list.current?.querySelectorAll("button:not(:disabled)") ?? [])] as HTMLElement[];
    const at = buttons.indexOf(document.activeElement as HTMLElement);
    buttons[(at + (event.key === "ArrowDown" ? 1 : buttons.length - 1)) % buttons.length]?.focus();
    event.preventDefault();
  };
  return (
    <div class="menu" ref={root} onKeyDown={move}>
      {text ? (
        <button type="button" aria-haspopup="menu" aria-expanded={open} onClick={() => setOpen(!open)}>
          <Icon name={icon} /> {text}
        </button>
      ) : (
        <IconButton icon={icon} label={label} aria-haspopup="menu" aria-expanded={open} onClick={() => setOpen(!open)} />
      )}
      {open && (
        <div class="menu-list" role="menu" aria-label={label} ref={list}>
          {items.map((item) => (
            <button key={item.label} type="button" role="menuitem" class={item.danger ? "danger-text" : ""} disabled={item.disabled}
              onClick={() => {
                (root.current?.firstElementChild as HTMLElement | null)?.focus(); // a dialog gives it back there
                setOpen(false);
                item.run();
              }}>
              {item.icon && <Icon name={item.icon} />} {item.label}
            </button>
          ))}
        </div>
      )}
    </div>
  );
}

// ---- fields ----

export function Field({ label, hint, children }: { label: string; hint?: string; children: (id: string) => ComponentChildren }) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {children(id)}
      {hint && <small>{hint}</small>}
    </div>
  );
}

// ---- loading ----

export interface Loaded<T> {
  value: T | undefined;
  error: string;
  loading: boolean;
  reload(): void;
}

/** Loads something when `key` changes; keeps the old value while it loads again. */
export function useLoad<T>(load: (signal: AbortSignal) => Promise<T>, key: unknown[]): Loaded<T> {
  const [state, setState] = useState<{ value: T | undefined; error: string; loading: boolean }>({ value: undefined, error: "", loading: true });
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const abort = new AbortController();
    setState((old) => ({ ...old, loading: true }));
    load(abort.signal).then(
      (value) => !abort.signal.aborted && setState({ value, error: "", loading: false }),
      (error: unknown) => !abort.signal.aborted && setState((old) => ({ ...old, error: say(error), loading: false })),
    );
    return () => abort.abort();
  }, [...key, turn]);
  return { ...state, reload: () => setTurn((n) => n + 1) };
}

/** Calls again and again while the page is visible. */
export function useInterval(call: () => void, ms: number | null): void {
  const latest = useRef(call);
  latest.current = call;
  useEffect(() => {
    if (ms === null) return;
    const timer = setInterval(() => {
      if (document.visibilityState === "visible") latest.current();
    }, ms);
    return () => clearInterval(timer);
  }, [ms]);
}

export async function copyText(text: string): Promise<void> {
  if (await toClipboard(text)) toast("Copied");
  else toast("The browser does not allow copying here", true);
}
