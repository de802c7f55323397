// SPDX-License-Identifier: Apache-2.0
//
// Small screens first, then what wider ones and paper do otherwise.

#include "loadtest/report/page/page_style.h"

namespace qgemm {

absl::string_view PageCss() {
  return R"css(
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;text-size-adjust:100%}
body{margin:0;background:var(--paper);color:var(--ink);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",
"DejaVu Sans",sans-serif;font-variant-numeric:tabular-nums}
main{max-width:1208px;margin:0 auto;padding:24px 16px 48px}
h1,h2,p,figure,dl,dd{margin:0}
h1{font-size:26px;line-height:1.25;font-weight:650;letter-spacing:-.01em;
overflow-wrap:anywhere}
h2{font-size:18px;line-height:1.35;font-weight:600}
header .top{display:flex;flex-wrap:wrap;align-items:center;gap:8px 14px}
.badge{font-size:14px;font-weight:600;line-height:1;padding:6px 10px 7px;
border-radius:999px;border:1.5px solid var(--s2);color:var(--s2)}
.badge.bad{border-color:var(--s6);color:var(--s6)}
.lead{margin-top:8px;max-width:76ch;overflow-wrap:anywhere}
.when,figcaption p,small{color:var(--muted);font-size:14px;font-weight:400}
.findings{margin:16px 0 0;padding:10px 14px 10px 30px;border-radius:6px;
border-left:4px solid var(--s6);background:var(--shade);overflow-wrap:anywhere}
.tiles{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));
margin:24px 0 0;
border-top:2px solid var(--ink);border-bottom:1px solid var(--grid)}
.tiles div{padding:12px 12px 14px 0}
.tiles dt{color:var(--muted);font-size:14px}
.tiles dd{font-size:28px;line-height:1.2;font-weight:600;letter-spacing:-.015em;
white-space:nowrap}
.tiles dd.note{color:var(--muted);font-size:13px;font-weight:400;
letter-spacing:0;
line-height:1.4;white-space:normal}
.tiles .bad dd:first-of-type{color:var(--s6)}
section{margin-top:40px}
.pair{display:grid;grid-template-columns:minmax(0,1fr);gap:36px 40px}
.pair>*{min-width:0}
figure{break-inside:avoid}
figcaption{margin-bottom:10px}
figure .plot{max-width:720px}
figure .wide,figure .mid,figure .paper-size{display:none}
.scroll{overflow-x:auto;background:
linear-gradient(to right,var(--paper) 50%,transparent),
linear-gradient(to left,var(--paper) 50%,transparent) 100% 0,
linear-gradient(to right,var(--edge),transparent),
linear-gradient(to left,var(--edge),transparent) 100% 0;
background-size:32px 100%,32px 100%,10px 100%,10px 100%;
background-repeat:no-repeat;background-attachment:local,local,scroll,scroll}
.scroll:focus-visible{outline:2px solid var(--s0);outline-offset:2px}
table{border-collapse:collapse;width:100%;font-size:13px;line-height:1.4}
caption{text-align:left;font-size:16px;font-weight:600;padding-bottom:6px}
th,td{text-align:left;font-weight:400;padding:5px 9px 5px 0;vertical-align:top;
border-bottom:1px solid var(--grid);overflow-wrap:anywhere}
tr>:last-child{padding-right:0}
thead th,thead td{color:var(--muted);border-bottom-color:var(--axis);
white-space:nowrap}
.number{text-align:right;white-space:nowrap}
tbody th{white-space:nowrap}

tr.bad .number{white-space:normal;min-width:16ch}
td.words{min-width:14ch}
figure+.scroll{margin-top:20px}
.pair figure+.scroll{margin-top:0}

tr.headline>*{font-weight:650}
tr.sum>*{font-weight:600}
tr.bad>*{color:var(--s6);font-weight:600}
.swatch{width:12px;height:12px;margin-right:8px;vertical-align:-1px;
print-color-adjust:exact;-webkit-print-color-adjust:exact}
pre{margin:8px 0 0;padding:12px 14px;background:var(--shade);border-radius:6px;
font:13px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",
monospace;white-space:pre-wrap;overflow-wrap:anywhere}
details .columns caption{display:none}
summary{font-size:18px;font-weight:600;cursor:pointer}
details .columns{margin-top:8px}
@media (min-width:560px){
main{padding:36px 24px 64px}
h1{font-size:32px}
.tiles{grid-template-columns:repeat(3,minmax(0,1fr))}
table{font-size:14px}th,td{padding-right:16px}
figure .mid{display:block}figure .slim{display:none}
}
@media (min-width:1040px){
.tiles{grid-template-columns:repeat(auto-fit,minmax(150px,1fr))}
.pair{grid-template-columns:repeat(2,minmax(0,1fr))}
.three{grid-template-columns:repeat(3,minmax(0,1fr))}
figure .plot{max-width:none}
figure.hero .wide{display:block}figure.hero .mid{display:none}
.columns table,.columns caption{display:block}
.columns tbody{display:block;columns:2;column-gap:40px}
.columns tr{display:grid;grid-template-columns:18ch 1fr;break-inside:avoid}
}
@page{size:A4;margin:13mm}
@media print{
body{font-size:10pt;background:#fff;color:#000}
main{max-width:none;padding:0}
h1{font-size:18pt}h2,caption,summary{font-size:11pt}
.lead,.when,figcaption p,small{font-size:8.5pt}
.tiles{grid-template-columns:repeat(6,minmax(0,1fr));margin-top:10pt}
.tiles dt{font-size:8pt}.tiles dd{font-size:14pt}.tiles dd.note{font-size:7.5pt}
section{margin-top:13pt}
.pair{grid-template-columns:repeat(2,minmax(0,1fr));gap:14pt 18pt}
.three{grid-template-columns:repeat(3,minmax(0,1fr))}
figure .plot{max-width:none}
figure .mid,figure .wide,figure.hero .wide{display:none}
figure .slim{display:block}
figure.hero .paper-size{display:block}
figure.hero .mid,figure.hero .slim{display:none}
table{font-size:8pt;line-height:1.25}
th,td{padding:1.5pt 8pt 1.5pt 0;min-width:0}
figcaption{margin-bottom:4pt}.tiles div{padding:6pt 6pt 7pt 0}
figure+.scroll{margin-top:8pt}.pair figure+.scroll{margin-top:4pt}
.scroll{overflow:visible}
.scroll{background:none}
.timing,.scroll,tr,pre,.findings,.tiles{break-inside:avoid}
h2,summary,caption{break-after:avoid}
pre{font-size:8pt;border:1px solid var(--grid)}
details>summary{list-style:none}
tr.bad .number{min-width:0}tbody th{white-space:normal}
.options .scroll{break-inside:auto}
.columns table,.columns caption{display:block}
.columns tbody{display:block;columns:2;column-gap:18pt}
.columns tr{display:grid;grid-template-columns:18ch 1fr}
}
)css";
}

}  // namespace qgemm
