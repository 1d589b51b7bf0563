import { useSignal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";

/** Rows rendered above and below the visible ones. */
const OVERSCAN = 8;
/** Within this distance the list counts as scrolled to its end. */
const END_PX = 40;

/** Whether the browser keeps the visible rows in place when rows above them change. */
const HAS_SCROLL_ANCHORING = CSS.supports("overflow-anchor", "auto");

/**
 * A list that renders only the visible rows: ten thousand rows cost as much as twenty. Rows may have any height and
 * change it; a row that was not rendered yet counts with the average height of the others.
 */
export function VirtualList<T>(props: {
  items: readonly T[];
  keyOf: (item: T) => string;
  renderRow: (item: T, index: number) => ComponentChildren;
  estimate: number;
  label: string;
  /** Whether the list starts at its end and stays there when rows are added, until the user scrolls up. */
  follows?: boolean;
  /** The key of the item to scroll to when this changes. */
  goTo?: string | undefined;
}): JSX.Element {
  const { items, keyOf, renderRow, estimate, label, follows = false, goTo } = props;
  const outer = useRef<HTMLDivElement>(null);
  const rows = useRef<HTMLDivElement>(null);
  const heights = useRef(new Map<string, number>());
  // A list that follows its end renders its last rows first.
  const view = useSignal({ top: follows ? Number.MAX_SAFE_INTEGER : 0, height: 800 });
  const isAtEnd = useRef(follows);
  /** The size of the list when it last scrolled, and whether the user has scrolled since. */
  const size = useRef("");
  const hasUserScrolled = useRef(false);
  /** The row that stays at the top edge while the rows around it are measured. */
  const anchor = useRef<{ readonly key: string; readonly over: number } | undefined>(undefined);
  const measured = useSignal(0);

  // Memoized: this is the only computation whose time grows with the number of rows.
  const offsets = useMemo(
    () => offsetsOf(items, keyOf, heights.current, meanOf(heights.current, estimate)),
    [items, measured.value],
  );
  const total = offsets.at(-1) ?? 0;
  // A measured row changes the average and so all offsets; at the end the visible rows are the last ones nevertheless.
  const end = total - view.value.height;
  const top = follows && isAtEnd.current ? end : Math.min(view.value.top, end);
  const first = Math.max(0, indexAt(offsets, top) - OVERSCAN);
  const last = Math.min(items.length, indexAt(offsets, top + view.value.height) + 1 + OVERSCAN);

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
  const onScroll = (): void => {
    const element = outer.current;
    if (element === null) return;
    const top = element.scrollTop;
    // The list leaves its end only if the user scrolls up, not if rows or the list change their size.
    const isByUser = hasUserScrolled.current || sizeOf(element) === size.current;
    const isUp = isByUser && top < view.value.top - 1;
    const isNearEnd = top + element.clientHeight >= element.scrollHeight - END_PX;
    size.current = sizeOf(element);
    view.value = { top, height: element.clientHeight };
    isAtEnd.current = (isAtEnd.current && !isUp) || isNearEnd;
    if (isNearEnd) hasUserScrolled.current = false;
    if (HAS_SCROLL_ANCHORING || anchor.current !== undefined) return;
    for (const row of rows.current?.children ?? []) {
      if (!(row instanceof HTMLElement) || row.offsetTop + row.offsetHeight <= top) continue;
      anchor.current = { key: row.dataset.key ?? "", over: top - row.offsetTop };
      return;
    }
  };
  /** Jumps at once: the smooth scrolling of browsers stops when rows are measured on the way. */
  const onKeyDown = (event: KeyboardEvent): void => {
    const element = outer.current;
    if (element === null || event.target !== element) return;
    const page = element.clientHeight * 0.9;
    const top = { Home: 0, End: total, PageUp: element.scrollTop - page, PageDown: element.scrollTop + page }[
      event.key
    ];
    if (top === undefined) return;
    event.preventDefault();
    anchor.current = undefined;
    isAtEnd.current = event.key === "End";
    element.scrollTop = top;
    onScroll();
  };

  useEffect(() => {
    const [element, inner] = [outer.current, rows.current];
    if (element === null || inner === null) return;
    const sizes = new ResizeObserver(() => {
      view.value = { top: element.scrollTop, height: element.clientHeight };
      measure();
    });
    const releaseAnchor = (): void => {
      anchor.current = undefined;
      hasUserScrolled.current = true;
    };
    sizes.observe(element);
    sizes.observe(inner);
    element.addEventListener("scroll", onScroll, { passive: true });
    for (const kind of ["wheel", "pointerdown", "touchstart"])
      element.addEventListener(kind, releaseAnchor, { passive: true });
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
    const row = anchor.current === undefined ? undefined : rowOf(anchor.current.key);
    if (row === undefined || anchor.current === undefined) return;
    element.scrollTop = row.offsetTop + anchor.current.over;
    if (!hasChanged) anchor.current = undefined;
  });

  useLayoutEffect(() => {
    if (goTo === undefined) return;
    const index = items.findIndex((item) => keyOf(item) === goTo);
    if (index < 0 || outer.current === null) return;
    isAtEnd.current = false;
    anchor.current = { key: goTo, over: 0 };
    view.value = { ...view.value, top: offsets[index] ?? 0 };
    outer.current.scrollTop = offsets[index] ?? 0;
  }, [goTo, items.length === 0]);

  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling element must be reachable by keyboard
    <div class="virtual" ref={outer} role="feed" aria-label={label} tabIndex={0} onKeyDown={onKeyDown}>
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
            {renderRow(item, first + at)}
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

/** The top of each row, and the bottom of the last one. */
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

/** The index of the row at a height. */
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
