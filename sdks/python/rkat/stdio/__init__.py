"""JSON-RPC over the stdin and stdout of a server of our own."""
