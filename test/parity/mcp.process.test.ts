import { coveringScenarios, describeSurfaces } from "./surfaces.ts";

describeSurfaces(["mcp", "mcp-http"], coveringScenarios);
