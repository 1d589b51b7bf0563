#!/usr/bin/env node
import "../dist/rpc.js";
