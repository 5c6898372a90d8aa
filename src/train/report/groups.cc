// Iterations of a batch optimization, and who had which portions when.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "train/report/html.h"
#include "train/report/sections.h"

namespace convoy::train {
namespace {

constexpr std::size_t kMostSpans = 600;     // in a picture
constexpr std::size_t kMostIterations = 3;  // the same
constexpr std::size_t kMostGroupRows = 512;
constexpr double kGap = 0.0015;  // between neighbors, of a picture's width

using End = GroupSpan::End;
using Spans = std::vector<GroupSpan>;

// Replicas as they stand in picture and table. One that came back, after it was taken for dead or
// with another part of the run, is the one that it was, by its name; those of one name that are
// there at once are several.
class ReplicaRows {
 public:
  explicit ReplicaRows(const RunRecord& run) {
    struct Stay {
      double began_s = 0, ended_s = 0;
    };
    std::map<std::string, std::map<Key, Stay>> stays;  // by name
    for (const GroupSpan& span : run.groups) {
      const Key key{span.part, span.replica};
      const auto name = run.replicas.find(key);
      const bool named = name != run.replicas.end() && !name->second.empty();
      const auto [place, is_new] =
          stays[named ? name->second : "replica " + count_text(span.replica)].try_emplace(key);
      Stay& stay = place->second;
      stay.began_s = is_new ? span.began_s : std::min(stay.began_s, span.began_s);
      stay.ended_s = is_new ? span.ended_s : std::max(stay.ended_s, span.ended_s);
    }
    for (const auto& [name, all] : stays) {
      std::vector<std::pair<Key, Stay>> sorted(all.begin(), all.end());
      std::sort(sorted.begin(), sorted.end(),
                [](const auto& a, const auto& b) { return a.second.began_s < b.second.began_s; });
      const std::size_t first = labels_.size();
      std::vector<double> ends;  // of its rows
      for (const auto& [key, stay] : sorted) {
        std::size_t row = 0;
        while (row < ends.size() && ends[row] > stay.began_s) ++row;
        if (row == ends.size()) {
          ends.push_back(0);
          labels_.push_back(escaped(name) + (row == 0 ? "" : " (" + std::to_string(row + 1) + ")"));
        }
        ends[row] = stay.ended_s;
        rows_[key] = first + row;
      }
    }
  }

  std::size_t of(const GroupSpan& span) const { return rows_.at({span.part, span.replica}); }
  const std::vector<std::string>& labels() const { return labels_; }  // from below

 private:
  using Key = std::pair<std::size_t, double>;
  std::map<Key, std::size_t> rows_;
  std::vector<std::string> labels_;
};

// What an iteration has cost its replicas, from the end of the one before.
struct IdleShare {
  double began_s = 0, ended_s = 0;
  double busy_s = 0;               // of all
  std::set<std::size_t> replicas;  // rows
  double time_s() const { return ended_s - began_s; }
  double idle() const {
    const double all = time_s() * static_cast<double>(replicas.size());
    return all > 0 ? std::clamp(1 - busy_s / all, 0.0, 1.0) : 0;
  }
};
using IdleShares = std::map<std::int64_t, IdleShare>;  // by iteration

IdleShares shares_of(const RunRecord& run, const ReplicaRows& replicas) {
  IdleShares shares;
  struct Presence {
    std::int64_t first = 0, last = 0;
    std::size_t row = 0;
  };
  std::map<std::pair<std::size_t, double>, Presence> present;
  for (const GroupSpan& span : run.groups) {
    const auto [one, is_new_one] = present.try_emplace({span.part, span.replica});
    Presence& presence = one->second;
    if (is_new_one) presence = {span.iteration, span.iteration, replicas.of(span)};
    presence.first = std::min(presence.first, span.iteration);
    presence.last = std::max(presence.last, span.iteration);
    const auto [place, is_new] = shares.try_emplace(span.iteration);
    IdleShare& share = place->second;
    share.began_s = is_new ? span.began_s : std::min(share.began_s, span.began_s);
    share.ended_s = is_new ? span.ended_s : std::max(share.ended_s, span.ended_s);
    share.busy_s += span.ended_s - span.began_s;
    share.replicas.insert(replicas.of(span));
  }
  // Who had nothing in an iteration, and something before and behind it, was there all the same.
  for (const auto& [key, presence] : present) {
    for (auto at = shares.lower_bound(presence.first);
         at != shares.end() && at->first <= presence.last; ++at)
      at->second.replicas.insert(presence.row);
  }
  const IdleShare* before = nullptr;
  for (auto& [iteration, share] : shares) {
    if (before != nullptr && before->ended_s < share.began_s) share.began_s = before->ended_s;
    before = &share;
  }
  return shares;
}

// The last iterations that are few enough to be told apart.
Spans newest_spans(const RunRecord& run) {
  Spans some;
  std::set<std::int64_t> iterations;
  for (auto at = run.groups.rbegin(); at != run.groups.rend(); ++at) {
    if (!iterations.contains(at->iteration) && iterations.size() == kMostIterations) break;
    if (some.size() == kMostSpans) {  // the oldest of them isn't all there
      if (iterations.size() == 1) break;
      std::erase_if(some,
                    [&](const GroupSpan& span) { return span.iteration == *iterations.begin(); });
      break;
    }
    iterations.insert(at->iteration);
    some.push_back(*at);
  }
  return some;
}

struct SpanKind {
  Color color;
  const char* text;
  bool (*is)(const GroupSpan& span);
};
const SpanKind kSpanKinds[] = {
    {Color::series(0), "done first",
     [](const GroupSpan& span) { return !span.copy && span.end == End::counted; }},
    {Color::series(1), "a backup that was done first",
     [](const GroupSpan& span) { return span.copy && span.end == End::counted; }},
    {Color::pale(1), "a backup that was not needed",
     [](const GroupSpan& span) { return span.copy && span.end == End::unused; }},
    {Color::pale(0), "not needed, its backup was first",
     [](const GroupSpan& span) { return !span.copy && span.end == End::unused; }},
    {Color::mark(), "lost", [](const GroupSpan& span) { return span.end == End::lost; }}};

std::string iterations_in(const Spans& spans) {
  std::set<std::int64_t> shown;
  for (const GroupSpan& span : spans) shown.insert(span.iteration);
  const std::string first = count_text(static_cast<double>(*shown.begin()));
  return shown.size() == 1
             ? "iteration " + first
             : "iterations " + first + " to " + count_text(static_cast<double>(*shown.rbegin()));
}

void add_timeline(Page& page, const RunRecord& run, const ReplicaRows& replicas) {
  const Spans spans = newest_spans(run);
  double least = spans.front().began_s, most = spans.front().ended_s;
  std::map<std::int64_t, double> ends;  // of iterations
  for (const GroupSpan& span : spans) {
    least = std::min(least, span.began_s);
    most = std::max(most, span.ended_s);
    double& end = ends[span.iteration];
    end = std::max(end, span.ended_s);
  }
  const double gap = kGap * (most - least);
  Plot plot{.description = "which replica had a group of portions when",
            .x_label = "time of training, s",
            .x_least = least,
            .x_most = most,
            .y_least = 0.4,
            .y_most = static_cast<double>(replicas.labels().size()) + 0.6,
            .whole_y = replicas.labels().size() <= 16,
            .marks = {},
            .series = {}};
  std::vector<Legend> legend;
  for (const SpanKind& kind : kSpanKinds) {
    Series series{.style = Series::Style::spans, .color = kind.color, .x = {}, .y = {}, .y2 = {}};
    for (const GroupSpan& span : spans) {
      if (!kind.is(span)) continue;
      series.x.push_back(span.began_s);
      series.y2.push_back(std::max(span.ended_s - gap, span.began_s + gap / 2));
      series.y.push_back(1 + static_cast<double>(replicas.of(span)));
    }
    if (series.x.empty()) continue;
    legend.push_back({kind.color, kind.text});
    plot.series.push_back(std::move(series));
  }
  for (const auto& [iteration, end] : ends) {
    if (end < most) plot.marks.push_back({end, Mark::Where::all, Color::axis()});
  }
  page.picture("Groups of portions by replica, " + iterations_in(spans), legend, std::move(plot));
}

void add_idle(Page& page, const IdleShares& shares) {
  Plot plot{.description = "part of the time in which replicas had no portions, by iteration",
            .x_label = "iteration",
            .x_least = 0,
            .x_most = static_cast<double>(shares.rbegin()->first),
            .y_least = 0,
            .y_most = 100,
            .marks = {},
            .series = {}};
  Series series{.style = Series::Style::line_and_points,
                .color = Color::series(0),
                .x = {},
                .y = {},
                .y2 = {}};
  for (const auto& [iteration, share] : shares) {
    series.x.push_back(static_cast<double>(iteration));
    series.y.push_back(100 * share.idle());
  }
  plot.series.push_back(std::move(series));
  page.picture("Idle: time without portions, mean of the replicas, %", {}, std::move(plot));
}

std::string percent_text(double part) {
  return number_text(std::round(1000 * std::clamp(part, 0.0, 1.0)) / 10) + "%";
}

void add_replica_table(Page& page, const RunRecord& run, const ReplicaRows& replicas,
                       const IdleShares& shares) {
  struct Sum {
    double groups = 0, done = 0, copies = 0, unused = 0, lost = 0, busy_s = 0, time_s = 0;
  };
  std::vector<Sum> sums(replicas.labels().size());
  for (const GroupSpan& span : run.groups) {
    Sum& sum = sums[replicas.of(span)];
    ++sum.groups;
    if (span.copy) sum.copies += span.portions;
    (span.end == End::counted  ? sum.done
     : span.end == End::unused ? sum.unused
                               : sum.lost) += span.portions;
    sum.busy_s += span.ended_s - span.began_s;
  }
  for (const auto& [iteration, share] : shares) {
    for (const std::size_t row : share.replicas) sums[row].time_s += share.time_s();
  }
  std::vector<std::vector<std::string>> rows;
  for (std::size_t row = 0; row < sums.size() && row < kMostGroupRows; ++row) {
    const Sum& sum = sums[row];
    rows.push_back({std::to_string(row + 1), replicas.labels()[row], count_text(sum.groups),
                    count_text(sum.done), count_text(sum.copies), count_text(sum.unused),
                    count_text(sum.lost), time_text(sum.busy_s),
                    percent_text(sum.time_s > 0 ? 1 - sum.busy_s / sum.time_s : 0)});
  }
  page.add(table({"row", "replica", "groups", "portions done first", "had as backups", "not needed",
                  "lost", "busy", "idle"},
                 rows));
}

void add_iteration_table(Page& page, const RunRecord& run) {
  const std::size_t every = run.iterations.size() / kMostGroupRows + 1;
  std::vector<std::vector<std::string>> rows;
  for (std::size_t i = 0; i < run.iterations.size(); ++i) {
    if (i % every != 0 && i + 1 != run.iterations.size()) continue;
    const IterationRecord& each = run.iterations[i];
    rows.push_back({count_text(static_cast<double>(each.step)) +
                        (each.restarted ? ", along the gradient" : ""),
                    number_text(each.loss), number_text(each.gradient_norm),
                    number_text(each.step_length), count_text(each.evaluations),
                    count_text(each.portions), count_text(each.again), count_text(each.copies),
                    count_text(each.unused), time_text(each.elapsed_s)});
  }
  page.add("<details><summary>Iterations (" + std::to_string(run.iterations.size()) +
           (every > 1 ? ", every " + std::to_string(every) + "th is shown" : "") + ")</summary>\n" +
           table({"iteration", "loss", "gradient norm", "step", "evaluations", "portions",
                  "handed out again", "copied", "done twice", "at"},
                 rows) +
           "</details>\n");
}

}  // namespace

void add_groups(Page& page, const RunRecord& run) {
  if (run.groups.empty() && run.iterations.empty()) return;
  page.add("<h3>Who had which portions when</h3>\n");
  if (run.groups.empty()) {
    page.add("<p class=\"none\">not recorded</p>\n");
  } else {
    const ReplicaRows replicas(run);
    const IdleShares shares = shares_of(run, replicas);
    page.begin_row();
    add_timeline(page, run, replicas);
    if (shares.size() > 1) add_idle(page, shares);
    page.end_row();
    add_replica_table(page, run, replicas, shares);
  }
  if (!run.iterations.empty()) add_iteration_table(page, run);
}

}  // namespace convoy::train
