import { expect, it } from "vitest";
import { parseMcpFlags } from "./start.ts";

it("speaks over stdin and stdout unless HTTP is asked for, and then on this machine alone", () => {
  expect(parseMcpFlags([])).toMatchObject({ http: undefined, memoryOnly: false, wants: "serve", notes: [] });
  expect(parseMcpFlags(["--http", "--memory-only"])).toMatchObject({
    http: { host: "127.0.0.1", port: 8_081 },
    memoryOnly: true,
  });
  expect(parseMcpFlags(["--all-tools"])).toMatchObject({ allTools: true });
  expect(parseMcpFlags(["--http", "--port", "0", "--host", "::1"])).toMatchObject({ http: { host: "::1", port: 0 } });
  expect(parseMcpFlags(["--realm-backend", "sqlite", "-h"])).toMatchObject({
    wants: "help",
    notes: [expect.stringContaining("our own backend")],
  });
});

it("[H1] names the flag that is wrong", () => {
  expect(() => parseMcpFlags(["--port", "1"])).toThrow(/^--port is for a server over HTTP; add --http$/);
  expect(() => parseMcpFlags(["--http", "--port", "70000"])).toThrow(/^--port 70000: write a number from 0 to 65535$/);
  expect(() => parseMcpFlags(["--http", "--port=-1"])).toThrow(/^--port -1: /);
  expect(() => parseMcpFlags(["--all-tools", "--memory-only"])).toThrow(/^--all-tools .* leave one of them out$/);
  expect(() => parseMcpFlags(["--nope"])).toThrow(/^Unknown option '--nope'; see --help$/);
  expect(() => parseMcpFlags(["serve"])).toThrow(/^Unexpected argument 'serve'/);
});
