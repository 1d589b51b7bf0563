import { SCENARIOS } from "@rkat/conformance/conformance";
import { describeSurfaces } from "./surfaces.ts";

describeSurfaces(["rpc", "rest", "mcp", "mcp-http", "cli"], () => SCENARIOS);
