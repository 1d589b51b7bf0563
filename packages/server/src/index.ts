export {
  createHandler,
  type Grant,
  type Handler,
  type HandlerOptions,
  type ListenOptions,
  type Served,
  type ServeOptions,
  serve,
} from "./serve-runtime.ts";
