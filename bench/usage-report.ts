// Loaded before a server, with `--import`: tells whoever started it what the process has used, when asked.
process.on("message", () => {
  const { user, system } = process.cpuUsage();
  process.send?.({ cpuMs: (user + system) / 1_000, rssBytes: process.memoryUsage.rss() });
});
// The channel alone must not keep the server alive.
process.channel?.unref();
