import { signal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";

/** What is open stays open when it is scrolled away and comes back. */
const open = signal<ReadonlySet<string>>(new Set());

function turn(name: string): void {
  const next = new Set(open.value);
  if (!next.delete(name)) next.add(name);
  open.value = next;
}

/** Something long behind one line; what is inside is made when it is opened. */
export function Fold(props: {
  name: string;
  line: ComponentChildren;
  class?: string;
  children: () => ComponentChildren;
}): JSX.Element {
  const isOpen = open.value.has(props.name);
  return (
    <div class={`fold ${props.class ?? ""}`}>
      <button type="button" class="fold-line" aria-expanded={isOpen} onClick={() => turn(props.name)}>
        <span class="fold-mark" aria-hidden="true">
          {isOpen ? "▾" : "▸"}
        </span>
        {props.line}
      </button>
      {isOpen && <div class="fold-inside">{props.children()}</div>}
    </div>
  );
}
