import { createPolicy, type JudgedCall, judgeCall } from "@rkat/core/permission/judge";
import { HOSTILE_SIGNS } from "../test/permission/hostile-signs.ts";
import { median, publish } from "./report.ts";

const ROUNDS = 15;
const CALLS = 2_000;

/** More rules than a careful team writes: every layer has some, and most speak of the shell. */
const names = ["git", "npm", "ls", "cat", "rg", "node", "make", "cargo", "go", "docker"];
const policy = createPolicy(
  [
    { from: "server", rules: { deny: ["shell(sudo *)", "shell(curl * | *)", "apply_patch(**/.env)"] } },
    { from: "user", rules: { allow: names.map((name) => `shell(${name} *)`), ask: ["shell(git push *)", "mcp(web)"] } },
    { from: "project", rules: { allow: ["apply_patch(src/**)", "apply_patch(test/**)"], deny: ["shell(rm -rf *)"] } },
    { from: "answer", rules: { allow: ["shell(git push origin *)", "mcp(files:read_*)"] } },
  ],
  () => "ask",
);

const shell = (command: string): JudgedCall => ({ tool: "shell", args: { command }, root: "/u/me/project" });
const hunk = "@@\n unchanged\n-before\n+after\n";
/** Judged file by file, so its cost is told and has no bound of its own. */
const LARGE = "a patch of 20 files";
const patch = (files: number): JudgedCall => {
  const updates = Array.from({ length: files }, (_, at) => `*** Update File: src/a/${at}.ts\n${hunk}`);
  return {
    tool: "apply_patch",
    args: { patch: `*** Begin Patch\n${updates.join("")}*** End Patch` },
    root: "/u/me/project",
  };
};
const CASES: Readonly<Record<string, JudgedCall>> = {
  "a tool by its name": { tool: "datetime", args: {}, root: "/p" },
  "a tool of a server": {
    tool: "mcp__files__read_file",
    args: {},
    mcp: { server: "files", tool: "read_file" },
    root: "/p",
  },
  "a short command": shell("git status -s"),
  "a usual command": shell('cd src && npm run test -- --run "$(git diff --name-only | head -1)" 2>&1 | tail -50'),
  "a commit": shell(
    `git add -A && git commit -m "$(cat <<'EOF'\nSay why\n\nIn a body of a few lines.\nEOF\n)" && git push origin main`,
  ),
  "a loop": shell('for f in src/*.ts; do if [ -n "$f" ]; then env LC_ALL=C rg -n foo "$f" | xargs cat; fi; done'),
  "a patch of 5 files": patch(5),
  [LARGE]: patch(20),
};

const measured = Object.entries(CASES).map(([name, call]) => {
  const perCallUs = Array.from({ length: ROUNDS }, () => {
    // Of the processor, not of the clock: others may share the machine.
    const before = process.cpuUsage();
    for (let index = 0; index < CALLS; index += 1) judgeCall(policy, call);
    return process.cpuUsage(before).user / CALLS;
  });
  return { name, verdict: judgeCall(policy, call).verdict, us: median(perCallUs) };
});

const slowest = HOSTILE_SIGNS.map((sign) => {
  const call = shell(sign.repeat(Math.floor(10_000 / sign.length)));
  const before = process.cpuUsage();
  judgeCall(policy, call);
  return { sign, ms: process.cpuUsage(before).user / 1_000 };
}).reduce((worst, one) => (one.ms > worst.ms ? one : worst));

await publish({
  name: "permission",
  tables: [
    [["call", "verdict", "µs"], ...measured.map(({ name, verdict, us }) => [name, verdict, us.toFixed(1)])],
    [
      ["hostile line of 10,000 signs", "ms"],
      [`slowest of ${HOSTILE_SIGNS.length}: ${JSON.stringify(slowest.sign)}`, slowest.ms.toFixed(1)],
    ],
  ],
  targets: [
    {
      what: "policy per tool call, µs",
      value: Math.max(...measured.filter(({ name }) => name !== LARGE).map(({ us }) => us)),
      max: 50,
    },
    { what: "slowest hostile line, ms", value: slowest.ms, max: 50 },
  ],
  measured: { calls: measured, slowest },
});
