export type Env = Readonly<Record<string, string | undefined>>;

/** Names under which programs keep what gives access; some put a word behind it: `STRIPE_KEY_LIVE`. */
const SECRET_NAME =
  /(?:TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|API_?KEYS?|OTLP(?:_[A-Z]+)?_HEADERS)(?:_[A-Z0-9]+)?$|(?:^|_)(?:KEY|PAT|DSN)(?:_[A-Z0-9]+)?$|_(?:PASS|PWD|AUTH)$|^(?:.+_)?(?:DATABASE|DB|MONGO(?:DB)?|REDIS|POSTGRES(?:QL)?|PG|MYSQL|AMQP|BROKER|CLOUDAMQP)_UR[IL]$|CONNECTION_STRING$/i;
/** Everybody may know it. */
const NO_SECRET = /_PUBLIC_KEY$/i;
/** An address that names a password: `postgres://app:hunter2@db/app`. */
const HOLDS_PASSWORD = /:\/\/[^\s/:@]{0,100}:([^\s/@]{1,200})@/;

const isSecretName = (name: string): boolean => SECRET_NAME.test(name) && !NO_SECRET.test(name);

/** Whether a variable gives access to something, by its name or by what it holds. */
export const isSecret = (name: string, value: string): boolean => isSecretName(name) || HOLDS_PASSWORD.test(value);

/** The values of an environment that give access to something. */
export function secretsIn(env: Env): readonly string[] {
  return Object.entries(env).flatMap(([name, value]) => {
    if (value === undefined || !isSecret(name, value)) return [];
    const password = HOLDS_PASSWORD.exec(value)?.[1];
    return password === undefined ? [value] : [value, password];
  });
}

/** What a command sees: the runtime's environment without its secrets, and what the session itself was given. */
export function childEnv(
  env: Env,
  shellEnv: Readonly<Record<string, string>>,
  isKept: (name: string, value: string) => boolean,
): Readonly<Record<string, string>> {
  const open = Object.entries(env).filter(
    (entry): entry is [string, string] => entry[1] !== undefined && !isKept(entry[0], entry[1]),
  );
  return { ...Object.fromEntries(open), ...shellEnv };
}
