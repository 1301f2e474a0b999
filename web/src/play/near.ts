// What is far from the visible part of the notebook is not drawn: editors and frames cost memory.
import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

const observers = new WeakMap<Element, IntersectionObserver>();
const calls = new WeakMap<Element, (near: boolean) => void>();

function observerOf(root: Element): IntersectionObserver {
  let one = observers.get(root);
  if (!one) {
    one = new IntersectionObserver(
      (entries) => {
        for (const entry of entries) calls.get(entry.target)?.(entry.isIntersecting);
      },
      { root, rootMargin: "1200px 0px" },
    );
    observers.set(root, one);
  }
  return one;
}

/** Whether an element was near at some time: what is drawn once stays. */
export function useSeen(near: boolean): boolean {
  const seen = useRef(false);
  if (near) seen.current = true;
  return seen.current;
}

/** Whether an element is in or near the visible part of the scrolling area around it. */
export function useNear(ref: RefObject<HTMLElement | null>): boolean {
  const [near, setNear] = useState(false);
  useEffect(() => {
    const element = ref.current!;
    const root = element.closest(".play-scroll");
    if (!root) {
      setNear(true);
      return;
    }
    const observer = observerOf(root);
    calls.set(element, setNear);
    observer.observe(element);
    return () => {
      observer.unobserve(element);
      calls.delete(element);
    };
  }, []);
  return near;
}
