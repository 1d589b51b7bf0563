import { SCENARIOS } from "../../src/conformance/conformance.ts";
import { describeSurfaces } from "./surfaces.ts";

describeSurfaces(["rpc", "rest", "mcp", "mcp-http", "cli"], () => SCENARIOS);
