import { expect, it } from "vitest";
import { nearMiss } from "./near-miss.ts";

const COMMANDS = ["run", "demo", "init", "doctor", "models", "capabilities", "help"];

it.each([
  ["docter", "doctor"],
  ["modles", "models"],
  ["model", "models"],
  ["demoo", "demo"],
  ["capabilites", "capabilities"],
])("takes %s for %s", (typed, meant) => expect(nearMiss(typed, COMMANDS)).toBe(meant));

it.each(["hello", "doctor", "fun", "quit", "explain", "why", ""])("takes %s for itself", (typed) =>
  expect(nearMiss(typed, COMMANDS)).toBe(undefined),
);
