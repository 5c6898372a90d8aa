#include "train/report/style.h"

#include <array>
#include <cstddef>

#include "train/report/plot.h"

namespace convoy::train {
namespace {

// Of a color in light and in the dark. Neighbors differ for those who don't tell red from green.
struct Shade {
  const char* light;
  const char* dark;
};
constexpr std::array<Shade, 8> kSeries{{{"#1f6fd6", "#6db1ff"},
                                        {"#d1600a", "#ffa257"},
                                        {"#11806a", "#4fd1b3"},
                                        {"#a1359e", "#e58be2"},
                                        {"#8a6d00", "#e3c44d"},
                                        {"#c22f4e", "#ff8099"},
                                        {"#4a5bb8", "#a5b2ff"},
                                        {"#5c6670", "#b6c0ca"}}};
// In the order of kPhaseNames.
constexpr std::array<Shade, 5> kPhaseShades{{{"#e0b400", "#d9b53a"},
                                             {"#3b82d6", "#4d8fe0"},
                                             {"#27968a", "#2fa598"},
                                             {"#d9534f", "#e0625e"},
                                             {"#8d6cc0", "#9b7ccb"}}};

std::string line(Color color, const std::string& value) {
  return color.variable() + ":" + value + ";";
}

std::string colors(bool dark) {
  const auto pick = [dark](const Shade& shade) {
    return std::string(dark ? shade.dark : shade.light);
  };
  std::string text = dark ? "--paper:#14171c;--card:#1d2128;--ink:#e6e9ee;--soft:#9ba5b1;"
                            "--edge:#333a44;--good:#4fd1b3;--bad:#ffa257;color-scheme:dark;"
                          : "--paper:#fff;--card:#f5f7f9;--ink:#1c2126;--soft:#5d6875;"
                            "--edge:#d9dfe5;--good:#11806a;--bad:#b04f00;color-scheme:light;";
  text += line(Color::axis(), dark ? "#b9c2cc" : "#454f5a");
  text += line(Color::grid(), dark ? "#343b45" : "#dde3e8");
  text += line(Color::mark(), dark ? "#ff8099" : "#c22f4e");
  text += line(Color::ideal(), dark ? "#7d8894" : "#8a95a0");
  text += line(Color::written(), dark ? "#e3c44d" : "#8a6d00");
  for (std::size_t i = 0; i < kSeries.size(); ++i) {
    text += line(Color::series(i), pick(kSeries[i]));
    text += line(Color::pale(i), pick(kSeries[i]) + (dark ? "66" : "55"));
  }
  for (std::size_t i = 0; i < kPhaseShades.size(); ++i)
    text += line(Color::phase(i), pick(kPhaseShades[i]));
  return text;
}

constexpr const char* kRules = R"(*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
main{max-width:1180px;margin:0 auto;padding:0 16px 48px}
h1{font-size:1.5rem;margin:20px 0 4px;overflow-wrap:anywhere}
h2{font-size:1.2rem;margin:36px 0 8px;overflow-wrap:anywhere}
h3{font-size:1rem;margin:22px 0 6px;overflow-wrap:anywhere}
p{margin:6px 0}
.soft,.none{color:var(--soft)}
.none{padding:24px 0;text-align:center}
.state{font-weight:600}.good{color:var(--good)}.bad{color:var(--bad)}
input[name=over]{position:absolute;opacity:0;pointer-events:none}
nav{position:sticky;top:0;z-index:1;display:flex;gap:6px;align-items:center;justify-content:center;
padding:6px;background:var(--paper);border-bottom:1px solid var(--edge);font-size:.9rem}
nav span{color:var(--soft)}
nav label{padding:2px 12px;border:1px solid var(--edge);border-radius:14px;cursor:pointer}
#over-steps:checked~nav label[for=over-steps],#over-epochs:checked~nav label[for=over-epochs],
#over-time:checked~nav label[for=over-time]{background:var(--ink);color:var(--paper)}
#over-steps:focus-visible~nav label[for=over-steps],#over-epochs:focus-visible~nav label[for=over-epochs],
#over-time:focus-visible~nav label[for=over-time]{outline:2px solid var(--c16)}
.over{display:none}
#over-steps:checked~main .over.steps,#over-epochs:checked~main .over.epochs,
#over-time:checked~main .over.time{display:block}
.row{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,420px),1fr));gap:14px;margin:10px 0}
figure{margin:0;padding:10px 8px 4px;background:var(--card);border-radius:8px;min-width:0;break-inside:avoid}
figcaption{font-size:.86rem;padding:0 6px 4px;overflow-wrap:anywhere}
.key{white-space:nowrap;margin-left:10px;color:var(--soft)}
.key i{display:inline-block;width:12px;height:4px;border-radius:2px;margin:0 5px 3px 0;vertical-align:middle}
.list{line-height:1.9}.list .key{margin:0 14px 0 0;color:var(--ink);white-space:normal}
svg{display:block;width:100%;height:auto;font:12px system-ui,sans-serif}
.g{fill:none;stroke:currentColor;stroke-linejoin:round;stroke-linecap:round}
dl{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,165px),1fr));gap:8px;margin:10px 0}
dl div{background:var(--card);border-radius:8px;padding:7px 10px;min-width:0}
dt{font-size:.8rem;color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}
.wide{overflow-x:auto;margin:8px 0;background:
linear-gradient(to right,var(--paper),transparent) 0 0/32px 100% no-repeat local,
linear-gradient(to left,var(--paper),transparent) 100% 0/32px 100% no-repeat local,
linear-gradient(to right,var(--edge),transparent) 0 0/10px 100% no-repeat scroll,
linear-gradient(to left,var(--edge),transparent) 100% 0/10px 100% no-repeat scroll}
table{border-collapse:collapse;font-size:.88rem;font-variant-numeric:tabular-nums}
th,td{padding:4px 12px 4px 0;border-bottom:1px solid var(--edge);text-align:right;white-space:nowrap}
th:first-child{text-align:left}thead th{color:var(--soft);font-weight:500}tbody th{font-weight:500}
tr:has(.slowest) th,tr:has(.slowest) td{color:var(--c3)}
details{margin:8px 0;border-top:1px solid var(--edge);padding-top:6px}
summary{cursor:pointer;font-weight:600}
pre{overflow-x:auto;background:var(--card);border-radius:8px;padding:10px;font:12.5px/1.45 ui-monospace,monospace}
pre.line{white-space:pre-wrap;overflow-wrap:anywhere}
ul{padding-left:20px;margin:6px 0}
)";

constexpr const char* kPrint =
    "@media "
    "print{nav,input{display:none!important}main{max-width:none;padding:0}body{font-size:11px}"
    "details::details-content{content-visibility:visible;height:auto}"
    ".row{grid-template-columns:1fr 1fr}.wide,pre{overflow:visible}pre{white-space:pre-wrap}"
    "figure,dl div{border:1px solid var(--edge);background:none}h2{break-after:avoid}}\n";

}  // namespace

std::string style_sheet() {
  return ":root{" + colors(false) + "}\n@media (prefers-color-scheme:dark){:root{" + colors(true) +
         "}}\n@media print{:root{" + colors(false) + "}}\n" + kRules + kPrint;
}

}  // namespace convoy::train
