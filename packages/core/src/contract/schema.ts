import { z as zod } from "zod";

/**
 * zod's `z`, with schemas that are created when they are first used. Creating all of the package's schemas takes 100 ms of
 * CPU and a turn uses a tenth of them, so a deferred schema only records the calls that make it: `z.object(…).optional()`
 * is two records, and whatever is not in CHAINED (`safeParse`, `shape`, `_zod`) creates the schema and is read from it.
 */
export const z = {
  array: deferring(zod.array),
  base64: deferring(zod.base64),
  boolean: deferring(zod.boolean),
  date: deferring(zod.date),
  discriminatedUnion: deferring(zod.discriminatedUnion),
  enum: deferring(zod.enum),
  int: deferring(zod.int),
  intersection: deferring(zod.intersection),
  iso: { date: deferring(zod.iso.date), datetime: deferring(zod.iso.datetime) },
  literal: deferring(zod.literal),
  looseObject: deferring(zod.looseObject),
  never: deferring(zod.never),
  null: deferring(zod.null),
  number: deferring(zod.number),
  object: deferring(zod.object),
  preprocess: deferring(zod.preprocess),
  record: deferring(zod.record),
  strictObject: deferring(zod.strictObject),
  string: deferring(zod.string),
  tuple: deferring(zod.tuple),
  union: deferring(zod.union),
  unknown: deferring(zod.unknown),
  url: deferring(zod.url),
  uuid: deferring(zod.uuid),
  NEVER: zod.NEVER,
  safeParse: zod.safeParse,
  toJSONSchema: (schema: zod.core.$ZodType, options?: zod.core.ToJSONSchemaParams) =>
    zod.toJSONSchema(created(schema), options),
};

/** The types of zod that sources use, under the name of the value above. */
export declare namespace z {
  type infer<T> = zod.infer<T>;
  type input<T> = zod.input<T>;
  type output<T> = zod.output<T>;
  type ZodError = zod.ZodError;
  type ZodRawShape = zod.ZodRawShape;
  type ZodType<Output = unknown, Input = unknown> = zod.ZodType<Output, Input>;
}

/** Methods that make another schema: all that take a schema; one without that is missing only creates its schema early. */
const CHAINED: ReadonlySet<PropertyKey> = new Set(
  `and array catch catchall clone default describe exclude extend int length loose max meta min nonempty nonnegative nullable nullish omit optional or
   partial pick pipe positive prefault readonly refine regex required safeExtend startsWith strict superRefine transform trim url uuid`.split(
    /\s+/,
  ),
);

/** A schema that is created by the first use of it. */
interface Deferred {
  readonly create: () => zod.ZodType;
  schema?: zod.ZodType;
}

const CREATED = Symbol("created");

const handler: ProxyHandler<Deferred> = {
  get: (deferred, key) => {
    if (!CHAINED.has(key)) return key === CREATED ? schemaOf(deferred) : Reflect.get(schemaOf(deferred), key);
    return (...args: readonly unknown[]) => defer(() => Reflect.get(schemaOf(deferred), key)(...args.map(createdIn)));
  },
  has: (deferred, key) => Reflect.has(schemaOf(deferred), key),
  getPrototypeOf: (deferred) => Reflect.getPrototypeOf(schemaOf(deferred)),
};

function schemaOf(deferred: Deferred): zod.ZodType {
  deferred.schema ??= deferred.create();
  return deferred.schema;
}

function defer<S>(create: () => zod.ZodType): S {
  return new Proxy<Deferred>({ create }, handler) as S; // It has every property of the schema that `create` returns.
}

function deferring<F extends (...args: never[]) => zod.ZodType>(factory: F): F {
  const create = factory as unknown as (...args: unknown[]) => zod.ZodType; // The caller's arguments have F's types.
  return ((...args) => defer(() => create(...args.map(createdIn)))) as F;
}

/** zod's own object for a schema: the key of registries, which do not know a deferred schema. */
export function created<S extends zod.core.$ZodType>(schema: S): S {
  return (schema as S & { readonly [CREATED]?: S })[CREATED] ?? schema;
}

/** A field of an object's schema. */
export function fieldOf<F extends zod.ZodRawShape, K extends keyof F & string>(
  schema: zod.ZodObject<F>,
  name: K,
): F[K] {
  return defer(() => schema.shape[name] as unknown as zod.ZodType); // A field of a schema of zod's classic flavour is one, too.
}

/** The same schema, with an effect on zod's own object as soon as there is one. */
export function onceCreated<S extends zod.ZodType>(schema: S, effect: (created: S) => void): S {
  return defer(() => {
    const own = created(schema);
    effect(own);
    return own;
  });
}

/** An argument with zod's own objects for the schemas in it, which zod then reads without a detour. */
function createdIn(arg: unknown): unknown {
  if (typeof arg !== "object" || arg === null) return arg;
  if (Array.isArray(arg)) return arg.map(createdIn);
  if (Object.getPrototypeOf(arg) !== Object.prototype) return created(arg as zod.ZodType); // A schema, or returned as it is.
  return Object.fromEntries(Object.entries(arg).map(([key, value]) => [key, createdIn(value)]));
}
