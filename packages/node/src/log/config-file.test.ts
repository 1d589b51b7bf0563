import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createConfigFile } from "./config-file.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "rkat-config-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

const open = () => createConfigFile({ folder, parse: (text) => JSON.parse(text), format: JSON.stringify });
const textOf = (name: string) => readFileSync(join(folder, name), "utf8");

describe("a layer on disk", () => {
  it("[F7] is there for the next one to open it, with the count of its changes", async () => {
    expect(open().read()).toEqual({ generation: 0, layer: {} });
    expect(await open().change(() => ({ a: 1 }))).toEqual({ generation: 1, layer: { a: 1 } });
    const changed = await open().change(({ generation, layer }) => ({ ...layer(), b: generation }));
    expect(changed).toEqual({ generation: 2, layer: { a: 1, b: 1 } });
    expect(open().read()).toEqual(changed);
  });

  it("[H2] is nobody else's to read", async () => {
    await open().change(() => ({ a: 1 }));
    const files = readdirSync(folder);
    expect(files).toEqual(expect.arrayContaining(["config.toml", "config_state.json"]));
    for (const name of files) expect(statSync(join(folder, name)).mode & 0o777, name).toBe(0o600);
  });

  it("notices what another process keeps, and nothing else", async () => {
    const store = open();
    expect(store.hasChanged()).toBe(false);
    await open().change(() => ({ a: 1 }));
    expect(store.hasChanged()).toBe(true);
    expect(store.read()).toEqual({ generation: 1, layer: { a: 1 } });
    expect(store.hasChanged()).toBe(false);
    await store.change(() => ({ a: 2 }));
    expect(store.hasChanged()).toBe(false);
    await open().change(() => ({ a: 3 }));
    const refused = store.change(() => {
      throw new Error("no");
    });
    await expect(refused).rejects.toThrow("no");
    expect(store.hasChanged()).toBe(true);
  });

  it("counts a text written by hand, or left without its count, as one change", async () => {
    await open().change(() => ({ a: 1 }));
    writeFileSync(join(folder, "config.toml"), '{"a":5}');
    expect(open().read()).toEqual({ generation: 2, layer: { a: 5 } });
    expect(await open().change(({ layer }) => layer())).toEqual({ generation: 3, layer: { a: 5 } });
  });

  it("is left as it was by whoever throws, or cannot write", async () => {
    const store = open();
    await store.change(() => ({ a: 1 }));
    const before = [textOf("config.toml"), textOf("config_state.json")];
    const refused = store.change(() => {
      throw new Error("no");
    });
    await expect(refused).rejects.toThrow("no");
    mkdirSync(join(folder, "config.toml.new")); // Nothing can be written where a folder is.
    const full = { code: "SESSION_STORE_ERROR", message: expect.stringContaining("config.toml cannot be written") };
    await expect(store.change(() => ({ a: 2 }))).rejects.toMatchObject(full);
    rmdirSync(join(folder, "config.toml.new"));
    expect([textOf("config.toml"), textOf("config_state.json")]).toEqual(before);
    expect(await store.change(() => ({ a: 3 }))).toEqual({ generation: 2, layer: { a: 3 } });
  });

  it("takes one writer at a time: none of many changes is lost", async () => {
    const stores = Array.from({ length: 8 }, open);
    await Promise.all(
      stores.map((store, index) => store.change(({ layer }) => ({ ...layer(), [`from_${index}`]: true }))),
    );
    const { generation, layer } = open().read();
    expect(generation).toBe(8);
    expect(Object.keys(layer)).toHaveLength(8);
  });
});
