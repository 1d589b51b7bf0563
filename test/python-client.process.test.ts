import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { generatePython, pythonMethods } from "../docs/python-client.ts";
import { createPythonTypes, schemaOf } from "../docs/python-types.ts";

const root = join(import.meta.dirname, "..");
const files = await generatePython();

describe("what is generated of the Python client", () => {
  it.each(Object.entries(files))("[G6] %s says what the contract says", (path, generated) => {
    const isCurrent = readFileSync(join(root, path), "utf8") === generated;
    expect(isCurrent, `${path} is out of date: run \`npm run docs\` and commit the result`).toBe(true);
  });

  it("[G6] every operation is a method of the client, of a session or of an agent", () => {
    const print =
      "import json, rkat; print(json.dumps([f'{c.__name__}.{n}' for c in (rkat.Client, rkat.Session, rkat.Agent) for n in dir(c)]))";
    const env = { ...process.env, PYTHONDONTWRITEBYTECODE: "1" };
    const printed = execFileSync("python3", ["-c", print], { cwd: join(root, "sdks/python"), env, encoding: "utf8" });
    const methods: unknown = JSON.parse(printed);
    expect(methods).toEqual(expect.arrayContaining(Object.values(pythonMethods())));
  });

  it("[G6] what a schema says of a field stands beside it, in lines that fit", () => {
    const long = `it is ${"said at length, ".repeat(8)}done`;
    const Row = z.object({
      seq: z.int().describe("its number"),
      kind: z.enum(["a", "b"]).optional(),
      inner: z.object({ at: z.string().describe(long) }).describe('how it is "told"'),
      either: z.union([z.object({ a: z.string() }), z.object({ b: z.string() })]).nullable(),
    });
    const types = createPythonTypes("output", { Row });
    expect(types.of(schemaOf(Row, "output"), "Place", "A row.")).toBe("Row");
    expect(types.classes).toEqual([
      [
        "class RowInner(TypedDict):",
        '    """`inner` of `Row`."""',
        "",
        "    at: str",
        '    """It is said at length, said at length, said at length, said at length, said at length, said at length, said at',
        "    length, said at length, done.",
        '    """',
      ].join("\n"),
      [
        "class Row(TypedDict):",
        '    """A row."""',
        "",
        "    seq: int",
        '    """Its number."""',
        '    kind: NotRequired[Literal["a", "b"]]',
        "    inner: RowInner",
        '    """How it is "told"."""',
        "    either: dict[str, Any] | None",
      ].join("\n"),
    ]);
  });
});
