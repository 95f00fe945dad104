// schemathesis against the server, by the OpenAPI document.
import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import test from "node:test";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "../..");
const built = process.env.LOWTIDE_BUILT ?? join(root, "target/debug");

/** schemathesis in an environment of its own, made when it is not there yet. */
function schemathesis() {
  const home = join(root, "target/api-python");
  const program = join(home, "bin/schemathesis");
  if (!existsSync(program)) {
    execFileSync("python3", ["-m", "venv", home]);
    execFileSync(join(home, "bin/pip"), ["install", "--quiet", "--disable-pip-version-check", "schemathesis==4.32.5"]);
  }
  return program;
}

test("the server keeps to its OpenAPI document, whatever it is asked", async (t) => {
  const dir = mkdtempSync(join(tmpdir(), "lowtide-api-"));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  execFileSync(join(built, "examples/stage"), [dir]);
  const env = { ...process.env, XDG_RUNTIME_DIR: dir, XDG_CACHE_HOME: dir };
  const server = spawn(join(built, "lowtide"), ["serve", "--dir", dir, "--listen", "127.0.0.1:0"], { stdio: ["ignore", "pipe", "inherit"], env });
  t.after(() => server.kill("SIGKILL"));
  let text = "";
  for await (const part of server.stdout) if ((text += part).includes("\n")) break;
  const url = new URL(text.split("\n")[0]);
  const token = url.searchParams.get("token");
  // News never end while a run goes on: they have a test of their own.
  const args = ["run", "--url", url.origin, "-H", `Authorization: Bearer ${token}`, "--max-examples", "25", "--exclude-path-regex", "events", "--seed", "1", "--generation-database", "none", join(root, "docs/openapi.json")];
  execFileSync(schemathesis(), args, { stdio: ["ignore", "ignore", "inherit"], cwd: dir });
});
