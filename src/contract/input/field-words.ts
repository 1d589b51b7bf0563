import { z } from "zod";

const words = new WeakMap<z.core.$ZodType, string>();

/**
 * Says how a field is written on the command line: as a flag, `--max-turns <n>`, or as the argument that stands in the
 * `cli` of its operations under this name, `ID`. It is kept beside the schema, so no JSON schema has it.
 */
export function written<T extends z.ZodType>(word: string, field: T): T {
  words.set(field, word);
  return field;
}

/** What a schema only wraps: what is optional, has a default or is changed after it was read. */
function innerOf(schema: z.core.$ZodType): z.core.$ZodType | undefined {
  const { def } = (schema as z.core.$ZodTypes)._zod; // Every schema is one of the library's kinds.
  if (def.type === "pipe") return (def.in as z.core.$ZodTypes)._zod.def.type === "transform" ? def.out : def.in;
  return "innerType" in def ? def.innerType : undefined;
}

/** A schema without what wraps it. */
export function unwrapped(schema: z.core.$ZodType): z.core.$ZodTypes {
  const inner = innerOf(schema);
  return inner === undefined ? (schema as z.core.$ZodTypes) : unwrapped(inner); // As above.
}

/** What a field's schema says of it with `describe` and `meta`, however it is wrapped. */
export function metaOf(schema: z.core.$ZodType): z.core.GlobalMeta {
  const inner = innerOf(schema);
  return { ...(inner === undefined ? {} : metaOf(inner)), ...z.globalRegistry.get(schema) };
}

export function accepts(schema: z.core.$ZodType, value: unknown): boolean {
  return z.safeParse(schema, value).success;
}

export interface WrittenField {
  /** Where it stands in the input, from the outermost field on. */
  readonly path: readonly [string, ...string[]];
  readonly word: string;
  readonly schema: z.core.$ZodType;
}

/** Every field of an input that the command line has a word for, in the order of the schema. */
export function writtenFields(schema: z.core.$ZodType, path: readonly string[] = []): readonly WrittenField[] {
  const [first, ...more] = path;
  const word = words.get(schema);
  if (word !== undefined && first !== undefined) return [{ path: [first, ...more], word, schema }];
  const inner = innerOf(schema);
  if (inner !== undefined) return writtenFields(inner, path);
  const { def } = unwrapped(schema)._zod;
  if (def.type === "union") return def.options.flatMap((option) => writtenFields(option, path));
  if (def.type !== "object") return [];
  return Object.entries(def.shape).flatMap(([name, field]) => writtenFields(field, [...path, name]));
}
