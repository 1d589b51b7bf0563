/** A number that only grows, one for each set of labels' values. */
interface Counter {
  add(values: readonly string[], by?: number): void;
}

/** How values are spread, one for each set of labels' values. */
interface Histogram {
  observe(values: readonly string[], value: number): void;
}

/** A number with the values of its labels. */
export type Sample = readonly [values: readonly string[], value: number];

interface Family {
  readonly name: string;
  readonly help: string;
  readonly labels?: readonly string[];
}

/** Numbers about a process, in the text format of Prometheus. */
export interface Metrics {
  counter(family: Family): Counter;
  histogram(family: Family & { readonly buckets: readonly number[] }): Histogram;
  /** Computed when the metrics are read. */
  gauge(family: Family & { readonly type?: "gauge" | "counter" }, read: () => readonly Sample[]): void;
  /** Everything, as version 0.0.4 of the format has it. */
  text(): string;
}

export const METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8";

/** Clients name tools and models, and each new name is a series for as long as the process lives. */
const SERIES_MAX = 256;
const VALUE_CHARS_MAX = 100;
const OTHER = "other";

export function createMetrics(): Metrics {
  const families: (() => string)[] = [];
  return {
    counter: (family) => {
      const series = createSeries(family, () => ({ sum: 0 }));
      families.push(() =>
        familyText(
          family,
          "counter",
          [...series.all()].map(([labels, { sum }]) => `${labels} ${sum}`),
        ),
      );
      return {
        add: (values, by = 1) => {
          series.at(values).sum += by;
        },
      };
    },
    histogram: ({ buckets, ...family }) => {
      const series = createSeries(family, () => ({ counts: buckets.map(() => 0), count: 0, sum: 0 }));
      families.push(() =>
        familyText(
          family,
          "histogram",
          [...series.all()].flatMap(([labels, spread]) => bucketsOf(labels, buckets, spread)),
        ),
      );
      return {
        observe: (values, value) => {
          const spread = series.at(values);
          const at = buckets.findIndex((most) => value <= most);
          if (at >= 0) spread.counts[at] = (spread.counts[at] ?? 0) + 1;
          spread.count += 1;
          spread.sum += value;
        },
      };
    },
    gauge: ({ type = "gauge", ...family }, read) => {
      families.push(() => {
        const samples = read().filter(([, value]) => Number.isFinite(value));
        return familyText(
          family,
          type,
          samples.map(([values, value]) => `${labelsOf(family.labels ?? [], values)} ${value}`),
        );
      });
    },
    text: () => families.map((family) => family()).join(""),
  };
}

/** What is kept for each set of values; beyond a bound, everything new is kept as one. */
function createSeries<S>({ labels = [] }: Family, begin: () => S) {
  const series = new Map<string, { readonly labels: string; readonly kept: S }>();
  const add = (values: readonly string[]): S => {
    const kept = begin();
    series.set(values.join("\n"), { labels: labelsOf(labels, values), kept });
    return kept;
  };
  const other = labels.map(() => OTHER);
  const at = (values: readonly string[]): S => {
    const known = series.get(values.join("\n"));
    if (known !== undefined) return known.kept;
    // One place is held back for the others.
    if (series.size < SERIES_MAX - 1) return add(values);
    return series.get(other.join("\n"))?.kept ?? add(other);
  };
  // What has no labels is there from the start, so that its first step is seen as one.
  if (labels.length === 0) add([]);
  return {
    at,
    *all(): Generator<readonly [labels: string, kept: S]> {
      for (const { labels: written, kept } of series.values()) yield [written, kept];
    },
  };
}

function bucketsOf(
  labels: string,
  buckets: readonly number[],
  { counts, count, sum }: { readonly counts: readonly number[]; readonly count: number; readonly sum: number },
): readonly string[] {
  let below = 0;
  const rows = buckets.map((most, index) => {
    below += counts[index] ?? 0;
    return `_bucket${withLabel(labels, `le="${most}"`)} ${below}`;
  });
  return [
    ...rows,
    `_bucket${withLabel(labels, 'le="+Inf"')} ${count}`,
    `_sum${labels} ${sum}`,
    `_count${labels} ${count}`,
  ];
}

function withLabel(labels: string, label: string): string {
  return labels === "" ? `{${label}}` : `${labels.slice(0, -1)},${label}}`;
}

function labelsOf(names: readonly string[], values: readonly string[]): string {
  if (names.length === 0) return "";
  return `{${names.map((name, index) => `${name}="${escaped(values[index] ?? "")}"`).join(",")}}`;
}

function escaped(value: string): string {
  return value.slice(0, VALUE_CHARS_MAX).replace(/[\\"\n]/g, (sign) => (sign === "\n" ? "\\n" : `\\${sign}`));
}

function familyText({ name, help }: Family, type: string, rows: readonly string[]): string {
  if (rows.length === 0) return "";
  return `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${rows.map((row) => `${name}${row}\n`).join("")}`;
}
