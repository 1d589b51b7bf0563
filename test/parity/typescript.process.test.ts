import { coveringScenarios, describeSurfaces } from "./surfaces.ts";

describeSurfaces(["typescript stdio", "typescript http"], coveringScenarios);
