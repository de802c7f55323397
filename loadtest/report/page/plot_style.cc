// SPDX-License-Identifier: Apache-2.0
//
// --s0 to --s6 are the styles of plot.h, --f0 to --f5 the parts of a stacked
// bar and --t0 to --t5 the words upon them.

#include "loadtest/report/page/plot_style.h"

namespace qgemm {

absl::string_view PlotVariablesCss() {
  return R"css(
:root{--paper:#fff;--ink:#14181f;--muted:#5a6472;--grid:#e6e9ed;--axis:#8c96a3;
--shade:#f1f3f6;--edge:#c3cad3;--s0:#0065b3;--s1:#c24e00;--s2:#007f5c;
--s3:#9c3d87;--s4:#766200;
--s5:#56606d;--s6:#c5162b;--f0:#f2b134;--f1:#8fcbf0;--f2:#0f5ca3;--f3:#4b9ad6;
--f4:#8f99a6;--f5:#d7dce2;--t0:#14181f;--t1:#14181f;--t2:#fff;--t3:#14181f;
--t4:#14181f;--t5:#14181f}
@media (prefers-color-scheme:dark){
:root{--paper:#12161c;--ink:#e9edf2;--muted:#a0abb9;--grid:#272e38;
--axis:#6b7685;
--shade:#1b212a;--edge:#46505d;--s0:#5db2ff;--s1:#ff9a4d;--s2:#38d3a2;
--s3:#e89ad8;--s4:#d9c94c;
--s5:#aab5c3;--s6:#ff6b78;--f2:#2f7fcb;--f5:#c4cad2}}
@media print{
:root{--paper:#fff;--ink:#000;--muted:#333b45;--grid:#d9dde2;--axis:#4a5260;
--shade:#f1f3f6;--edge:#c3cad3;--s0:#0065b3;--s1:#c24e00;--s2:#007f5c;
--s3:#9c3d87;--s4:#766200;
--s5:#56606d;--s6:#c5162b;--f2:#0f5ca3;--f5:#d7dce2}}
)css";
}

absl::string_view PlotCss() {
  return R"css(
.plot{display:block;width:100%;height:auto;font:12px system-ui,-apple-system,
"Segoe UI",Roboto,"Noto Sans","DejaVu Sans",sans-serif;
font-variant-numeric:tabular-nums;print-color-adjust:exact;
-webkit-print-color-adjust:exact}
.plot text{fill:var(--muted)}
.plot .ink{fill:var(--ink)}
.plot .halo{paint-order:stroke;stroke:var(--paper);stroke-width:4px;
stroke-linejoin:round}
.plot .title{fill:var(--ink);font-size:18px;font-weight:600}
.plot .subtitle{font-size:13px}
.plot .paper{fill:var(--paper);stroke:var(--grid)}
.plot .shade{fill:var(--shade)}
.plot .grid{stroke:var(--grid);fill:none}
.plot .axis,.plot .tick{stroke:var(--axis);fill:none}
.plot .rule{stroke:var(--s6);stroke-width:1.25;stroke-dasharray:2 3;fill:none}
.plot .line{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}
.plot .mark{stroke:var(--paper);stroke-width:1.25}
.plot .band{opacity:.22}
.s0{stroke:var(--s0)}.s1{stroke:var(--s1);stroke-dasharray:7 5}
.s2{stroke:var(--s2);stroke-dasharray:1.5 4.5}
.s3{stroke:var(--s3);stroke-dasharray:9 4 1.5 4}
.s4{stroke:var(--s4);stroke-dasharray:4 4}
.plot .line.s5{stroke:var(--s5);stroke-width:1.1}
.plot .mark.s6{stroke:var(--s6);stroke-width:2;fill:none}
.m0,.b0{fill:var(--s0)}.m1,.b1{fill:var(--s1)}.m2,.b2{fill:var(--s2)}
.m3,.b3{fill:var(--s3)}.m4,.b4{fill:var(--s4)}.m5,.b5{fill:var(--s5)}
.f0{fill:var(--f0)}.f1{fill:var(--f1)}.f2{fill:var(--f2)}
.f3{fill:var(--f3)}.f4{fill:var(--f4)}.f5{fill:var(--f5)}
.plot .t0{fill:var(--t0)}.plot .t1{fill:var(--t1)}.plot .t2{fill:var(--t2)}
.plot .t3{fill:var(--t3)}.plot .t4{fill:var(--t4)}.plot .t5{fill:var(--t5)}
.plot .part{stroke:var(--paper);stroke-width:2}
)css";
}

}  // namespace qgemm
