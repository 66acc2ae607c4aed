#!/usr/bin/env -S MALLOC_ARENA_MAX=2 node --v8-pool-size=1
// One thread beside the main one for the engine's own work, which is collecting garbage for the most
// part: on few cores more of them take time from each other and from the main one. Known to the
// engine only before it starts, so this is the one place that says it; whoever starts this file by
// `node` gives the option, or goes without.
import "../dist/bundle/main.js";
