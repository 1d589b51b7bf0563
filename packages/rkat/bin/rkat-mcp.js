#!/usr/bin/env node
import "../dist/mcp.js";
