import { describe, expect, it } from "vitest";
import { projectFiles } from "./source-files.ts";
import {
  consoleFaults,
  cycleFaults,
  exportFaults,
  folderFaults,
  homeFaults,
  layerFaults,
  lengthFaults,
  machineFaults,
  manifestFaults,
  ownAddressFaults,
  rootFaults,
  sizeFaults,
} from "./tidy-rules.ts";
import { tableFaults } from "./tidy-tables.ts";
import { specFaults, testFaults } from "./tidy-tests.ts";
import { foreignFaults, wordFaults } from "./tidy-words.ts";

const files = projectFiles();
const textOf = (path: string) => files.find((file) => file.path === path)?.text;
const file = (path: string, text: string) => ({ path, text });

describe("the project", () => {
  it("imports only downwards", () => expect(layerFaults(files)).toEqual([]));
  it("has packages that import what their manifests name", () => expect(manifestFaults(files)).toEqual([]));
  it("has a console that sees the public client alone", () => expect(consoleFaults(files)).toEqual([]));
  it("keeps each dependency in its home", () => expect(homeFaults(files)).toEqual([]));
  it("touches the machine only where it may", () => expect(machineFaults(files)).toEqual([]));
  it("[G10] never starts the file that a module is in", () => expect(ownAddressFaults(files)).toEqual([]));
  it("has no file that is too long", () => expect(lengthFaults(files)).toEqual([]));
  it("has packages within their line budgets", () => expect(sizeFaults(files)).toEqual([]));
  it("has no crowded root", () => expect(rootFaults(files)).toEqual([]));
  it("has no folder without need", () => expect(folderFaults(files)).toEqual([]));
  it("has no import cycle", () => expect(cycleFaults(files)).toEqual([]));
  it("exports by name", () => expect(exportFaults(files)).toEqual([]));
  it("tests every rule of the spec and no other", () => expect(specFaults(files, textOf("docs/spec.md"))).toEqual([]));
  it("has tests named by their cost, with one seed", () => expect(testFaults(files)).toEqual([]));
  it("lists operations, events and providers in their tables alone", () => expect(tableFaults(files)).toEqual([]));
  it("names no machine", () => expect(foreignFaults(files)).toEqual([]));
  it("has comments, texts and docs in plain English", () => expect(wordFaults(files)).toEqual([]));
});

const core = (path: string, text: string) => file(`packages/core/src/${path}`, text);

describe("the rules bite", () => {
  it("on a sibling layer", () => {
    const bad = core("turn/turn.ts", 'import {\n  open,\n} from "../stores/in-memory.ts";\n');
    expect(layerFaults([bad])).toEqual([
      "packages/core/src/turn/turn.ts imports ../stores/in-memory.ts: core/turn may not see adapters; use a port or hand in a function",
    ]);
  });

  it("on a type of a layer above, and on a lazy import", () => {
    const type = core("ports/model.ts", 'import type { Config } from "../config/config-schema.ts";\n');
    const lazy = core("runtime/dispatch.ts", 'const open = () => import("@rkat/node/log/open");\n');
    expect(layerFaults([type, lazy])).toHaveLength(2);
  });

  it("on language that knows of anything else, and not on those who read by it", () => {
    const up = core("text/words.ts", 'import type { Clock } from "../ports/clock.ts";\n');
    const machine = core("text/dates.ts", 'import { inspect } from "node:util";\n');
    const reader = core("recall/chunk.ts", 'import { termsOf } from "../text/terms.ts";\n');
    const writer = core("contract/message.ts", 'import { clip } from "../text/sentences.ts";\n');
    expect(layerFaults([up, reader, writer])).toEqual([
      "packages/core/src/text/words.ts imports ../ports/clock.ts: core/text may not see ports; use a port or hand in a function",
      "packages/core/src/contract/message.ts imports ../text/sentences.ts: core/contract may not see text; use a port or hand in a function",
    ]);
    expect(machineFaults([machine])).toHaveLength(1);
  });

  it("on values, not types, that a server takes from the runtime", () => {
    const at = (kind: string) =>
      layerFaults([
        file("packages/server/src/http/start.ts", `${kind} { openRuntime } from "@rkat/node/open-runtime";\n`),
      ]);
    expect([at("import type"), at("import")].map(({ length }) => length)).toEqual([0, 1]);
  });

  it("on a file of no layer, and not on tests", () => {
    const stray = core("helpers/strings.ts", "export const a = 1;\n");
    const test = core("turn/turn.test.ts", 'import { open } from "../stores/in-memory.ts";\n');
    expect(layerFaults([stray, test])).toEqual([
      "packages/core/src/helpers/strings.ts is in no layer: move it into one, or add its room to LAYERS",
    ]);
  });

  it("on a package that its manifest does not name", () => {
    const manifest = file("packages/node/package.json", '{ "dependencies": { "@rkat/core": "1" } }');
    const good = file("packages/node/src/a.ts", 'import { a } from "@rkat/core/contract/error";\n');
    const bad = file("packages/node/src/b.ts", 'const open = () => import("@rkat/server/rest/start");\n');
    expect(manifestFaults([manifest, good, bad])).toEqual([
      "packages/node/src/b.ts imports @rkat/server, which the manifest of its package does not name",
    ]);
  });

  it("on a dependency away from home or without one", () => {
    const bad = core("runtime/dispatch.ts", 'import { Validator } from "@cfworker/json-schema";\n');
    const manifests = files.filter(({ path }) => /^packages\/\w+\/package\.json$/.test(path));
    expect(homeFaults([...manifests, bad])).toEqual([
      "packages/core/src/runtime/dispatch.ts imports @cfworker/json-schema, which lives in core/turn/: move the code there",
    ]);
    const renamed = manifests.map(({ path, text }) =>
      file(path, text.replace('"@cfworker/json-schema"', '"left-pad"')),
    );
    expect(homeFaults(renamed)).toEqual([
      "left-pad is a dependency without a home: give it one folder in HOMES",
      "@cfworker/json-schema has a home in HOMES and is no dependency: delete the row",
    ]);
  });

  it("on a package that outgrows its budget", () => {
    expect(sizeFaults([file("packages/client/src/a.ts", "\n".repeat(1_421))])).toEqual([
      "packages/client has 1421 lines: remove some, 1420 is the most",
    ]);
  });

  it("on effects below the doors, and not on words", () => {
    const bad = core("turn/turn.ts", 'import { join } from "node:path";\nconst key = process.env.KEY;\n');
    const words = core("turn/turn.ts", '// process.env is not for us\nconst text = "the end of the process.";\n');
    expect([machineFaults([bad]).length, machineFaults([words]).length]).toEqual([2, 0]);
  });

  it("on a thread or process that runs the file it is started from", () => {
    const thread = core("runtime/a.ts", "new Worker(new URL(import.meta.url));\n");
    const child = core("tools/b.ts", "const self = import.meta.filename;\nfork(self); fork(process.argv[1]);\n");
    const found = core("runtime/c.ts", "// import.meta.url\ncreateRequire(import.meta.url).resolve(name);\n");
    expect([thread, child, found].map((one) => ownAddressFaults([one]).length)).toEqual([1, 2, 0]);
  });

  it("on length and root", () => {
    const many = (count: number, name: (index: number) => string) =>
      Array.from({ length: count }, (_, index) => file(name(index), ""));
    expect(lengthFaults([file("src/a.ts", "\n".repeat(700)), file("src/b.ts", "\n".repeat(701))])).toHaveLength(1);
    expect(lengthFaults([file("a.py", `# Generated from packages/core/src/contract/${"\n".repeat(401)}`)])).toEqual([]);
    expect(rootFaults(many(25, (index) => `${index}.md`))).toHaveLength(1);
  });

  it("on a surface that sees another, also as a type, and not on what they share", () => {
    const at = (path: string, specifier: string, how = "import") =>
      layerFaults([file(`packages/${path}`, `${how} { a } from "${specifier}";\n`)]);
    expect(at("server/src/rest/serve.ts", "../rpc/serve.ts", "import type")).toEqual([
      "packages/server/src/rest/serve.ts imports ../rpc/serve.ts: server/rest may not see server/rpc; use a port or hand in a function",
    ]);
    expect(at("server/src/http/start.ts", "../rest/start.ts")).toHaveLength(1);
    expect(at("server/src/rest/serve.ts", "../http/guard.ts")).toEqual([]);
    expect(at("rkat/src/chat/conversation.ts", "../parts.ts")).toEqual([]);
    expect(at("core/src/agents/agents.ts", "../runtime/dispatch.ts")).toEqual([]);
    expect(at("server/src/rest/serve.test.ts", "../rpc/serve.ts")).toEqual([]);
  });

  it("on a console that sees more than a client does, and not on types of the contract", () => {
    const at = (specifier: string, how = "import") =>
      consoleFaults([file("packages/console/screens/memory.tsx", `${how} { a } from "${specifier}";\n`)]);
    expect(at("@rkat/core/contract/memory")).toEqual([
      "packages/console/screens/memory.tsx imports @rkat/core/contract/memory: the console sees @rkat/client/browser, types of the contract, and Preact",
    ]);
    const others = ["@rkat/core/runtime/dispatch", "@rkat/client", "node:path", "uplot"];
    expect(others.flatMap((specifier) => at(specifier))).toHaveLength(4);
    expect(at("@rkat/core/contract/memory", "import type")).toEqual([]);
    const good = ["@rkat/client/browser", "../parts.tsx", "preact/hooks", "@preact/signals"];
    expect(good.flatMap((specifier) => at(specifier))).toEqual([]);
  });

  it("on a cycle, also through types", () => {
    const a = core("turn/a.ts", 'import { b } from "./b.ts";\n');
    const back = core("turn/b.ts", 'import { a } from "./a.ts";\n');
    const backType = core("turn/b.ts", 'import type { A } from "./a.ts";\n');
    expect(cycleFaults([a, back])).toEqual([
      "packages/core/src/turn/a.ts → packages/core/src/turn/b.ts → packages/core/src/turn/a.ts is a cycle: move what they share below both",
    ]);
    expect(cycleFaults([a, backType])).toHaveLength(1);
    expect(cycleFaults([a])).toEqual([]);
  });

  it("on a folder of little", () => {
    const holding = (lines: number) => core("small/a.ts", "\n".repeat(lines));
    expect([holding(399), holding(400)].map((one) => folderFaults([one]).length)).toEqual([1, 0]);
  });

  it("on a folder of more than can be seen at a glance", () => {
    const holding = (files: number) => Array.from({ length: files }, (_, at) => core(`large/f${at}.ts`, "\n"));
    expect([25, 26].map((files) => folderFaults(holding(files)).length)).toEqual([0, 1]);
  });

  it("on default and star exports", () => {
    const bad = core("index.ts", 'export default 1;\nexport * from "./runtime.ts";\n');
    expect(exportFaults([bad])).toHaveLength(2);
  });

  it("on rules without tests, tests without rules, and skipped tests", () => {
    const spec = "- **A1** S One turn.\n- **A2** Events.\n- **B1** Limits.\n";
    const tests = file("test/turn.test.ts", 'it("[A1] [C9] runs", run);\nit.each(rows)("[B1] %s", run);\n');
    const skipped = core("turn/turn.test.ts", 'it.skip("[A2] keeps order", run);\n');
    expect(specFaults([tests, skipped], spec)).toEqual([
      'no test cites A2 of docs/spec.md: write it("[A2] …"), or take the rule out',
      "test/turn.test.ts cites C9, which docs/spec.md does not state: add the rule, or correct the id",
    ]);
  });

  it("on fast tests that start processes, and on seeds of their own", () => {
    const support = file("test/support/start.ts", 'import { spawn } from "node:child_process";\n');
    const fast = file("test/a.test.ts", 'import { start } from "./support/start.ts";\n');
    const process = file("test/b.process.test.ts", 'import { start } from "./support/start.ts";\n');
    const seeded = file("test/c.test.ts", 'import fc from "fast-check";\nconst seed = Date.now() % 1_000;\n');
    expect(testFaults([support, fast, process, seeded]).map((fault) => fault.split(":")[0])).toEqual([
      "test/a.test.ts starts processes",
      "test/c.test.ts imports fast-check",
      "test/c.test.ts draws a seed of its own",
    ]);
  });

  it("on lists of operations, events and providers, and not on what implements them or tells events apart", () => {
    const at = (text: string, path = "packages/core/src/sessions/a.ts") => tableFaults([file(path, text)]);
    expect(at('\nconst RUNS = ["createSession", "startTurn", "resumeSession"];\n')).toEqual([
      "packages/core/src/sessions/a.ts:2 lists operations (createSession, startTurn, resumeSession, …): add a column to the table in contract/operations.ts",
    ]);
    const lists = [
      'const COST = { createSession: 1, "startTurn": 2, resumeSession: 3 };',
      'new Set(["meerkat_run", "meerkat_read", "session/create"]);',
      'switch (name) { case "readSession": case "readHistory": case "readContext": return 1; }',
      'const isOne = (n: string) => n === "readSession" || n === "readHistory" || n === "readContext";',
      'const TOLD: readonly string[] = ["run_failed", "retrying", "hook_failed"];',
      'const KEYS = [["anthropic", 1], ["openai", 2], ["gemini", 3]];',
    ];
    expect(lists.map((text) => at(text).length)).toEqual(lists.map(() => 1));
    const fine = [
      'const pair = ["createSession", "startTurn"];',
      "const service = { createSession, startTurn: () => 1, resumeSession: start };",
      'switch (event.type) { case "run_failed": case "retrying": case "hook_failed": return 1; }',
    ];
    expect(fine.flatMap((text) => at(text))).toEqual([]);
    expect(
      at("const COST = { createSession: 1, startTurn: 2, forget: 3 };", "packages/core/src/contract/forget.ts"),
    ).toEqual([]);
  });

  it("on words that name no subject, but not in decisions, tests and names", () => {
    const prose = "// Nobody waits for it.\n";
    const bad = [file("packages/server/src/a.ts", prose), file("docs/a.md", "Whoever mends it\n")];
    expect(wordFaults(bad)).toEqual([
      "packages/server/src/a.ts says Nobody: name the subject: the caller, the client, the user, no person",
      "docs/a.md says Whoever: name the subject: the caller, the client, the user, the server",
      "docs/a.md says mends: write fix",
    ]);
    const fine = ["docs/decisions/0001-a.md", "packages/server/src/a.test.ts", "CHANGELOG.md"];
    expect(wordFaults(fine.map((path) => file(path, prose)))).toEqual([]);
    expect(
      wordFaults([file("packages/server/src/a.ts", 'import { fix } from "./mend.ts";\n// Recommended.\n')]),
    ).toEqual([]);
  });

  it("on paths and registries of one machine", () => {
    const path = file("README.md", "see /root/project/notes.md\n");
    const lock = file("package-lock.json", '"resolved": "https://npm.internal/zod.tgz"\n');
    const fine = file(
      "docs/a.md",
      `~/.rkat, https://example.com/work/a, "resolved": "https://${["registry", "npmjs", "org"].join(".")}/zod"`,
    );
    expect(foreignFaults([path, lock, fine])).toHaveLength(2);
  });
});
