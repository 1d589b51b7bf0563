import { formatSessionRef, parseSessionRef } from "@rkat/server/http/events";
import { describe, expect, it } from "vitest";
import { backendNote, type RealmRequest, requireRealmId, resolveRealm } from "./realm.ts";

const SESSION = "01999999-0000-7000-8000-000000000001";
const places = { cwd: "/projects/My App", home: "/homes/ada", newId: () => "fresh" };
const cli: RealmRequest = { ...places, purpose: "cli" };
const server: RealmRequest = { ...places, purpose: "server" };
const refused = (message: RegExp) =>
  expect.objectContaining({ code: "INVALID_PARAMS", message: expect.stringMatching(message) });

describe("the realm of a command", () => {
  it("is named after the folder, and kept in it", () => {
    expect(resolveRealm(cli)).toEqual({
      realm: "ws-my-app-e7e17b3d83",
      isChosen: false,
      stateFolder: "/projects/My App/.rkat/realms/ws-my-app-e7e17b3d83",
    });
  });

  it("differs for folders of the same name, and is the same for a relative context root", () => {
    const other = resolveRealm({ ...cli, cwd: "/elsewhere/My App" });
    const relative = resolveRealm({ ...cli, cwd: "/projects/My App/src", contextRoot: ".." });
    expect(other.realm).not.toBe(resolveRealm(cli).realm);
    expect(relative).toEqual(resolveRealm(cli));
  });

  it("always has a valid name, whatever the folder is called", () => {
    for (const cwd of ["/", "/…", `/${"long-name-".repeat(20)}`, "/--", "/日本語", "/a.b.c"]) {
      expect(() => requireRealmId(resolveRealm({ ...cli, cwd }).realm)).not.toThrow();
    }
  });

  it("can be chosen, or isolated, but not both", () => {
    expect(resolveRealm({ ...cli, realm: "team", stateRoot: "state" })).toEqual({
      realm: "team",
      isChosen: true,
      stateFolder: "/projects/My App/state/team",
    });
    expect(resolveRealm({ ...cli, isolated: true }).realm).toBe("realm-fresh");
    expect(() => resolveRealm({ ...cli, realm: "team", isolated: true })).toThrow(refused(/--isolated/));
  });
});

describe("the realm of a server", () => {
  it("is fresh unless one is named, and kept with the user's data", () => {
    expect(resolveRealm(server)).toEqual({
      realm: "realm-fresh",
      isChosen: false,
      stateFolder: "/homes/ada/.local/share/rkat/realms/realm-fresh",
    });
    expect(resolveRealm({ ...server, realm: "team", dataHome: "/data" }).stateFolder).toBe("/data/rkat/realms/team");
    expect(resolveRealm({ ...server, realm: "team", dataHome: "" }).stateFolder).toBe(
      "/homes/ada/.local/share/rkat/realms/team",
    );
  });
});

it("[H1] a realm id is 1 to 64 plain characters and no session id", () => {
  for (const id of ["a", "A-b_9", "x".repeat(64)]) expect(() => requireRealmId(id)).not.toThrow();
  for (const id of ["", "-a", "_a", "a:b", "a/b", "..", "a b", "x".repeat(65), "é", "a\n"]) {
    expect(() => requireRealmId(id)).toThrow(refused(/cannot name a realm/));
  }
  expect(() => requireRealmId(SESSION)).toThrow(refused(/looks like a session id/));
});

describe("a session ref", () => {
  it("is read back as the session's id", () => {
    expect(parseSessionRef(formatSessionRef("team", SESSION), "team")).toBe(SESSION);
    expect(parseSessionRef(SESSION, "team")).toBe(SESSION);
  });

  it("[H1] of another realm is refused, naming both", () => {
    expect(() => parseSessionRef(`other:${SESSION}`, "team")).toThrow(refused(/realm other, and this is realm team/));
  });
});

it("a backend of Meerkat's is noted, an unknown one refused", () => {
  expect(backendNote(undefined)).toBeUndefined();
  expect(backendNote("sqlite")).toMatch(/our own backend is used/);
  expect(() => backendNote("mysql")).toThrow(refused(/jsonl or sqlite/));
});
