import type { z } from "zod";
import { createRandom } from "../crash/random.ts";

/** Values of a schema, the same for the same seed; every text of them says `said`. */
export function sampleOf(schema: z.core.$ZodType, seed: number, said: string): unknown {
  const random = createRandom(seed);
  const pick = <T>(all: readonly T[]): T => {
    const one = all[Math.floor(random() * all.length)];
    if (one === undefined) throw new Error("there is nothing to pick from");
    return one;
  };
  let texts = 0;
  const text = (): string => {
    texts += 1;
    return random() < 0.2 ? said : `${said} ${texts}. It goes on after that.`;
  };
  const make = (of: z.core.$ZodType, depth: number): unknown => {
    const { def } = (of as z.core.$ZodTypes)._zod; // Every schema is one of the library's kinds.
    switch (def.type) {
      case "object":
        return Object.fromEntries(
          Object.entries(def.shape)
            .map(([name, field]) => [name, make(field, depth + 1)])
            .filter(([, value]) => value !== undefined),
        );
      case "string":
        return "format" in def && def.format === "url" ? "https://example.org/x" : text();
      case "literal":
        return pick(def.values);
      case "enum":
        return pick(Object.values(def.entries));
      case "number":
        return 1;
      case "boolean":
        return random() < 0.5;
      case "array":
        return Array.from({ length: 1 + Math.floor(random() * 2) }, () => make(def.element, depth + 1));
      case "tuple":
        return def.items.map((item) => make(item, depth + 1));
      case "null":
        return null;
      case "never":
        return undefined;
      case "record":
        return { [text()]: make(def.valueType, depth + 1) };
      case "unknown":
      case "any":
        return random() < 0.5 ? text() : { [text()]: [text(), 3] };
      case "union":
        return make(pick(def.options), depth + 1);
      case "intersection":
        return { ...(make(def.left, depth) as object), ...(make(def.right, depth) as object) };
      case "optional":
      case "nullable":
        return random() < 0.6 ? make(def.innerType, depth) : undefined;
      case "default":
        return make(def.innerType, depth);
      case "lazy":
        return make(def.getter(), depth + 1);
      case "pipe":
        return make(def.in._zod.def.type === "transform" ? def.out : def.in, depth);
      default:
        throw new Error(`no values are made of ${def.type} yet`);
    }
  };
  return make(schema, 0);
}
