// The projects are installed in a cache folder when they are measured; here their imports have no types.
declare module "@dbos-inc/*";
declare module "@earendil-works/*";
declare module "@langchain/langgraph";
declare module "@langchain/langgraph-checkpoint-sqlite";
declare module "@mastra/*";
declare module "@tanstack/*";
declare module "langchain";
