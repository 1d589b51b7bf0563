import { coveringScenarios, describeSurfaces } from "./surfaces.ts";

describeSurfaces(["rpc"], coveringScenarios);
