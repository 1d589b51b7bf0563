export type Env = Readonly<Record<string, string | undefined>>;

/** Names under which programs keep what gives access. */
const SECRET_NAME = /(?:_KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS|OTLP(?:_[A-Z]+)?_HEADERS)$/i;

export const isSecretName = (name: string): boolean => SECRET_NAME.test(name);

/** The values of an environment that give access to something. */
export function secretsIn(env: Env): readonly string[] {
  return Object.entries(env).flatMap(([name, value]) => (value !== undefined && isSecretName(name) ? [value] : []));
}

/** What a command sees: the runtime's environment without its secrets, and what the session itself was given. */
export function childEnv(
  env: Env,
  shellEnv: Readonly<Record<string, string>>,
  isSecret: (name: string) => boolean,
): Readonly<Record<string, string>> {
  const open = Object.entries(env).filter(
    (entry): entry is [string, string] => entry[1] !== undefined && !isSecret(entry[0]),
  );
  return { ...Object.fromEntries(open), ...shellEnv };
}
