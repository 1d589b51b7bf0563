import type { JSX } from "preact";
import { Empty } from "../parts.tsx";

export function ApiScreen({ path }: { path: readonly string[] }): JSX.Element {
  return <Empty>{path.join("/")}</Empty>;
}
