// A program that uses rkat without a server, in a process of its own: told how many turns to run, it runs them.
const built = new URL("../build/packed/node_modules/@rkat/node/dist/index.js", import.meta.url).href;
// The build of this source.
const { loadConfig, openRuntime } = (await import(built)) as typeof import("@rkat/node");

const [stateFolder = ""] = process.argv.slice(2);
const { env } = process;
const places = { cwd: stateFolder, home: stateFolder, env, readFile: async () => undefined };
const { config } = await loadConfig(places);
const runtime = await openRuntime({ stateFolder, config, env });

process.on("message", async ({ turns }: { turns: number }) => {
  const session = await runtime.createSession("Begin.", { toolPreset: "safe" });
  const before = process.cpuUsage();
  for (let turn = 0; turn < turns; turn += 1) {
    let text = "";
    // Whoever runs turns in a program listens to them, too.
    for await (const event of session.stream(`What does row ${turn} say?`)) {
      if (event.type === "text_delta") text += event.delta;
    }
    if (text === "") throw new Error("a turn said nothing");
  }
  const { user, system } = process.cpuUsage(before);
  process.send?.({ cpuMs: (user + system) / 1_000 });
});
process.send?.("ready");
