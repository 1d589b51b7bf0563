import { useSignal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";

/** Rows above and below what is seen, so that scrolling finds them there. */
const BESIDE = 8;
/** As far from the end as this, one is still taken to read along. */
const END_PX = 40;

/** Where a browser keeps what is seen in its place by itself, whatever changes above it. */
const IS_ANCHORED = CSS.supports("overflow-anchor", "auto");

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
  /** How large the list was when it was last brought to its end or scrolled, and whether somebody has touched it since. */
  const size = useRef("");
  const isTouched = useRef(false);
  /** The row that is to stay at the upper edge while what is around it is measured. */
  const held = useRef<{ readonly key: string; readonly over: number } | undefined>(undefined);
  const measured = useSignal(0);

  // Not with every scroll: it is the one thing here that takes longer the more rows there are.
  const offsets = useMemo(
    () => offsetsOf(items, keyOf, heights.current, meanOf(heights.current, estimate)),
    [items, measured.value],
  );
  const total = offsets.at(-1) ?? 0;
  const first = Math.max(0, indexAt(offsets, Math.min(view.value.top, total - view.value.height)) - BESIDE);
  const last = Math.min(items.length, indexAt(offsets, view.value.top + view.value.height) + 1 + BESIDE);

  const rowOf = (key: string): HTMLElement | undefined => {
    for (const row of rows.current?.children ?? [])
      if (row instanceof HTMLElement && row.dataset.key === key) return row;
    return undefined;
  };
  const measure = (): boolean => {
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
    return hasChanged;
  };
  const look = (): void => {
    const element = outer.current;
    if (element === null) return;
    const top = element.scrollTop;
    // Only whoever goes up leaves the end: it may also be what is there, or around it, that has grown or become less.
    const isMoved = isTouched.current || sizeOf(element) === size.current;
    const isUp = isMoved && top < view.value.top - 1;
    const isThere = top + element.clientHeight >= element.scrollHeight - END_PX;
    size.current = sizeOf(element);
    view.value = { top, height: element.clientHeight };
    isAtEnd.current = (isAtEnd.current && !isUp) || isThere;
    if (isThere) isTouched.current = false;
    if (IS_ANCHORED || held.current !== undefined) return;
    for (const row of rows.current?.children ?? []) {
      if (!(row instanceof HTMLElement) || row.offsetTop + row.offsetHeight <= top) continue;
      held.current = { key: row.dataset.key ?? "", over: top - row.offsetTop };
      return;
    }
  };
  /** At once: a browser's own way there is slow, and stops at what is measured on it. */
  const move = (event: KeyboardEvent): void => {
    const element = outer.current;
    if (element === null || event.target !== element) return;
    const page = element.clientHeight * 0.9;
    const top = { Home: 0, End: total, PageUp: element.scrollTop - page, PageDown: element.scrollTop + page }[
      event.key
    ];
    if (top === undefined) return;
    event.preventDefault();
    held.current = undefined;
    isAtEnd.current = event.key === "End";
    element.scrollTop = top;
    look();
  };

  useEffect(() => {
    const [element, inner] = [outer.current, rows.current];
    if (element === null || inner === null) return;
    const sizes = new ResizeObserver(() => {
      view.value = { top: element.scrollTop, height: element.clientHeight };
      measure();
    });
    const letGo = (): void => {
      held.current = undefined;
      isTouched.current = true;
    };
    sizes.observe(element);
    sizes.observe(inner);
    element.addEventListener("scroll", look, { passive: true });
    for (const kind of ["wheel", "pointerdown", "touchstart"]) element.addEventListener(kind, letGo, { passive: true });
    return () => sizes.disconnect();
  }, []);

  useLayoutEffect(() => {
    const element = outer.current;
    if (element === null) return;
    const hasChanged = measure();
    if (follows && isAtEnd.current) {
      element.scrollTop = element.scrollHeight;
      size.current = sizeOf(element);
      return;
    }
    const row = held.current === undefined ? undefined : rowOf(held.current.key);
    if (row === undefined || held.current === undefined) return;
    element.scrollTop = row.offsetTop + held.current.over;
    if (!hasChanged) held.current = undefined;
  });

  useLayoutEffect(() => {
    if (goTo === undefined) return;
    const index = items.findIndex((item) => keyOf(item) === goTo);
    if (index < 0 || outer.current === null) return;
    isAtEnd.current = false;
    held.current = { key: goTo, over: 0 };
    view.value = { ...view.value, top: offsets[index] ?? 0 };
    outer.current.scrollTop = offsets[index] ?? 0;
  }, [goTo, items.length === 0]);

  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by the keyboard
    <div class="virtual" ref={outer} role="feed" aria-label={label} tabIndex={0} onKeyDown={move}>
      <div class="virtual-space" style={{ height: `${offsets[first] ?? 0}px` }} />
      <div ref={rows}>
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
      <div class="virtual-space" style={{ height: `${total - (offsets[last] ?? total)}px` }} />
    </div>
  );
}

function sizeOf({ clientHeight, scrollHeight }: Element): string {
  return `${clientHeight} of ${scrollHeight}`;
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
  let index = 0;
  for (const item of items) {
    offsets[index] = top;
    top += heights.get(keyOf(item)) ?? mean;
    index += 1;
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
