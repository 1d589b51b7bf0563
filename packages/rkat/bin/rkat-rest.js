#!/usr/bin/env node
import "../dist/rest.js";
