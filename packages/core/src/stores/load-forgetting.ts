/** What an erasure needs of Node, loaded by the first erasure. */
export async function loadForgettingTools() {
  return (await import("./forgetting-tools.ts")).FORGETTING_TOOLS;
}
