import { SCENARIOS } from "../../src/conformance/conformance.ts";
import { CLIENTS } from "./stage.ts";
import { describeSurfaces } from "./surfaces.ts";

describeSurfaces(CLIENTS, () => SCENARIOS);
