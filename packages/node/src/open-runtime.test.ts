import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
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

it("[S3] on a folder, a model may be one that the configuration names, as far as that is trusted", async () => {
  const project = mkdtempSync(join(tmpdir(), "rkat-models-"));
  onTestFinished(() => rmSync(project, { recursive: true }));
  const text = `[self_hosted.servers.local]
base_url = "https://models.example.com/v1"
[self_hosted.models.mine]
server = "local"
remote_model = "qwen3-32b"
context_window = 32768
[agent]
max_turns = 3
`;
  writeFileSync(join(project, "rkat.toml"), text);
  const warnings: string[] = [];
  const options = {
    stateFolder: join(project, ".state"),
    projectRoot: project,
    warn: (text: string) => warnings.push(text),
  };
  const trusting = await openRuntime({ ...options, env: { RKAT_TRUST: "1" }, model: "mine" });
  expect((await trusting.readModels()).providers.map(({ provider }) => provider)).toContain("self_hosted");
  const session = await trusting.createSession({ model: "mine" });
  expect(await session.read()).toMatchObject({ model: "mine", provider: "self_hosted" });
  // Other settings of the file are those of the command line.
  expect((await trusting.readConfig()).config).not.toMatchObject({ agent: { max_turns: 3 } });
  await trusting.close();
  expect(warnings).toEqual([]);
  const careful = await openRuntime({ ...options, env: {} });
  expect((await careful.readModels()).providers.map(({ provider }) => provider)).not.toContain("self_hosted");
  await careful.close();
  expect(warnings).toEqual([expect.stringContaining("left out until you trust this folder: self_hosted")]);
});
