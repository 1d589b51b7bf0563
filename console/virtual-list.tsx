import { useSignal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";

/** Rows above and below what is seen, so that scrolling finds them there. */
const BESIDE = 8;

/**
 * A list of which only what is seen is in the page: ten thousand rows cost as much as twenty. Rows may be of any height;
 * one that was not yet shown is taken to be as high as the others were on the average.
 */
export function VirtualList<T>(props: {
  items: readonly T[];
  keyOf: (item: T) => string;
  show: (item: T, index: number) => ComponentChildren;
  estimate: number;
  label: string;
  /** Whether the end stays in sight when something is added there, as long as one has not scrolled away from it. */
  follows?: boolean;
  /** The item to be brought into sight when this changes. */
  goTo?: string | undefined;
}): JSX.Element {
  const { items, keyOf, show, estimate, label, follows = false, goTo } = props;
  const outer = useRef<HTMLDivElement>(null);
  const heights = useRef(new Map<string, number>());
  const view = useSignal({ top: 0, height: 800 });
  const isAtEnd = useRef(true);
  const measured = useSignal(0);

  const mean = meanOf(heights.current, estimate);
  const offsets = offsetsOf(items, keyOf, heights.current, mean);
  const total = offsets.at(-1) ?? 0;
  const first = Math.max(0, indexAt(offsets, view.value.top) - BESIDE);
  const last = Math.min(items.length, indexAt(offsets, view.value.top + view.value.height) + 1 + BESIDE);
  void measured.value;

  useEffect(() => {
    const element = outer.current;
    if (element === null) return;
    const look = (): void => {
      view.value = { top: element.scrollTop, height: element.clientHeight };
      isAtEnd.current = element.scrollTop + element.clientHeight >= element.scrollHeight - 40;
    };
    const sizes = new ResizeObserver(look);
    sizes.observe(element);
    element.addEventListener("scroll", look, { passive: true });
    look();
    return () => {
      sizes.disconnect();
      element.removeEventListener("scroll", look);
    };
  }, []);

  useLayoutEffect(() => {
    const element = outer.current;
    if (element === null) return;
    let hasChanged = false;
    for (const row of element.querySelectorAll<HTMLElement>("[data-key]")) {
      const height = row.getBoundingClientRect().height;
      const key = row.dataset.key ?? "";
      if (Math.abs((heights.current.get(key) ?? -1) - height) > 0.5) {
        heights.current.set(key, height);
        hasChanged = true;
      }
    }
    if (hasChanged) measured.value += 1;
    if (follows && isAtEnd.current) element.scrollTop = element.scrollHeight;
  });

  useEffect(() => {
    if (goTo === undefined) return;
    const index = items.findIndex((item) => keyOf(item) === goTo);
    if (index < 0 || outer.current === null) return;
    isAtEnd.current = false;
    outer.current.scrollTop = offsets[index] ?? 0;
  }, [goTo, items.length === 0]);

  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by the keyboard
    <div class="virtual" ref={outer} role="feed" aria-label={label} tabIndex={0}>
      <div class="virtual-space" style={{ height: `${total}px` }}>
        <div class="virtual-rows" style={{ transform: `translateY(${offsets[first] ?? 0}px)` }}>
          {items.slice(first, last).map((item, at) => (
            <div key={keyOf(item)} data-key={keyOf(item)} class="virtual-row">
              {show(item, first + at)}
            </div>
          ))}
        </div>
      </div>
    </div>
  );
}

function meanOf(heights: ReadonlyMap<string, number>, estimate: number): number {
  if (heights.size === 0) return estimate;
  let sum = 0;
  for (const height of heights.values()) sum += height;
  return sum / heights.size;
}

/** Where each row begins, and where the last one ends. */
function offsetsOf<T>(
  items: readonly T[],
  keyOf: (item: T) => string,
  heights: ReadonlyMap<string, number>,
  mean: number,
): Float64Array {
  const offsets = new Float64Array(items.length + 1);
  let top = 0;
  for (const [index, item] of items.entries()) {
    offsets[index] = top;
    top += heights.get(keyOf(item)) ?? mean;
  }
  offsets[items.length] = top;
  return offsets;
}

/** The row that lies at a height. */
function indexAt(offsets: Float64Array, top: number): number {
  let low = 0;
  let high = Math.max(0, offsets.length - 2);
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if ((offsets[middle] ?? 0) <= top) low = middle;
    else high = middle - 1;
  }
  return low;
}
