//! How a report looks. The page's policy names the digest of this text, so no other style applies.

/// The style sheet.
pub(super) const STYLE: &str = r"
:root{color-scheme:light dark;
 --page:#f6f7f9;--card:#fff;--ink:#1b2330;--soft:#5b6675;--line:#e3e7ec;--grid:#e9edf1;
 --allow:#6c9fb0;--ask:#e0a32e;--deny:#cc4b3e;--plain:#7f8fa6;
 --p50:#9db8d9;--p90:#5b8bc4;--p99:#244f8a;--alarm:#fdeceA;--warning:#fdf4e0;--note:#eef2f6;--good:#eaf5ee;--well:#2f7d4f}
@media (prefers-color-scheme:dark){:root{
 --page:#12161c;--card:#1a2029;--ink:#e5eaf0;--soft:#98a4b3;--line:#2b333e;--grid:#28303a;
 --allow:#5b93a6;--ask:#e2ac42;--deny:#e2695c;--plain:#7c8ba1;
 --p50:#3f6698;--p90:#6a9bd8;--p99:#b9d6f7;--alarm:#3a1f1e;--warning:#352b17;--note:#222a34;--good:#17291f;--well:#6fc292}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif}
main{max-width:1200px;margin:0 auto;padding:32px 24px 48px}
h1{font-size:26px;line-height:1.2;margin:0 0 4px;letter-spacing:-.01em}
h2{font-size:16px;margin:0 0 2px}
p{margin:0}
code{font:13px/1.45 ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;overflow-wrap:anywhere;unicode-bidi:isolate;white-space:pre-wrap}
.about{color:var(--soft);font-size:13.5px;max-width:110ch;margin-bottom:14px}
header .about{font-size:15px;margin-bottom:24px}
.facts{display:grid;grid-template-columns:repeat(8,1fr);gap:1px;margin:0 0 16px;background:var(--line);border:1px solid var(--line);border-radius:10px;overflow:hidden}
.facts>div{background:var(--card);padding:14px 16px}
.facts dt{color:var(--soft);font-size:13px}
.facts dd{margin:0;font-size:25px;line-height:1.25;font-weight:650;letter-spacing:-.02em;font-variant-numeric:tabular-nums}
.facts small{display:block;color:var(--soft);font-size:12.5px;font-weight:400;letter-spacing:0}
.facts .allow,.facts .ask,.facts .deny{box-shadow:inset 0 3px 0 var(--plain)}
.facts .allow{box-shadow:inset 0 3px 0 var(--allow)}.facts .ask{box-shadow:inset 0 3px 0 var(--ask)}.facts .deny{box-shadow:inset 0 3px 0 var(--deny)}
.card{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:18px 20px 20px;margin:0 0 16px;min-width:0}
.grid{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));gap:16px}
.grid>.card{margin:0}
.wide{grid-column:1/-1}
.signs{list-style:none;margin:10px 0 0;padding:0;display:grid;gap:8px}
.signs li{display:grid;grid-template-columns:minmax(64px,auto) 1fr;gap:0 16px;align-items:baseline;border-radius:8px;padding:10px 14px;background:var(--note);border-left:4px solid var(--plain)}
.signs .alarm{background:var(--alarm);border-color:var(--deny)}
.signs .warning{background:var(--warning);border-color:var(--ask)}
.signs .quiet{display:block}.signs .good{background:var(--good);border-color:var(--well)}
.signs .count{font-size:20px;font-weight:650;text-align:right;font-variant-numeric:tabular-nums;letter-spacing:-.01em}
.signs b{font-weight:600}
.signs small{color:var(--soft);font-size:13.5px;display:block}
.signs .level{white-space:nowrap;font-size:11.5px;text-transform:uppercase;letter-spacing:.05em;color:var(--soft);margin-left:8px}
figure{margin:0}
.legend{display:flex;flex-wrap:wrap;gap:4px 18px;font-size:13px;color:var(--soft);margin:0 0 4px}
.legend i{display:inline-block;width:10px;height:10px;border-radius:2px;margin-right:6px}
.chart{display:block;width:100%;height:270px;padding:12px 6px 28px 54px;overflow:visible;font:12px system-ui,-apple-system,'Segoe UI',Roboto,Arial,sans-serif;font-variant-numeric:tabular-nums}
.chart text{fill:var(--soft)}
.chart .gridline{stroke:var(--grid);stroke-width:1}
.chart .base{stroke:var(--plain)}
.chart g:hover{opacity:.75}
.allow-fill,i.allow{fill:var(--allow);background:var(--allow)}
.ask-fill,i.ask{fill:var(--ask);background:var(--ask)}
.deny-fill,i.deny{fill:var(--deny);background:var(--deny)}
.plain-fill{fill:var(--plain)}
.p50-fill,i.p50{fill:var(--p50);background:var(--p50)}.p90-fill,i.p90{fill:var(--p90);background:var(--p90)}.p99-fill,i.p99{fill:var(--p99);background:var(--p99)}
.p50-line{stroke:var(--p50)}.p90-line{stroke:var(--p90)}.p99-line{stroke:var(--p99)}
.p50-line,.p90-line,.p99-line{stroke-width:2;stroke-linecap:round}
.hit{fill:transparent}
.scroll{overflow-x:auto}
figure+.scroll{margin-top:12px}
table{width:100%;border-collapse:collapse;font-size:13.5px}
th{font-weight:500;font-size:12.5px;color:var(--soft);text-align:left;padding:0 12px 5px 0;border-bottom:1px solid var(--line);white-space:nowrap}
td{padding:6px 12px 6px 0;border-bottom:1px solid var(--line);vertical-align:top}
tr:last-child td{border-bottom:0}
th:last-child,td:last-child{padding-right:0}
.number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.time{white-space:nowrap;font-variant-numeric:tabular-nums}
.none{color:var(--soft)}
td small{display:block;color:var(--soft);font-size:12.5px}
td small code{font-size:12px}
.bars{width:28%;min-width:72px;padding-top:11px}
.bar{display:block;width:100%;height:10px;border-radius:2px;overflow:hidden}
.tag{display:inline-block;border-radius:4px;padding:0 7px;margin:1px 6px 1px 0;font-size:12.5px;background:var(--note);white-space:nowrap}
.tag.alarm{background:var(--alarm)}.tag.warning{background:var(--warning)}
details{margin-top:10px;font-size:13.5px}
summary{cursor:pointer;color:var(--soft);width:max-content}
details .scroll{max-height:340px;overflow:auto;margin-top:8px}
.rest{color:var(--soft);font-size:13px;margin-top:8px}
footer{color:var(--soft);font-size:13px;margin-top:20px}
@media (max-width:1120px){.facts{grid-template-columns:repeat(4,1fr)}}
@media (max-width:820px){main{padding:20px 14px 32px}.grid{grid-template-columns:minmax(0,1fr)}.minor{display:none}
 .card{padding:14px 14px 16px}.chart{height:230px;padding-left:46px}.facts{grid-template-columns:repeat(2,1fr)}.facts dd{font-size:22px}
 .signs li{display:block}.signs .count{text-align:left;display:inline;margin-right:8px}}
@media print{:root{--page:#fff}body{font-size:11pt}main{max-width:none;padding:0}.facts{grid-template-columns:repeat(4,1fr)}.card,.facts,.signs li{break-inside:avoid;border-color:#ccc}
 .card.long{break-inside:auto}tr{break-inside:avoid}*{print-color-adjust:exact;-webkit-print-color-adjust:exact}details{display:none}}
";
