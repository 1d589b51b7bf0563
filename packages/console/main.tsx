import { render } from "preact";
import { App } from "./app.tsx";
import { savedSimulation } from "./saved-page.ts";
import { SimulationPage } from "./screens/simulation.tsx";
import { connectToServer } from "./server.ts";

const root = document.getElementById("app");
if (root === null) throw new Error("the page has no element #app");
if (savedSimulation === undefined) {
  render(<App />, root);
  void connectToServer();
} else {
  render(<SimulationPage simulation={savedSimulation} />, root);
}
