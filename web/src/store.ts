// A value that components can watch. What more than one view shares lives in one of these; everything
// else is state of a component.
import { useEffect, useState } from "preact/hooks";

export interface Store<T> {
  get(): T;
  set(value: T | ((old: T) => T)): void;
  watch(call: (value: T) => void): () => void;
}

export function store<T>(initial: T): Store<T> {
  let value = initial;
  const watchers = new Set<(value: T) => void>();
  return {
    get: () => value,
    set(next) {
      const old = value;
      value = typeof next === "function" ? (next as (old: T) => T)(old) : next;
      if (value !== old) for (const call of [...watchers]) call(value);
    },
    watch(call) {
      watchers.add(call);
      return () => void watchers.delete(call);
    },
  };
}

export function useStore<T>(from: Store<T>): T {
  const [value, set] = useState(from.get());
  useEffect(() => {
    set(() => from.get()); // it may have changed between the first drawing and now
    return from.watch((next) => set(() => next));
  }, [from]);
  return value;
}
