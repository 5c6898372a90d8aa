#include "comm/collectives/allreduce/selection.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "comm/collectives/allreduce/table.h"
#include "convoy/base/error.h"
#include "convoy/base/names.h"
#include "convoy/base/units.h"
#include "convoy/comm/transport.h"

namespace convoy::comm {

namespace {

constexpr std::size_t kLeastSegment = 1 << 10;
constexpr int kMostInFlight = 64;
constexpr int kMostColors = 4096;

std::vector<std::string> split_words(std::string_view text) {
  std::vector<std::string> words;
  constexpr std::string_view kSpaces = " \t\r\n";
  for (std::size_t at = text.find_first_not_of(kSpaces); at != text.npos;
       at = text.find_first_not_of(kSpaces, at)) {
    const std::size_t end = std::min(text.find_first_of(kSpaces, at), text.size());
    words.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

std::string join(const std::vector<std::string>& words, const char* between) {
  std::string s;
  for (const std::string& word : words) s += (s.empty() ? "" : between) + word;
  return s;
}

// Reads one rule; every complaint says which.
class RuleParser {
 public:
  RuleParser(std::string_view rule, std::string context)
      : words_(split_words(rule)), context_(std::move(context) + "'" + join(words_, " ") + "': ") {
    for (const AllreduceRow& row : allreduce_table()) names_.emplace_back(row.name);
  }

  bool empty() const { return words_.empty(); }

  AllreduceRule rule() {
    AllreduceRule rule;
    for (; at_ < words_.size(); ++at_) {
      const std::string& word = words_[at_];
      const auto [name, value] = key_value(word);
      if (value && name == "ranks")
        rule.ranks = numbers(*value, word);
      else if (value && name == "nodes")
        rule.nodes = numbers(*value, word);
      else if (!value && word.find("..") != word.npos)
        rule.bytes = sizes(word);
      else
        break;
    }
    rule.choice = choice();
    return rule;
  }

  AllreduceChoice choice() {
    if (at_ == words_.size()) fail("there is no algorithm; " + algorithms());
    const std::string& name = words_[at_++];
    const AllreduceRow* const row = find_row(name);
    if (row == nullptr) {
      const std::string near = nearest_name(name, names_);
      fail("there is no algorithm '" + name + "'" +
           (near.empty() ? "; " + algorithms() : "; did you mean '" + near + "'?"));
    }
    AllreduceChoice choice;
    choice.algorithm = row->algorithm;
    for (; at_ < words_.size(); ++at_) parameter(words_[at_], choice);
    return choice;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw UsageError(context_ + what); }

  std::string algorithms() const { return "algorithms are " + join(names_, ", "); }

  static std::pair<std::string, std::optional<std::string>> key_value(const std::string& word) {
    const std::size_t at = word.find('=');
    if (at == word.npos) return {word, std::nullopt};
    return {word.substr(0, at), word.substr(at + 1)};
  }

  void parameter(const std::string& word, AllreduceChoice& choice) const {
    const auto [name, value] = key_value(word);
    std::vector<std::string> known;
    const AllreduceRow& row = row_of(choice.algorithm);
    if (row.colored) known.push_back("k");
    if (row.pipelined) known.insert(known.end(), {"segment", "in-flight"});
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      fail("'" + word + "' is no parameter of " + name_of(choice.algorithm) +
           (known.empty() ? ", which has none" : "; it has " + join(known, ", ")));
    }
    if (!value) fail("'" + word + "' needs a value: " + word + "=...");
    if (name == "segment") {
      const std::size_t bytes = size(*value, word);
      if (bytes < kLeastSegment || bytes > Transport::kMaxMessage)
        fail("'" + word + "' is out of range: segments are 1 KiB to 1 GiB");
      choice.pipeline.segment_bytes = bytes;
    } else if (name == "in-flight") {
      choice.pipeline.in_flight = static_cast<std::size_t>(number(*value, word, 1, kMostInFlight));
    } else if (*value == "ranks") {
      choice.colors = AllreduceChoice::kColorPerRank;
    } else {
      choice.colors = number(*value, word, 1, kMostColors);
    }
  }

  int number(const std::string& text, const std::string& word, int least, int most) const {
    int value = 0;
    const char* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc() || rest != end || value < least || value > most) {
      fail("'" + word + "': '" + text + "' is not a number from " + std::to_string(least) + " to " +
           std::to_string(most));
    }
    return value;
  }

  std::size_t size(const std::string& text, const std::string& word) const {
    try {
      return parse_bytes(text);
    } catch (const UsageError&) {
      fail("'" + word + "': '" + text + "' is not a size such as 64KiB or 1MiB");
    }
  }

  template <class T, class F>
  Range<T> range(const std::string& text, const std::string& word, F&& read) const {
    Range<T> range;
    const std::size_t dots = text.find("..");
    if (dots == text.npos) {
      range.least = range.most = read(text);
      return range;
    }
    const std::string first = text.substr(0, dots), last = text.substr(dots + 2);
    if (!first.empty()) range.least = read(first);
    if (!last.empty()) range.most = read(last);
    if (range.least > range.most) fail("'" + word + "' is empty: it ends before it begins");
    return range;
  }

  Range<std::size_t> sizes(const std::string& word) const {
    return range<std::size_t>(word, word,
                              [&](const std::string& text) { return size(text, word); });
  }
  Range<int> numbers(const std::string& text, const std::string& word) const {
    return range<int>(text, word, [&](const std::string& t) {
      return number(t, word, 1, std::numeric_limits<int>::max());
    });
  }

  std::vector<std::string> words_;
  std::string context_;
  std::vector<std::string> names_;  // that a rule may say
  std::size_t at_ = 0;
};

std::vector<AllreduceRule> parse_rules(std::string_view text, const std::string& source) {
  std::vector<AllreduceRule> rules;
  while (true) {
    const std::size_t end = std::min(text.find(';'), text.size());
    RuleParser parser(text.substr(0, end),
                      source + ": rule " + std::to_string(rules.size() + 1) + " ");
    if (!parser.empty()) rules.push_back(parser.rule());  // "a; b;" has two
    if (end == text.size()) return rules;
    text.remove_prefix(end + 1);
  }
}

// The shortest way to write a size exactly.
std::string exact(std::size_t bytes) {
  for (const auto& [unit, name] :
       {std::pair{std::size_t{1} << 30, "GiB"}, std::pair{std::size_t{1} << 20, "MiB"},
        std::pair{std::size_t{1} << 10, "KiB"}}) {
    if (bytes >= unit && bytes % unit == 0) return std::to_string(bytes / unit) + name;
  }
  return std::to_string(bytes);
}

template <class T, class F>
std::string text_of(const Range<T>& range, F&& write) {
  if (range.least == range.most) return write(range.least);
  const Range<T> all;
  return (range.least == all.least ? "" : write(range.least)) + ".." +
         (range.most == all.most ? "" : write(range.most));
}

}  // namespace

std::string text_of(const AllreduceChoice& choice) {
  std::string s = name_of(choice.algorithm);
  if (choice.colors == AllreduceChoice::kColorPerRank) s += " k=ranks";
  if (choice.colors > 0) s += " k=" + std::to_string(choice.colors);
  const Pipeline usual;
  if (choice.pipeline.segment_bytes != usual.segment_bytes)
    s += " segment=" + exact(choice.pipeline.segment_bytes);
  if (choice.pipeline.in_flight != usual.in_flight)
    s += " in-flight=" + std::to_string(choice.pipeline.in_flight);
  return s;
}

std::string AllreduceRule::text() const {
  const auto number = [](int value) { return std::to_string(value); };
  std::string s;
  if (!bytes.everything()) {
    // One size has to be written as a range: sizes have no key.
    s = bytes.least == bytes.most ? exact(bytes.least) + ".." + exact(bytes.most)
                                  : text_of(bytes, exact);
    s += " ";
  }
  if (!ranks.everything()) s += "ranks=" + text_of(ranks, number) + " ";
  if (!nodes.everything()) s += "nodes=" + text_of(nodes, number) + " ";
  return s + text_of(choice);
}

AllreduceSelection::AllreduceSelection(std::string_view text, const std::string& source)
    : rules_(parse_rules(text, source)) {
  const auto built_in = parse_rules(kBuiltInSelection, "the built-in selection");
  rules_.insert(rules_.end(), built_in.begin(), built_in.end());
}

const AllreduceChoice& AllreduceSelection::choose(std::size_t bytes, int ranks, int nodes,
                                                  Abilities abilities) const {
  for (const AllreduceRule& rule : rules_) {
    if (rule.bytes.contains(bytes) && rule.ranks.contains(ranks) && rule.nodes.contains(nodes) &&
        abilities.allow(rule.choice.algorithm))
      return rule.choice;
  }
  return rules_.back().choice;  // fits everything
}

std::string AllreduceSelection::text() const {
  std::vector<std::string> rules;
  for (const AllreduceRule& rule : rules_) rules.push_back(rule.text());
  return join(rules, "; ");
}

AllreduceChoice parse_allreduce(std::string_view text, const std::string& source) {
  return RuleParser(text, source + ": ").choice();
}

std::string difference_of_selections(const std::vector<std::string>& texts,
                                     const std::string& source) {
  std::vector<AllreduceRule> first;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    if (rank > 0 && texts[rank] == texts[0]) continue;
    auto rules = parse_rules(texts[rank], "rank " + std::to_string(rank) + ", " + source);
    if (rank == 0) first = std::move(rules);
    if (rank == 0 || rules == first) continue;
    const std::size_t rule = static_cast<std::size_t>(
        std::mismatch(first.begin(), first.end(), rules.begin(), rules.end()).first -
        first.begin());
    const auto say = [&](const std::vector<AllreduceRule>& list) {
      return rule < list.size() ? "'" + list[rule].text() + "'" : std::string("missing");
    };
    return "ranks have different selections of allreduce (" + source + "): rule " +
           std::to_string(rule + 1) + " is " + say(first) + " on rank 0 and " + say(rules) +
           " on rank " + std::to_string(rank);
  }
  return "";
}

}  // namespace convoy::comm
