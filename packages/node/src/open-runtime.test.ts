import { expect, it } from "vitest";
import { type OpenOptions, openRuntime } from "./open-runtime.ts";

it("[H1] names the option that was probably meant", async () => {
  const wrong: [object, string][] = [
    [{ statefolder: "/nowhere" }, "statefolder is no option; did you mean stateFolder?"],
    [{ stateFolder: "/nowhere", modle: "offline" }, "modle is no option; did you mean model?"],
    [{ path: "/nowhere" }, "path is no option; there are stateFolder, "],
  ];
  for (const [options, message] of wrong) {
    await expect(openRuntime(options as OpenOptions)).rejects.toMatchObject({
      code: "INVALID_PARAMS",
      message: expect.stringContaining(message),
    });
  }
});
