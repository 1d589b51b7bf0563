import { z } from "../contract/schema.ts";
import type { McpServerConfig } from "../ports/mcp-server.ts";
import { flag, oneOf, text, wait } from "./values.ts";

const NAME_CHARS_MAX = 64;

const words = z.string({ error: "write a text in quotes" });
const texts = z.record(z.string(), words, { error: 'write a table of texts, like { NAME = "value" }' });
const address = z
  .url({ protocol: /^https?$/, error: "write an address like https://example.com/mcp" })
  .refine((url) => !/^[a-z]+:\/\/[^/]*@/i.test(url), {
    error: "write the address without a user name or password, and put what gives access into headers",
  });

const Server = z
  .strictObject({
    name: text.max(NAME_CHARS_MAX, { error: `write a name of at most ${NAME_CHARS_MAX} characters` }),
    transport: oneOf(["stdio", "streamable-http", "sse"]).optional(),
    command: text.optional(),
    args: z.array(words, { error: 'write a list of texts, like ["-y", "a-server"]' }).optional(),
    env: texts.optional(),
    url: address.optional(),
    headers: texts.optional(),
    /** Of one call. */
    timeout: wait.optional(),
    connect_timeout: wait.optional(),
    /** Another spelling of `connect_timeout`. */
    connect_timeout_secs: z
      .number({ error: "write a number of seconds" })
      .positive({ error: "write a number of seconds above 0" })
      .max(86_400, { error: "write at most 86400 seconds" })
      .optional(),
    enabled: flag.default(true),
    tools: z.array(text, { error: 'write a list of names of tools, like ["search"]' }).optional(),
  })
  .superRefine((given, issues) => {
    const refuse = (key: keyof typeof given, message: string) => {
      if (given[key] !== undefined) issues.addIssue({ code: "custom", path: [key], message });
    };
    if (given.command === undefined && given.url === undefined) {
      const message = "write the program to start, or the server's address as url";
      issues.addIssue({ code: "custom", path: ["command"], message });
    } else if (given.url === undefined) {
      if (given.transport !== "stdio") refuse("transport", 'a command is spoken with by "stdio", so remove the key');
      refuse("headers", "headers are for a url; a command is given env");
    } else {
      refuse("command", "a server has a command or a url, so remove one of the two");
      refuse("args", "args are for a command, so remove the key");
      refuse("env", "env is for a command; a url is given headers");
      if (given.transport === "stdio")
        refuse("transport", 'a url is reached by "streamable-http" or "sse", so write one');
    }
    if (given.connect_timeout !== undefined)
      refuse("connect_timeout_secs", "connect_timeout is there, so remove the key");
  })
  .transform((given): McpServerConfig => {
    const { name, command = "", args, env, url, headers, transport, enabled, tools, timeout: timeoutMs } = given;
    const seconds = given.connect_timeout_secs;
    const connectTimeoutMs = given.connect_timeout ?? (seconds === undefined ? undefined : seconds * 1_000);
    const any = { name, timeoutMs, connectTimeoutMs, enabled, tools };
    if (url === undefined) return { ...any, command, args, env };
    return { ...any, url, headers, transport: transport === "sse" ? "sse" : "streamable-http" };
  });

/** The whole of `mcp.toml`. */
export const McpFile = z
  .strictObject({ servers: z.array(Server, { error: "write each server as a table, [[servers]]" }).default([]) })
  .superRefine(({ servers }, issues) => {
    for (const [index, { name }] of servers.entries()) {
      if (servers.findIndex((server) => server.name === name) === index) continue;
      const message = "another server of this file has the name, so give this one its own";
      issues.addIssue({ code: "custom", path: ["servers", index, "name"], message });
    }
  });
