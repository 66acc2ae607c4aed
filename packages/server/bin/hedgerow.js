#!/usr/bin/env -S sh -c 'export MALLOC_ARENA_MAX="${MALLOC_ARENA_MAX-2}"; exec node --v8-pool-size=1 "$0" "$@"'
// One thread beside the main one for the engine's own work, which is collecting garbage for the most
// part: on few cores more of them take time from each other and from the main one. And where the C
// library keeps free memory for each of a dozen threads, that is some 30 MB of no use to any: two such
// places will do, unless the operator said otherwise. Both are known only before the engine starts, so
// this is the one place that says them, by a shell that becomes the engine; whoever starts this file by
// `node` gives them, or goes without.
import "../dist/bundle/main.js";
