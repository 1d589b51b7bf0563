import type { Sql, TransactionSql } from "postgres";

/**
 * Answers without holes. The driver counts the rows of an answer and does not begin anew when one breaks off: the next
 * answer of that connection is then led by as many rows that are not there, and a row that is read by its place is taken
 * for missing (porsager/postgres, issue 1181).
 */
export function withWholeRows(sql: Sql): Sql {
  return new Proxy(sql, {
    apply: (target, self, args) => {
      const asked: unknown = Reflect.apply(target, self, args);
      if (asked instanceof Promise) mend(asked);
      return asked;
    },
    get: (target, name) => {
      const value: unknown = Reflect.get(target, name);
      if (name !== "begin" || typeof value !== "function") return value;
      return (...args: readonly unknown[]) => value(...args.map(withWholeTransaction));
    },
  });
}

/** Of what a transaction is begun with, the function that is handed its `sql`. */
function withWholeTransaction(given: unknown): unknown {
  if (typeof given !== "function") return given;
  // A transaction's `sql` is called as any other is.
  return (sql: TransactionSql) => given(withWholeRows(sql as unknown as Sql));
}

interface Answer extends Array<unknown> {
  readonly count?: number;
}

function mend(asked: Promise<unknown>): void {
  // What the driver resolves a question with; its types do not tell of it, and a test does.
  const question = asked as Promise<unknown> & { resolve: (answer: Answer) => void };
  const { resolve } = question;
  question.resolve = (answer) => {
    // What was changed and not returned is counted as well, so there may be fewer rows than that.
    const holes = answer.length - (answer.count ?? answer.length);
    if (holes > 0) answer.splice(0, holes);
    resolve(answer);
  };
}
