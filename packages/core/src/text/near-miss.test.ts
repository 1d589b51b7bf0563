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

it.each([
  ["dokter", "doctor"],
  ["modals", "models"],
  ["cpabiltes", undefined],
  ["capabiltes", "capabilities"],
  // Two letters of four are another word.
  ["hello", undefined],
  ["hi", undefined],
])("takes %s for %s where two letters may be wrong", (typed, meant) =>
  expect(nearMiss(typed, COMMANDS, 2)).toBe(meant),
);

it("takes a text of any length for itself", () => expect(nearMiss("h".repeat(1_000_000), COMMANDS, 2)).toBe(undefined));
