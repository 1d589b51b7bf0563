import { render } from "preact";
import { App } from "./app.tsx";
import { keptSimulation } from "./kept.ts";
import { SimulationPage } from "./screens/simulation.tsx";
import { open } from "./server.ts";

const root = document.getElementById("app");
if (root === null) throw new Error("the page has no place for the console");
if (keptSimulation === undefined) {
  render(<App />, root);
  void open();
} else {
  render(<SimulationPage simulation={keptSimulation} />, root);
}
