import { coveringScenarios, describeSurfaces } from "./surfaces.ts";

describeSurfaces(["cli"], coveringScenarios);
