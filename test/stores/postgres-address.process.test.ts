import { execFileSync } from "node:child_process";
import { chmodSync, chownSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Connection, createConnection } from "@rkat/postgres/connection";
import { openDatabase } from "@rkat/postgres/open";
import type { Query } from "@rkat/postgres/transaction";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { databaseFor, withPostgres } from "../support/postgres.ts";
import { type PostgresServer, startPostgres } from "../support/postgres-server.ts";

function connectionTo(url: string): Connection {
  const connection = createConnection({ url, poolMax: 1, isPooled: false, retryMs: 0 });
  onTestFinished(connection.close);
  return connection;
}

/** Whether a connection to an address is encrypted. */
async function isEncrypted(url: string): Promise<unknown> {
  const [row] = await connectionTo(url).query`select ssl from pg_stat_ssl where pid = pg_backend_pid()`;
  return row?.ssl;
}

const NOBODY = 65_534;

withPostgres("the address of a database", () => {
  const folder = mkdtempSync(join(tmpdir(), "rkat-tls-"));
  const [certificate, key] = [join(folder, "server.crt"), join(folder, "server.key")];
  let server: PostgresServer;
  beforeAll(async () => {
    const subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-days", "2"];
    const request = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, ...subject];
    execFileSync("openssl", request, { stdio: "ignore" });
    chmodSync(folder, 0o755);
    // The server runs as this user where the tests run as root, and reads a key that no other user can.
    if (process.getuid?.() === 0) chownSync(key, NOBODY, statSync(key).gid);
    server = await startPostgres({ ssl: "on", ssl_cert_file: certificate, ssl_key_file: key });
  }, 60_000);
  afterAll(async () => {
    await server.close();
    rmSync(folder, { recursive: true });
  });
  const withTls = (mode: string, host = "127.0.0.1") => `postgres://postgres@${host}:${server.port}/postgres${mode}`;

  it("[F11] says by sslmode whether TLS is used, and whether the certificate is checked", async () => {
    expect(await isEncrypted(withTls(""))).toBe(false);
    expect(await isEncrypted(withTls("?sslmode=disable"))).toBe(false);
    expect(await isEncrypted(withTls("?sslmode=prefer"))).toBe(true);
    expect(await isEncrypted(withTls("?sslmode=require"))).toBe(true);
    await expect(isEncrypted(withTls("?sslmode=verify-full", "localhost"))).rejects.toThrow(/self-signed certificate/);
    const known = `?sslmode=verify-full&sslrootcert=${certificate}`;
    expect(await isEncrypted(withTls(known, "localhost"))).toBe(true);
    await expect(isEncrypted(withTls(known))).rejects.toMatchObject({ code: "ERR_TLS_CERT_ALTNAME_INVALID" });
  });

  it("[F11] of a database without TLS is used with prefer, and refused with require", async () => {
    const url = await databaseFor("plain");
    expect(await isEncrypted(`${url}?sslmode=prefer`)).toBe(false);
    const secret = url.replace("postgres@", "postgres:hunter2@");
    const refused = await openDatabase({ url: `${secret}?sslmode=require`, realm: "one" }).catch(
      (error: Error) => error,
    );
    expect(refused).toMatchObject({ code: "SESSION_STORE_ERROR", message: expect.stringContaining("not support SSL") });
    expect(String(refused)).not.toContain("hunter2");
  });

  it("[F11] may name several hosts, of which one that can be reached is used", async () => {
    const several = (await databaseFor("hosts")).replace("127.0.0.1", "127.0.0.2,127.0.0.1");
    const { query } = connectionTo(`${several}?target_session_attrs=read-write`);
    expect(await query`select 1 as one`).toEqual([{ one: 1 }]);
  });

  it("[F11] that cannot be read is refused without showing it", () => {
    const url = "postgres://me:hunter2@host:port/db";
    expect(() => createConnection({ url, poolMax: 1, isPooled: false, retryMs: 0 })).toThrow(
      expect.objectContaining({ code: "SESSION_STORE_ERROR", message: expect.not.stringContaining("hunter2") }),
    );
  });
});

withPostgres("a transaction", () => {
  it("[F11] takes no statement after its end, and leaves nothing of what failed", async () => {
    const connection = connectionTo(await databaseFor("work"));
    await connection.query`create table kept (word text primary key)`;
    let late: Query = connection.query;
    const work = connection.transaction(async (query) => {
      late = query;
      await Promise.all([
        query`insert into kept values ('one')`,
        query`insert into kept values ('one')`,
        query`insert into kept values ('two')`,
      ]);
    });
    await expect(work).rejects.toMatchObject({ code: "23505" });
    expect(() => late`insert into kept values ('late')`).toThrow(/after its work/);
    expect(await connection.query`select word from kept`).toEqual([]);
    const [row] = await connection.query`select 9007199254740991::bigint as count, '\\x00ff'::bytea as bytes`;
    expect(row).toEqual({ count: Number.MAX_SAFE_INTEGER, bytes: Buffer.from([0, 255]) });
  });
});
