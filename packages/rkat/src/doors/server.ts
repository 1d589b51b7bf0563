export * from "@rkat/server";
