import { computed, signal } from "@preact/signals";

/** Where one is: the parts of the path behind `#/`, and what is asked besides. Behind any prefix, and a link of its own. */
export interface Place {
  readonly path: readonly string[];
  readonly query: URLSearchParams;
}

const hash = signal(location.hash);

window.addEventListener("hashchange", () => {
  hash.value = location.hash;
});

export const place = computed((): Place => {
  const [path = "", query = ""] = hash.value.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").filter((part) => part !== "");
  return { path: parts.map(decoded), query: new URLSearchParams(query) };
});

/** A link to a place; what is undefined is left out of the query. */
export function linkTo(
  path: readonly string[],
  query: Readonly<Record<string, string | number | undefined>> = {},
): string {
  const asked = Object.entries(query).flatMap(([key, value]) => (value === undefined ? [] : [[key, String(value)]]));
  const search = new URLSearchParams(asked).toString();
  return `#/${path.map(encodeURIComponent).join("/")}${search === "" ? "" : `?${search}`}`;
}

export function go(link: string): void {
  location.hash = link;
}

/** Goes there without a step back from it: what one types while looking is no place of its own. */
export function replace(link: string): void {
  history.replaceState(null, "", link);
  hash.value = location.hash;
}

/** A link that was cut off in the middle of a character still leads somewhere. */
export function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
