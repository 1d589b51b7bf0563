export * from "@rkat/core";
export { type BroughtFile, type LoadedConfig, loadConfig } from "./config/load-config.ts";
export type { Trust } from "./config/trust.ts";
export { createRemoteEmbedder } from "./embedders/remote.ts";
export { type OpenOptions, openEmbeddedStore, openRuntime } from "./open-runtime.ts";
export { type CopyStoreOptions, copyStore, type StoreAddress } from "./store-places.ts";
