import { computed, signal } from "@preact/signals";

/** The route is in the URL's hash, so that the page works under any path prefix: `#/path/parts?query`. */
export interface Route {
  readonly path: readonly string[];
  readonly query: URLSearchParams;
}

const hash = signal(location.hash);

window.addEventListener("hashchange", () => {
  hash.value = location.hash;
});

export const route = computed((): Route => {
  const [path = "", query = ""] = hash.value.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").filter((part) => part !== "");
  return { path: parts.map(decodePart), query: new URLSearchParams(query) };
});

/** A link to a route. Query values that are undefined are omitted. */
export function linkTo(
  path: readonly string[],
  query: Readonly<Record<string, string | number | undefined>> = {},
): string {
  const given = Object.entries(query).flatMap(([key, value]) => (value === undefined ? [] : [[key, String(value)]]));
  const search = new URLSearchParams(given).toString();
  return `#/${path.map(encodeURIComponent).join("/")}${search === "" ? "" : `?${search}`}`;
}

export function navigate(link: string): void {
  location.hash = link;
}

/** Changes the route without a history entry, for example for each key typed into a search box. */
export function replaceRoute(link: string): void {
  history.replaceState(null, "", link);
  hash.value = location.hash;
}

/** Returns the part unchanged if it is not valid percent-encoding: a truncated link still leads somewhere. */
export function decodePart(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
