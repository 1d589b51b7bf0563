import { describe, expect, it } from "vitest";
import { createRedactor, redactSlowly } from "./redact.ts";

const KEY = "sk-ant-api03-abcdefghijklmnop";
const PEM = ["-----BEGIN RSA PRIVATE KEY-----", "MIIEow+/abc=".repeat(5), "-----END RSA PRIVATE KEY-----"].join("\n");

describe("redaction", () => {
  it("[H3] masks what is shaped like a key, whoever's it is", () => {
    const redact = createRedactor([]);
    const keys = [
      KEY,
      "gsk_abcdefghijklmnopqrstuvwxyz012345",
      "hf_abcdefghijklmnopqrstuvwxyzABCDEFGH",
      "xai-abcdefghijklmnopqrstuvwxyz0123456789",
      "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
    ];
    for (const key of keys) expect(redact(`the key ${key}, they said`)).toBe("the key [redacted], they said");
  });

  it("[H3] masks a secret wherever it stands, and leaves ordinary words alone", () => {
    const redact = createRedactor(["hunter2-hunter2"]);
    expect(redact("pass=hunter2-hunter2; hf_hub and xai-labs")).toBe("pass=[redacted]; hf_hub and xai-labs");
    expect(redact("a task-abcdefghijklmnopqrst of the desk-abcdefghijklmnopqrst")).not.toContain("[redacted]");
  });

  it.each([
    ["a line break in JSON", `{"stdout":"\\n${KEY}\\n"}`],
    ["a tab in JSON", `{"stdout":"\\t${KEY}"}`],
    ["JSON within JSON", JSON.stringify(JSON.stringify({ out: `a\n${KEY}\tb` }))],
    ["a colour", `\u001b[31m${KEY}\u001b[0m`],
    ["a colour in JSON", JSON.stringify(`\u001b[1;31m${KEY}\u001b[0m`)],
    ["an underscore", `KEY_${KEY}`],
    ["an escape of an address", `?q=%0A${KEY}`],
  ])("[H3] masks a key after %s", (_where, text) => {
    expect(createRedactor([])(text)).not.toContain("abcdefghijklmnop");
  });

  it("[H3] masks a value that is written out in JSON", () => {
    const secret = 'first "line"\nsecond';
    const redact = createRedactor([secret]);
    expect(redact(JSON.stringify({ stdout: `<${secret}>` }))).toBe('{"stdout":"<[redacted]>"}');
  });

  it("[H3] masks a private key whole, also one in JSON and one whose end is cut off", () => {
    const redact = createRedactor([]);
    expect(redact(`a ${PEM} b`)).toBe("a [redacted] b");
    expect(redact(JSON.stringify(`a ${PEM} b`))).toBe('"a [redacted] b"');
    expect(redact(PEM.slice(0, 70))).toBe("[redacted]");
  });

  it("[H3] masks the password in an address and nothing else of it", () => {
    const redact = createRedactor([]);
    expect(redact("see postgres://app:hunter2@db.example:5432/app")).toBe(
      "see postgres://app:[redacted]@db.example:5432/app",
    );
    expect(redact("http://localhost:3000/@scope/name and a:b@c")).toBe("http://localhost:3000/@scope/name and a:b@c");
  });

  it("[H3] [L1] masks in pieces what it masks at once, wherever a piece ends, and lets others have their turn", async () => {
    const redact = createRedactor(["hunter2-hunter2", "two\nlines of it"]);
    const secrets = [KEY, "hunter2-hunter2", "two\nlines of it", PEM];
    for (const secret of secrets) {
      for (const before of [65_500, 65_530, 65_536, 65_540, 131_070]) {
        let yields = 0;
        const text = `${"word ".repeat(before / 5)}${"x".repeat(before % 5)} ${secret} ${"more ".repeat(40_000)}`;
        const yieldToEventLoop = () => {
          yields += 1;
          return undefined;
        };
        expect(await redactSlowly(redact, text, yieldToEventLoop)).toBe(redact(text));
        expect(yields).toBeGreaterThan(text.length / 100_000);
      }
    }
  });
});
