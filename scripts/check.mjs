// Everything that must hold before a commit, in the order that fails fastest. `--without-tests` leaves
// out the tests, for whoever runs `npm test` anyway.
import { spawnSync } from "node:child_process";

const steps = [
  ["format, lint and import rules", "npx", ["biome", "check", "--error-on-warnings", "."]],
  ["types of the product", "npx", ["tsc", "-b"]],
  ["types of the tests", "npx", ["tsc", "-p", "tsconfig.tests.json"]],
  ["openapi.json matches the routes", "npm", ["run", "--silent", "openapi", "--", "--check"]],
  ["tests", "npm", ["test"]],
];

const wanted = process.argv.includes("--without-tests")
  ? steps.filter(([title]) => title !== "tests")
  : steps;

for (const [title, command, args] of wanted) {
  console.log(`check: ${title}`);
  const done = spawnSync(command, args, { stdio: "inherit" });
  if (done.status !== 0) {
    console.error(`check failed: ${title}`);
    process.exit(done.status ?? 1);
  }
}
console.log("check: all clean");
