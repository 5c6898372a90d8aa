// A recipe as TOML, and where two recipes differ.
#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "base/toml_text.h"
#include "train/recipe/fields.h"

namespace convoy::train {
namespace {

std::string toml(bool value) { return value ? "true" : "false"; }
std::string toml(std::int64_t value) { return std::to_string(value); }
std::string toml(const std::string& value) { return toml_string(value); }
std::string toml(double value) { return toml_number(value); }
template <class T>
std::string toml(const std::vector<T>& values) {
  std::string text = "[";
  for (const T& value : values) text += (text.size() > 1 ? ", " : "") + toml(value);
  return text + "]";
}

class Printer : public Fields {
 public:
  explicit Printer(bool comments) : comments_(comments) {}
  std::string text() const { return out_.str(); }

  bool begin(const std::string& key, const std::string& doc) override {
    path_.push_back(key);
    header("[", "]", doc);
    return true;
  }
  void end() override { path_.pop_back(); }
  void field(const char* key, bool& v, const char* doc) override { line(key, toml(v), doc); }
  void field(const char* key, std::int64_t& v, const char* doc) override {
    line(key, toml(v), doc);
  }
  void field(const char* key, double& v, const char* doc) override { line(key, toml(v), doc); }
  void field(const char* key, std::string& v, const char* doc, const Choices&, Path) override {
    line(key, toml(v), doc);
  }
  void field(const char* key, std::vector<double>& v, const char* doc) override {
    line(key, toml(v), doc);
  }
  void field(const char* key, std::vector<std::string>& v, const char* doc, Path) override {
    line(key, toml(v), doc);
  }
  void list(const char* key, List& list, const char* doc) override {
    for (std::size_t i = 0; i < list.size(); ++i) {
      path_.push_back(key);
      header("[[", "]]", doc);
      list.describe_one(i, *this);
      path_.pop_back();
    }
    if (list.size() == 0 && comments_) {
      out_ << "# [[" << name() << "." << key << "]]  # " << doc << '\n';
    }
  }
  bool word(const char* key, const char* word, bool& is, const char* doc) override {
    if (is) line(key, toml(std::string(word)), doc);
    return is;
  }
  void options(const std::string& key, Options& options, const std::string&,
               const std::string& doc) override {
    if (options.specification().empty()) return;
    begin(key, doc);
    lines(options);
    end();
  }
  void own_keys(OptimizerRecipe& optimizer) override { lines(optimizer.options); }
  void own_keys(ScheduleRecipe& schedule) override { lines(schedule.options); }
  bool optional_table(const char*, bool& present) override { return present; }

 private:
  void lines(const Options& options) {
    for (const Option& option : options.specification()) {
      std::visit([&](const auto& value) { line(option.key, toml(value), option.doc); },
                 options.value(option.key));
    }
  }
  std::string name() const {
    std::string text;
    for (const std::string& part : path_) text += (text.empty() ? "" : ".") + part;
    return text;
  }
  void header(const char* open, const char* close, const std::string& doc) {
    out_ << '\n' << open << name() << close;
    if (comments_ && !doc.empty()) out_ << "  # " << doc;
    out_ << '\n';
  }
  void line(const std::string& key, const std::string& value, const std::string& doc) {
    const std::string text = key + " = " + value;
    out_ << text;
    constexpr std::size_t kCommentColumn = 32;
    if (comments_ && !doc.empty()) {
      out_ << std::string(text.size() < kCommentColumn ? kCommentColumn - text.size() : 2, ' ')
           << "# " << doc;
    }
    out_ << '\n';
  }

  bool comments_;
  std::vector<std::string> path_;
  std::ostringstream out_;
};

// Of "hybrid.scheme": "hybrid"; of keys of the top level: "".
std::string table_of(const std::string& key) {
  const std::size_t dot = key.rfind('.');
  return dot == std::string::npos ? "" : key.substr(0, dot);
}

std::set<std::string> tables_of(const std::string& printed) {
  std::set<std::string> tables;
  for (const auto& [key, value] : recipe_keys(printed)) tables.insert(table_of(key));
  return tables;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> recipe_keys(const std::string& printed) {
  std::istringstream text(printed);
  std::vector<std::pair<std::string, std::string>> keys;
  std::string line, table;
  std::map<std::string, int> tables;  // so many of each list so far
  while (std::getline(text, line)) {
    if (line.empty()) continue;
    if (line.front() != '[') {
      const std::size_t equals = line.find(" = ");
      keys.emplace_back(table + line.substr(0, equals), line.substr(equals + 3));
    } else if (line.rfind("[[", 0) == 0) {
      const std::string list = line.substr(2, line.size() - 4);
      table = list + "[" + std::to_string(tables[list]++) + "].";
    } else {
      table = line.substr(1, line.size() - 2) + ".";
    }
  }
  return keys;
}

std::string print_recipe(const Recipe& recipe, bool comments) {
  Printer printer(comments);
  Recipe copy = recipe;  // describe() goes over keys by reference, for reading
  describe(copy, printer);
  return printer.text();
}

std::vector<RecipeChange> recipe_changes(const std::string& mine, const std::string& theirs) {
  const auto a = recipe_keys(mine), b = recipe_keys(theirs);
  const auto find = [](const auto& all, const std::string& key) -> std::string {
    for (const auto& [name, value] : all) {
      if (name == key) return value;
    }
    return "";
  };
  std::vector<RecipeChange> changes;
  for (const auto& [key, value] : a) {
    const std::string other = find(b, key);
    if (other != value) changes.push_back({key, value, other});
  }
  for (const auto& [key, value] : b) {
    if (find(a, key).empty()) changes.push_back({key, "", value});
  }
  return changes;
}

bool is_of_an_earlier_version(const RecipeChange& change) {
  const std::string& key = change.key;
  if (!change.mine.empty()) {
    static const std::map<std::string, std::string> have_come{{"tf32", "false"}};
    const auto found = have_come.find(key);
    return change.theirs.empty() && found != have_come.end() && found->second == change.mine;
  }
  const auto is_in = [&key](const std::string& table, const std::vector<std::string>& common) {
    if (!key.starts_with(table) || key.find('[') != std::string::npos) return false;
    return std::find(common.begin(), common.end(), key.substr(table.size())) == common.end();
  };
  return is_in("optimizer.", OptimizerKind::common_keys()) ||
         is_in("schedule.", ScheduleKind::common_keys());
}

std::string recipe_difference(const std::string& mine, const std::string& theirs,
                              const std::string& other) {
  const std::set<std::string> own = tables_of(mine), others = tables_of(theirs);
  std::vector<std::string> said, tables;
  const auto once = [&tables](const std::string& text) {
    if (std::find(tables.begin(), tables.end(), text) == tables.end()) tables.push_back(text);
  };
  for (const auto& [key, value, value_there] : recipe_changes(mine, theirs)) {
    const std::string table = table_of(key);
    if (!table.empty() && !others.contains(table)) {
      once("there is a table [" + table + "], " + other + " there is none");
    } else if (!table.empty() && !own.contains(table)) {
      once("there is no table [" + table + "], " + other + " there is one");
    } else {
      said.push_back(key + " is " + (value.empty() ? "missing" : value) + ", " + other + " it is " +
                     (value_there.empty() ? "missing" : value_there));
    }
  }
  // What is the same in all keys of a table comes last: who looks for a key finds it.
  said.insert(said.end(), tables.begin(), tables.end());
  std::string text;
  for (const std::string& one : said) text += (text.empty() ? "" : "; ") + one;
  return text;
}

}  // namespace convoy::train
