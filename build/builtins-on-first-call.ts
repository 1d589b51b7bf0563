import type { Plugin } from "rolldown";

/**
 * Bundles imports of Node's own modules as functions that load the module when they are first called. An import loads it at
 * once and reads every name it has, some of which load more: 115 ms of CPU for those of the package.
 */
export function builtinsOnFirstCall(applies: (path: string) => boolean): Plugin {
  return {
    name: "builtins-on-first-call",
    transform: {
      filter: { id: /\/src\/.*\.ts$/, code: /from "node:/ },
      handler: (code, id) => (applies(id) ? code.replaceAll(IMPORT, declarations) : null),
    },
  };
}

const IMPORT = /^import \{([^}]*)\} from "(node:[^"]+)";/gm;

function declarations(_import: string, names: string, from: string): string {
  const module = `process.getBuiltinModule("${from}")`;
  return names
    .split(",")
    .map((specifier) => specifier.trim())
    .filter((specifier) => specifier !== "" && !specifier.startsWith("type "))
    .map((specifier) => {
      const [name = "", local = name] = specifier.split(" as ");
      const value = isPlainFunction(from, name) ? `(...args) => ${module}.${name}(...args)` : `${module}.${name}`;
      return `const ${local} = ${value};`;
    })
    .join(" ");
}

/** True of a function that is only called: not of a class, nor of one with properties, as `realpathSync.native`. */
function isPlainFunction(from: string, name: string): boolean {
  const value: unknown = Reflect.get(process.getBuiltinModule(from) ?? {}, name);
  return typeof value === "function" && /^[a-z]/.test(name) && Reflect.ownKeys(value).every((key) => OWN.has(key));
}

const OWN: ReadonlySet<PropertyKey> = new Set(["length", "name", "prototype", "arguments", "caller"]);
