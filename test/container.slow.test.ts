import { execFile, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, describe, expect, it } from "vitest";
import { findProgram } from "./support/find-program.ts";

const BUILDAH = findProgram(["buildah"]);
/** The published image of Node, or one that is there: a machine without a network of its own has no other. */
const BASE = process.env.RKAT_CONTAINER_BASE;
const WHY_NOT = BUILDAH === undefined ? "there is no buildah" : "RKAT_CONTAINER_BASE names no image with Node";
const MB = 1e6;
/** What our layers add to the image of Node. */
const OWN_BYTES_MAX = 140 * MB;

const root = join(import.meta.dirname, "..");
const run = promisify(execFile);

describe.skipIf(BUILDAH === undefined || BASE === undefined)(`the container (else: ${WHY_NOT})`, () => {
  const storage = mkdtempSync(join(tmpdir(), "rkat-container-"));
  const image = "localhost/rkat-test";
  const env = { ...process.env, STORAGE_DRIVER: "vfs" };
  const buildah = async (...args: string[]) => {
    const running = run(BUILDAH ?? "", args, { env, maxBuffer: 64 * MB });
    // `rkat run` reads a pipe to its end.
    running.child.stdin?.end();
    return (await running).stdout.trim();
  };
  const containers: string[] = [];

  afterAll(async () => {
    for (const one of containers) await buildah("rm", one).catch(() => {});
    await buildah("rmi", image).catch(() => {});
    rmSync(storage, { recursive: true, force: true });
  });

  async function sizeOf(name: string): Promise<number> {
    const [{ size }] = JSON.parse(await buildah("images", "--json", name));
    const [, number = "", unit = ""] = /^([\d.]+) (\w+)$/.exec(size) ?? [];
    return Number(number) * ({ MB, GB: 1_000 * MB }[unit] ?? Number.NaN);
  }

  it("[V3] is built, small, not root, answers /health and keeps a session", async () => {
    const file = join(root, "build/Containerfile");
    const ignore = ["--ignorefile", `${file}.dockerignore`];
    const how = ["--isolation", "chroot", "--network", "host", "--format", "docker"];
    await buildah("bud", ...how, "--build-arg", `BASE=${BASE}`, "-f", file, ...ignore, "-t", image, root);
    expect((await sizeOf(image)) - (await sizeOf(BASE ?? ""))).toBeLessThan(OWN_BYTES_MAX);

    const { Docker } = JSON.parse(await buildah("inspect", "--type", "image", image));
    expect(Docker.config).toMatchObject({ User: "1000", Healthcheck: { Test: expect.any(Array) } });
    const [, ...health] = Docker.config.Healthcheck.Test;

    const container = await buildah("from", image);
    containers.push(container);
    const inside = ["run", "--isolation", "chroot", "--network", "host", container, "--"];
    expect(await buildah(...inside, "id", "-u")).toBe("1000");
    const first = ["rkat", "run", "What is the capital of France?", "-m", "offline", "--json"];
    const { session_id, text } = JSON.parse(await buildah(...inside, ...first));
    expect(text).not.toMatch(/failed/);
    expect(await buildah(...inside, "rkat", "session", "list")).toContain(session_id.slice(0, 8));

    const port = "8080";
    const serve = ["RKAT_TOKEN=local", ...Docker.config.Entrypoint, "--port", port];
    const server = spawn(BUILDAH ?? "", [...inside, "env", ...serve], { env, stdio: ["ignore", "pipe", "pipe"] });
    try {
      let log = "";
      await new Promise<void>((listens, ended) => {
        server.once("exit", () => ended(new Error(`it ended: ${log}`)));
        for (const stream of [server.stdout, server.stderr]) {
          stream.on("data", (data) => {
            log += data;
            if (log.includes(port)) listens();
          });
        }
      });
      await buildah(...inside, ...health);
    } finally {
      server.kill("SIGTERM");
    }
  }, 1_800_000);
});
