export { withoutControls } from "@rkat/core/text/terminal-text";
