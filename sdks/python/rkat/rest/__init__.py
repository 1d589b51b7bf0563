"""REST and server-sent events over HTTP."""
