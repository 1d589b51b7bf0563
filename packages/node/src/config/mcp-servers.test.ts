import { describe, expect, it } from "vitest";
import { loadConfig } from "./load-config.ts";

const load = async (files: Readonly<Record<string, string>>, cwd = "/p/app") =>
  loadConfig({ cwd, home: "/h", env: {}, readFile: async (path) => files[path], isTrusted: true });

const refusal = async (toml: string): Promise<string> => {
  const error = await load({ "/p/.rkat/mcp.toml": toml }).catch((thrown: unknown) => thrown);
  expect(error).toMatchObject({ code: "INVALID_PARAMS" });
  return error instanceof Error ? error.message : "";
};

const server = (lines: string): string => `[[servers]]\nname = "a"\n${lines}\n`;

describe("mcp.toml", () => {
  it("[G9] names programs and addresses, in every spelling", async () => {
    const toml = `
      [[servers]]
      name = "files"
      command = "npx"
      args = ["-y", "files"]
      env = { TOKEN = "\${FILES_TOKEN}" }
      timeout = "30s"
      connect_timeout = "2s"
      tools = ["read"]

      [[servers]]
      name = "docs"
      url = "https://example.com/mcp"
      headers = { Authorization = "Bearer x" }
      connect_timeout_secs = 1.5

      [[servers]]
      name = "old"
      transport = "sse"
      url = "http://localhost:1/sse"
      enabled = false
    `;
    const { mcpServers, sources } = await load({ "/p/.rkat/mcp.toml": toml });
    expect(sources).toEqual(["/p/.rkat/mcp.toml"]);
    expect(mcpServers).toEqual([
      {
        name: "files",
        command: "npx",
        args: ["-y", "files"],
        // biome-ignore lint/suspicious/noTemplateCurlyInString: it is filled in when the server is started.
        env: { TOKEN: "${FILES_TOKEN}" },
        timeoutMs: 30_000,
        connectTimeoutMs: 2_000,
        enabled: true,
        tools: ["read"],
      },
      {
        name: "docs",
        url: "https://example.com/mcp",
        headers: { Authorization: "Bearer x" },
        transport: "streamable-http",
        connectTimeoutMs: 1_500,
        enabled: true,
      },
      { name: "old", url: "http://localhost:1/sse", transport: "sse", enabled: false },
    ]);
  });

  it("[G9] is read in the nearest folder that has one and at home; the project's holds where both have a name", async () => {
    const files = {
      "/h/.rkat/mcp.toml": `${server('command = "home"')}[[servers]]\nname = "b"\ncommand = "home"`,
      "/p/.rkat/mcp.toml": server('command = "project"'),
      "/.rkat/mcp.toml": server('command = "farther"'),
      "/p/rkat.toml": '[agent]\nmodel = "m"',
    };
    const { mcpServers, sources, config } = await load(files);
    expect(mcpServers).toMatchObject([
      { name: "a", command: "project" },
      { name: "b", command: "home" },
    ]);
    expect(sources).toEqual(["/p/rkat.toml", "/h/.rkat/mcp.toml", "/p/.rkat/mcp.toml"]);
    expect(config.agent.model).toBe("m");
    // In the home folder there is one file, not two.
    expect((await load({ "/h/.rkat/mcp.toml": server('command = "home"') }, "/h")).mcpServers).toHaveLength(1);
    expect((await load({})).mcpServers).toEqual([]);
  });

  it("[G9] [H1] is refused with the key and what to write", async () => {
    const file = "/p/.rkat/mcp.toml";
    expect(await refusal(server('comand = "x"'))).toBe(
      `${file}: servers.0.comand is not a known key; did you mean servers.0.command?`,
    );
    expect(await refusal("[[server]]")).toBe(`${file}: server is not a known key; did you mean servers?`);
    expect(await refusal(server(""))).toBe(
      `${file}: servers.0.command is missing; write the program to start, or the server's address as url`,
    );
    expect(await refusal(server('command = "x"\nurl = "http://a.test"'))).toBe(
      `${file}: servers.0.command is "x"; a server has a command or a url, so remove one of the two`,
    );
    expect(await refusal(server('command = "x"\ntransport = "sse"'))).toMatch(
      /transport is "sse"; a command is spoken/,
    );
    expect(await refusal(server('url = "http://a.test"\ntransport = "stdio"'))).toMatch(/"streamable-http" or "sse"/);
    expect(await refusal(server('command = "x"\ntimeout = "soon"'))).toMatch(
      /servers\.0\.timeout is "soon"; .*like 30s/,
    );
    expect(await refusal(`${server('command = "x"')}${server('command = "y"')}`)).toMatch(
      /servers\.1\.name is "a"; another server of this file has the name/,
    );
    expect(await refusal("[[servers]")).toMatch(/mcp\.toml is not valid TOML at line 1/);
  });

  it("[G9] [H3] is refused without showing what could be a secret", async () => {
    for (const lines of ['headers = ["s3cret"]', 'env = { A = ["s3cret"] }', 'args = "s3cret"', 'url = "s3cret"']) {
      const sentence = await refusal(server(lines));
      expect(sentence).toMatch(/^\/p\/\.rkat\/mcp\.toml: servers\.0\.\w+(?:\.A)? is not usable; write/);
      expect(sentence).not.toContain("s3cret");
    }
  });
});
