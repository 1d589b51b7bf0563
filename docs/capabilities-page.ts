import { BUILDS, CAPABILITY_ABSENT, Capability } from "@rkat/core/contract/capability";
import { OPERATIONS } from "@rkat/core/contract/operations";
import { describeCapabilities } from "@rkat/core/runtime/dispatch";
import { code, markdownTable, page } from "./markdown.ts";

const SWITCHES: Readonly<Record<Capability, string>> = {
  "session-store": "`openRuntime`, or `createRuntime({ store })`",
  "memory-store": "`openRuntime`, or `createRuntime({ memory })`",
  "session-compaction": "`openRuntime`, or `createRuntime({ compaction })`",
};

/** What a runtime can be composed of, and what is answered where something is left out. */
export function capabilitiesPage(): string {
  const parts = Capability.options.map((name) => {
    const { code: absent, message } = CAPABILITY_ABSENT[name];
    return [code(name), SWITCHES[name], code(absent), message];
  });
  const builds = Object.entries(BUILDS).map(([build, has]) => [
    build,
    has.length === 0 ? code("none") : code(has.join(",")),
    ...Capability.options.map((name) => (has.includes(name) ? "yes" : "–")),
  ]);
  const rows: readonly (readonly [string, { readonly rpc: string; readonly requires?: Capability }])[] =
    Object.entries(OPERATIONS);
  const operations = rows.map(([name, { requires }]) => [
    code(name),
    requires === undefined ? "" : code(requires),
    ...Object.values(BUILDS).map((has) => (requires === undefined || has.includes(requires) ? "yes" : "–")),
  ]);
  const { capabilities } = describeCapabilities(new Set(Capability.options));
  const told = capabilities.map(({ id, description, status }) => [
    code(id),
    description,
    status === "Available" ? "yes" : "no",
  ]);
  return page("Capabilities", "packages/core/src/contract/operations.ts", [
    "A runtime is composed of capabilities, and each can be left out: by not giving its part to the SDK, and for the command line and the servers by `features` in the configuration or by `RKAT_FEATURES`. Operations that need an absent one are refused with the same code and the same sentence on every surface; none of its code is loaded.",
    markdownTable(["capability", "how the SDK gets it", "without it", "the sentence"], parts),
    "## Builds",
    "Every combination works; these six are tested on every surface.",
    markdownTable(["build", "`RKAT_FEATURES`", ...Capability.options], builds),
    "## Operations by build",
    markdownTable(["operation", "needs", ...Object.keys(BUILDS)], operations),
    "## What `capabilities/get` returns",
    "In a runtime with every capability; “no” marks parts of the wire contract that rkat does not have.",
    markdownTable(["id", "description", "available"], told),
  ]);
}
