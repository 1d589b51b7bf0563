import { render } from "preact";
import { App } from "./app.tsx";
import { open } from "./server.ts";

const root = document.getElementById("app");
if (root === null) throw new Error("the page has no place for the console");
render(<App />, root);
void open();
