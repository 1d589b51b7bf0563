import { expect, it } from "vitest";
import { nodeFault } from "./node-version.ts";

it("[H1] a Node that is too old is told which one is needed", () => {
  for (const enough of ["22.18.0", "22.20.1", "24.0.0"]) expect(nodeFault(enough)).toBeUndefined();
  for (const old of ["20.20.2", "22.17.9"]) {
    expect(nodeFault(old)).toBe(`rkat needs Node 22.18 or newer; this is Node ${old}.`);
  }
});
