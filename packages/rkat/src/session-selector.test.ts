import { expect, it } from "vitest";
import { shortIds } from "./session-selector.ts";

it("[O4] a list shows as much of ids as tells those of one moment apart", () => {
  const [one, other] = ["01a1e986-1f7a-7217-8000-000000000001", "01a1e986-1f7a-7218-8000-000000000001"];
  expect([one, other].map(shortIds([one, other]))).toEqual(["01a1e986-1f7a-7217", "01a1e986-1f7a-7218"]);
  expect(shortIds([one])(one)).toBe("01a1e986-1f7a");
});
