// Completes package-lock.json after `npm install`. Where a registry does not serve a package made for another
// platform, npm leaves its entry out of the lock, and `npm ci` then refuses the lock it wrote itself.
import { readFileSync, writeFileSync } from "node:fs";

const OS = ["aix", "android", "darwin", "freebsd", "linux", "netbsd", "openbsd", "openharmony", "sunos", "win32"];
const CPU = ["arm64", "arm", "x64", "ia32", "ppc64", "riscv64", "s390x", "wasm32"];
const PATH = "package-lock.json";

const lock = JSON.parse(readFileSync(PATH, "utf8"));
const missing = Object.entries(lock.packages).flatMap(([at, owner]) =>
  Object.entries(at === "" ? {} : (owner.optionalDependencies ?? {}))
    .filter(([name]) => lock.packages[`node_modules/${name}`] === undefined)
    .map(([name, version]) => [`node_modules/${name}`, entryOf(name, version, owner)]),
);
const packages = { ...lock.packages, ...Object.fromEntries(missing) };
lock.packages = Object.fromEntries(Object.entries(packages).sort(([a], [b]) => (a < b ? -1 : 1)));
writeFileSync(PATH, `${JSON.stringify(lock, null, 2)}\n`);

/** The platform is in the name; without an integrity, since there was nothing to take one from. */
function entryOf(name, version, owner) {
  const words = name.split("/").at(-1).split("-");
  const os = OS.find((word) => words.includes(word));
  const cpu = CPU.find((word) => words.includes(word));
  const last = words.at(-1);
  const libc = last.startsWith("musl") ? "musl" : last.startsWith("gnu") ? "glibc" : undefined;
  return {
    version,
    ...(cpu && { cpu: [cpu] }),
    ...(owner.dev && { dev: true }),
    ...(os === "linux" && libc && { libc: [libc] }),
    optional: true,
    ...(os && { os: [os] }),
    ...(owner.engines && { engines: owner.engines }),
  };
}
