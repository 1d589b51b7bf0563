import { describe, expect, it } from "vitest";
import { createRedactor } from "./redact.ts";

describe("redaction", () => {
  it("[H3] masks what is shaped like a key, whoever's it is", () => {
    const redact = createRedactor([]);
    const keys = [
      "sk-ant-api03-abcdefghijklmnop",
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
  });
});
