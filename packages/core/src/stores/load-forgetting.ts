/** What a forgetting needs of this machine, loaded when something is forgotten. */
export async function loadForgettingTools() {
  return (await import("./forgetting-tools.ts")).FORGETTING_TOOLS;
}
