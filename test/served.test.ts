import { readFileSync } from "node:fs";
import { join } from "node:path";
import { EXTRA_TOOLS } from "@rkat/core/contract/wire/mcp-tools";
import { createTools } from "@rkat/server/mcp/tools";
import { openApiDocument } from "@rkat/server/rest/openapi";
import { describe, expect, it } from "vitest";
import { connectRpc } from "./support/rpc-connection.ts";

/** Every name of the 0.6 line; a family of methods nobody here has is named by one of them. */
const METHODS = [
  ["initialize", "capabilities/get", "tools/register", "session/create", "turn/start", "turn/interrupt"],
  ["session/list", "session/read", "session/history", "session/archive", "session/stream_open", "session/stream_close"],
  ["session/inject_context", "session/external_event", "config/get", "config/set", "config/patch", "skills/list"],
  ["models/catalog", "blob/get", "events/latest_cursor", "events/list_since", "events/snapshot", "runtime/host_info"],
  ["runtime/capabilities", "runtime/health", "help/ask", "session/fork_at", "session/fork_replace"],
  ["session/rewrite_transcript", "session/transcript_revision", "session/restore_transcript_revision"],
  ["approval/request", "artifact/list", "auth/list", "realm/list", "realm/get", "mcp/add", "mcp/remove", "mcp/reload"],
  ["comms/send", "comms/peers", "session/peer_response_terminal", "schedule/create", "workgraph/list", "live/open"],
  ["mob/create", "skills/inspect"],
].flat();

const ROUTES = [
  ["POST /sessions", "GET /sessions", "GET /sessions/{id}", "GET /sessions/{id}/status", "GET /sessions/{id}/history"],
  [
    "POST /sessions/{id}/messages",
    "POST /sessions/{id}/interrupt",
    "DELETE /sessions/{id}",
    "GET /sessions/{id}/events",
  ],
  ["POST /sessions/{id}/system_context", "POST /sessions/{id}/external-events", "POST /requests/{id}/cancel"],
  ["GET /sessions/{id}/transcript-revisions/{id}", "POST /sessions/{id}/rewrite-transcript"],
  ["POST /sessions/{id}/restore-transcript-revision", "GET /capabilities", "GET /models/catalog", "GET /skills"],
  ["GET /runtime/host_info", "GET /runtime/capabilities", "GET /runtime/health", "GET /config", "PUT /config"],
  [
    "PATCH /config",
    "GET /health",
    "POST /help",
    "POST /sessions/{id}/mcp/add",
    "GET /schedules",
    "GET /workgraph/items",
  ],
  ["POST /mob/create", "POST /comms/send", "GET /auth/profiles", "GET /realms"],
].flat();

const TOOLS = [
  ["meerkat_run", "meerkat_resume", "meerkat_read", "meerkat_sessions", "meerkat_history", "meerkat_interrupt"],
  ["meerkat_archive", "meerkat_config", "meerkat_capabilities", "meerkat_models_catalog", "meerkat_skills"],
  ["meerkat_blob_get", "meerkat_event_stream_open", "meerkat_event_stream_read", "meerkat_event_stream_close"],
  ["meerkat_help", "meerkat_mcp_add", "meerkat_schedule_list", "workgraph_list", "meerkat_mob_create"],
  ["meerkat_comms_send"],
].flat();

const page =
  readFileSync(join(import.meta.dirname, "../docs/upgrading.md"), "utf8").split("### What is not served")[1] ?? "";

/** Whether the page lists a name of a surface as not served; a star at its end stands for anything. */
function isListed(surface: string, name: string): boolean {
  const row = page.split("\n").find((line) => line.startsWith(`| ${surface} `)) ?? "";
  const patterns = [...row.matchAll(/`([^`]+)`/g)].map(([, written = ""]) => written);
  const fits = (pattern: string): boolean =>
    pattern.endsWith("*") ? name.startsWith(pattern.slice(0, -1)) : name === pattern;
  return patterns.some(fits);
}

describe("what of the 0.6 line is served", () => {
  it("[G2] every method is served, or the page lists it as not served", async () => {
    const { client } = connectRpc();
    const { methods } = await client.request("initialize");
    client.end();
    for (const name of METHODS) {
      const isServed = (methods as readonly string[]).includes(name);
      expect({ name, isListed: isListed("JSON-RPC", name) }).toEqual({ name, isListed: !isServed });
    }
  });

  it("[G3] every route is served, or the page lists it as not served", () => {
    const { paths } = openApiDocument("1.2.3")("http://localhost");
    const served = Object.entries(paths).flatMap(([path, verbs]) =>
      Object.keys(verbs).map((verb) => `${verb.toUpperCase()} ${path.replaceAll(/\{\w+\}/g, "{id}")}`),
    );
    for (const name of ROUTES) {
      const listed = isListed("REST", name.split(" ")[1] ?? "");
      expect({ name, isListed: listed }).toEqual({ name, isListed: !served.includes(name) });
    }
  });

  it("[G4] every tool is served, or the page lists it as not served", () => {
    const served = [...createTools({ memoryOnly: false }).keys(), ...Object.keys(EXTRA_TOOLS)];
    for (const name of TOOLS) {
      expect({ name, isListed: isListed("MCP", name) }).toEqual({ name, isListed: !served.includes(name) });
    }
  });
});
