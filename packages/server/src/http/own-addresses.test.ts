import { createScriptedModel } from "@rkat/core/providers/scripted";
import { expect, it } from "vitest";
import { scriptedRuntime } from "../../../../test/support/runtime.ts";
import { createOwnAddresses } from "./start.ts";

it.each([
  ["127.0.0.1", "http://localhost:8080/v1", true],
  ["127.0.0.1", "http://[::1]:8080/v1", true],
  ["0.0.0.0", "http://127.0.0.1:8080", true],
  ["192.168.0.7", "http://192.168.0.7:8080/v1", true],
  ["127.0.0.1", "https://agents.example/v1", true],
  ["127.0.0.1", "http://localhost:8081/v1", false],
  ["192.168.0.7", "http://127.0.0.1:8080/v1", false],
  ["127.0.0.1", "https://api.openai.com/v1", false],
  ["127.0.0.1", "no address", false],
])("[K1] a server at %s knows whether %s is itself", (host, url, isOwn) => {
  const addresses = createOwnAddresses({ host, allowedHosts: ["agents.example"] });
  expect(addresses.isOwn(url)).toBe(false);
  addresses.listensAt("http://127.0.0.1:8080");
  expect(addresses.isOwn(url)).toBe(isOwn);
});

it("[K1] a model that the server itself serves is refused in a sentence", async () => {
  const model = { ...createScriptedModel([{ text: "Hi." }]), url: "http://localhost:8080/v1" };
  const { runtime } = scriptedRuntime([], { model, isOwnAddress: (url) => url.includes("localhost:8080") });
  await expect(runtime.createSession("Hi.")).rejects.toThrow(
    "model scripted/scripted is served at http://localhost:8080/v1, which is this server itself; set another base_url",
  );
});
