export * from "@rkat/client/browser";
