import { useSignal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";

/** Rows above and below what is seen, so that scrolling finds them there. */
const BESIDE = 8;
/** As far from the end as this, one is still taken to read along. */
const END_PX = 40;

/**
 * A list of which only what is seen is in the page: ten thousand rows cost as much as twenty. Rows may be of any height,
 * and change it; one that was not yet shown is taken to be as high as the others were on the average.
 */
export function VirtualList<T>(props: {
  items: readonly T[];
  keyOf: (item: T) => string;
  show: (item: T, index: number) => ComponentChildren;
  estimate: number;
  label: string;
  /** Whether it begins at its end, and that stays in sight when something is added there, as long as one has not scrolled away. */
  follows?: boolean;
  /** The item to be brought into sight when this changes. */
  goTo?: string | undefined;
}): JSX.Element {
  const { items, keyOf, show, estimate, label, follows = false, goTo } = props;
  const outer = useRef<HTMLDivElement>(null);
  const rows = useRef<HTMLDivElement>(null);
  const heights = useRef(new Map<string, number>());
  // Before anything is measured, the rows of the place where one begins are shown, not those of the top.
  const view = useSignal({ top: follows ? Number.MAX_SAFE_INTEGER : 0, height: 800 });
  const isAtEnd = useRef(follows);
  /** The row at the upper edge, and how far it is scrolled over: it stays there whatever changes above it. */
  const anchor = useRef<{ readonly key: string; readonly index: number; readonly over: number } | undefined>(undefined);
  const measured = useSignal(0);

  const mean = meanOf(heights.current, estimate);
  const offsets = offsetsOf(items, keyOf, heights.current, mean);
  const total = offsets.at(-1) ?? 0;
  const first = Math.max(0, indexAt(offsets, Math.min(view.value.top, total - view.value.height)) - BESIDE);
  const last = Math.min(items.length, indexAt(offsets, view.value.top + view.value.height) + 1 + BESIDE);
  void measured.value;
  const now = useRef({ items, keyOf, offsets });
  now.current = { items, keyOf, offsets };

  const measure = (): void => {
    let hasChanged = false;
    for (const row of rows.current?.children ?? []) {
      if (!(row instanceof HTMLElement)) continue;
      const { height } = row.getBoundingClientRect();
      const key = row.dataset.key ?? "";
      if (Math.abs((heights.current.get(key) ?? -1) - height) <= 0.5) continue;
      heights.current.set(key, height);
      hasChanged = true;
    }
    if (hasChanged) measured.value += 1;
  };

  useEffect(() => {
    const [element, inner] = [outer.current, rows.current];
    if (element === null || inner === null) return;
    const look = (): void => {
      const top = element.scrollTop;
      // Only whoever goes up leaves the end: it may also be what is there that has grown.
      const isUp = top < view.value.top - 1;
      view.value = { top, height: element.clientHeight };
      isAtEnd.current = (isAtEnd.current && !isUp) || top + element.clientHeight >= element.scrollHeight - END_PX;
      const at = now.current;
      const index = indexAt(at.offsets, top);
      const item = at.items[index];
      if (item !== undefined) anchor.current = { key: at.keyOf(item), index, over: top - (at.offsets[index] ?? 0) };
    };
    const sizes = new ResizeObserver(() => {
      view.value = { top: element.scrollTop, height: element.clientHeight };
      measure();
    });
    sizes.observe(element);
    sizes.observe(inner);
    element.addEventListener("scroll", look, { passive: true });
    return () => {
      sizes.disconnect();
      element.removeEventListener("scroll", look);
    };
  }, []);

  useLayoutEffect(() => {
    const element = outer.current;
    if (element === null) return;
    measure();
    if (follows && isAtEnd.current) {
      element.scrollTop = element.scrollHeight;
      return;
    }
    const held = anchor.current;
    if (held === undefined) return;
    const isThere = items[held.index] !== undefined && keyOf(items[held.index] as T) === held.key; // Looked at just before.
    const index = isThere ? held.index : items.findIndex((item) => keyOf(item) === held.key);
    const top = (offsets[index] ?? 0) + held.over;
    if (index >= 0 && Math.abs(element.scrollTop - top) > 1) element.scrollTop = top;
  });

  useLayoutEffect(() => {
    if (goTo === undefined) return;
    const index = items.findIndex((item) => keyOf(item) === goTo);
    if (index < 0 || outer.current === null) return;
    isAtEnd.current = false;
    anchor.current = { key: goTo, index, over: 0 };
    view.value = { ...view.value, top: offsets[index] ?? 0 };
    outer.current.scrollTop = offsets[index] ?? 0;
  }, [goTo, items.length === 0]);

  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by the keyboard
    <div class="virtual" ref={outer} role="feed" aria-label={label} tabIndex={0}>
      <div class="virtual-space" style={{ height: `${total}px` }}>
        <div class="virtual-rows" ref={rows} style={{ transform: `translateY(${offsets[first] ?? 0}px)` }}>
          {items.slice(first, last).map((item, at) => (
            <article
              key={keyOf(item)}
              data-key={keyOf(item)}
              class="virtual-row"
              aria-posinset={first + at + 1}
              aria-setsize={items.length}
            >
              {show(item, first + at)}
            </article>
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
