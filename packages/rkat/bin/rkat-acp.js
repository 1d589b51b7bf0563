#!/usr/bin/env node
import "../dist/acp.js";
