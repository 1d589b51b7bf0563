export * from "@rkat/client";
