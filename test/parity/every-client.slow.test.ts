import { SCENARIOS } from "@rkat/conformance/conformance";
import { CLIENTS } from "./stage.ts";
import { describeSurfaces } from "./surfaces.ts";

describeSurfaces(CLIENTS, () => SCENARIOS);
