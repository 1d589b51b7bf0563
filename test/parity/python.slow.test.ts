import { coveringScenarios, describeSurfaces } from "./surfaces.ts";

describeSurfaces(["python stdio", "python http"], coveringScenarios);
