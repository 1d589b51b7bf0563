import { coveringScenarios, describeSurfaces } from "./surfaces.ts";

describeSurfaces(["rest"], coveringScenarios);
