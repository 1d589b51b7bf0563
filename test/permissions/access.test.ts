import { Scope } from "@rkat/core/contract/caller";
import { describe, expect, it } from "vitest";
import { useCommandLine } from "../support/command-line.ts";
import { connectRpc } from "../support/rpc-connection.ts";
import { composedRuntime, serveBoth, tokenFolder } from "../support/tokens.ts";

const line = useCommandLine();

describe("who asks", () => {
  it("[I4] is told its name, its scopes and its labels, over REST and over MCP", async () => {
    const { stateFolder, create } = tokenFolder();
    const web = await create("web", { scopes: ["run", "read"], labels: { team: "a" } });
    const ops = await create("ops", { scopes: ["admin"] });
    const { call, connect } = await serveBoth(stateFolder);
    const reported = { name: "web", scopes: ["read", "run"], labels: { team: "a" } };
    expect(await call("GET /access", undefined, web)).toMatchObject({ status: 200, body: reported });
    expect((await (await connect(web)).call("meerkat_access", {})).payload).toEqual(reported);
    expect((await call("GET /access", undefined, ops)).body).toEqual({
      name: "ops",
      scopes: Scope.options,
      labels: {},
    });
    expect((await call("GET /access")).status).toBe(401);
  });

  it("[I4] may do everything where it is the user of the process, who has no name", async () => {
    const everything = { scopes: Scope.options, labels: {} };
    expect(await composedRuntime().readAccess()).toEqual(everything);
    expect(await connectRpc().client.request("access/get")).toEqual(everything);
    expect(JSON.parse((await line.run(["access", "--json"])).stdout)).toEqual(everything);
    expect((await line.run(["access"])).stdout).toBe(
      "who       you\nmay       read, run, tools, approve, config, admin\nsessions  all\n",
    );
  });
});
