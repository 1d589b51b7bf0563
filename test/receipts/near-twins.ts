/** A rule or an ask, and a sentence that is all but the same; `kept` says whether the one stands in the other. */
export type NearTwin = readonly [kind: "rule" | "ask", specific: string, standing: string, kept: boolean];

const PAYMENTS = (name: string): string =>
  `Never restart the payments service of customer ${name} on weekdays because the nightly batch job needs it.`;

/** Those the rules for exactness were written with. */
export const NEAR_TWINS: readonly NearTwin[] = [
  ["rule", PAYMENTS("Acme"), PAYMENTS("Globex"), false],
  ["rule", PAYMENTS("Initech"), PAYMENTS("Globex"), false],
  ["rule", PAYMENTS("Acme"), PAYMENTS("Acme"), true],
  ["rule", PAYMENTS("acme"), PAYMENTS("globex"), false],
  [
    "rule",
    PAYMENTS("Acme"),
    "Never restart the payments service of the customer on weekdays: the nightly batch job needs it.",
    false,
  ],
  ["rule", PAYMENTS("Acme"), PAYMENTS("Acme").replace("Never", "Always"), false],
  ["rule", PAYMENTS("Acme"), PAYMENTS("Acme").replace("weekdays", "weekends"), false],
  ["rule", PAYMENTS("Acme"), PAYMENTS("Acme").replace("Never", "Do not"), false],
  [
    "rule",
    "Always keep 30 days of logs for the audit of the billing cluster.",
    "Always keep 90 days of logs for the audit of the billing cluster.",
    false,
  ],
  [
    "rule",
    "Always keep 30 days of logs for the audit of the billing cluster.",
    "Always keep 30 hours of logs for the audit of the billing cluster.",
    false,
  ],
  [
    "rule",
    "Always keep two weeks of logs for the audit of the billing cluster.",
    "Always keep 14 days of logs for the audit of the billing cluster.",
    false,
  ],
  [
    "rule",
    "Never deploy src/billing/tax.ts to the production cluster before the review of Ada is done.",
    "Never deploy src/billing/vat.ts to the production cluster before the review of Ada is done.",
    false,
  ],
  [
    "rule",
    "Only the account svc_reader_7 may read the table of invoices in the warehouse.",
    "Only the account svc_reader_8 may read the table of invoices in the warehouse.",
    false,
  ],
  [
    "rule",
    'Always call the release "Heron" in every announcement to the press and the partners.',
    'Always call the release "Egret" in every announcement to the press and the partners.',
    false,
  ],
  [
    "rule",
    "Always name the branch `fix` in every pull request of the mobile team.",
    "Always name the branch `feat` in every pull request of the mobile team.",
    false,
  ],
  [
    "ask",
    "Please send the quarterly report of the Berlin office to the auditors by mail.",
    "Please send the quarterly report of the Vienna office to the auditors by mail.",
    false,
  ],
  ["ask", "Delete the backups of the heron cluster.", "Never delete the backups of the heron cluster.", false],
  [
    "rule",
    "Niemals die Rechnungen der Firma Kranich ohne Freigabe der Buchhaltung versenden.",
    "Niemals die Rechnungen der Firma Reiher ohne Freigabe der Buchhaltung versenden.",
    false,
  ],
  [
    "rule",
    "Die Sicherung von Server Alpha muss immer um 14 Uhr enden.",
    "Die Sicherung von Server Beta muss immer um 14 Uhr enden.",
    false,
  ],
  [
    "rule",
    "Ne partage jamais le dossier de Dupont avec le service commercial de Lyon.",
    "Ne partage jamais le dossier de Martin avec le service commercial de Lyon.",
    false,
  ],
  [
    "rule",
    "Nunca envíes las facturas de Gómez al equipo de ventas de Sevilla.",
    "Nunca envíes las facturas de Pérez al equipo de ventas de Sevilla.",
    false,
  ],
  [
    "rule",
    "客户甲的支付服务在工作日绝对不能重启，因为夜间批处理需要它。",
    "客户乙的支付服务在工作日绝对不能重启，因为夜间批处理需要它。",
    false,
  ],
  [
    "rule",
    "顧客タナカの決済サービスは平日に再起動しないでください。",
    "顧客スズキの決済サービスは平日に再起動しないでください。",
    false,
  ],
  ["rule", "Never push to main on Fridays.", "The user wants no pushes to main on Fridays.", false],
  [
    "rule",
    "Always answer the support mails of the Zurich branch in German.",
    "Support mails of the Zurich branch: always answer in German.",
    false,
  ],
];
