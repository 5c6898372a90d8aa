#include "train/report/parse_row.h"

#include <limits>
#include <nlohmann/json.hpp>

namespace convoy::train {
namespace {

using Json = nlohmann::json;
constexpr double kMostSteps = 1e15;

}  // namespace

// Called by the parser as it meets values.
class RowParser::Handler final : public nlohmann::json_sax<Json> {
 public:
  void begin() {
    row_.kind.clear();
    row_.numbers.clear();
    row_.strings.clear();
    row_.lists.clear();
    row_.names.clear();
    depth_ = 0;
    step_ = -1;
  }
  const MetricsRow* finish() {
    if (row_.kind.empty() || !(step_ >= 0 && step_ <= kMostSteps)) return nullptr;
    row_.step = static_cast<std::int64_t>(step_);
    return &row_;
  }

  bool null() override { return number(std::numeric_limits<double>::quiet_NaN()); }
  bool boolean(bool value) override { return number(value ? 1 : 0); }
  bool number_integer(number_integer_t value) override {
    return number(static_cast<double>(value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    return number(static_cast<double>(value));
  }
  bool number_float(number_float_t value, const string_t&) override { return number(value); }
  bool string(string_t& value) override {
    if (depth_ == 1) {
      if (key_ == "kind")
        row_.kind = value;
      else
        row_.strings.emplace_back(key_, std::move(value));
    } else if (depth_ == 2 && list_) {
      if (row_.names.empty() || row_.names.back().first != key_)
        row_.names.emplace_back(key_, std::vector<std::string>());
      row_.names.back().second.push_back(std::move(value));
    }
    return true;
  }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override {
    if (++depth_ == 2) list_ = false;
    return true;
  }
  bool key(string_t& value) override {
    if (depth_ == 1) key_.swap(value);
    return true;
  }
  bool end_object() override {
    --depth_;
    return true;
  }
  bool start_array(std::size_t) override {
    if (++depth_ == 2) list_ = true;
    return depth_ > 1;  // a row is an object
  }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const Json::exception&) override {
    return false;
  }

 private:
  bool number(double value) {
    if (depth_ == 1) {
      if (key_ == "step")
        step_ = value;
      else
        row_.numbers.emplace_back(key_, value);
    } else if (depth_ == 2 && list_) {
      if (row_.lists.empty() || row_.lists.back().first != key_)
        row_.lists.emplace_back(key_, std::vector<double>());
      row_.lists.back().second.push_back(value);
    }
    return true;
  }

  MetricsRow row_;
  std::string key_;
  int depth_ = 0;
  bool list_ = false;  // what is at depth 2
  double step_ = -1;
};

RowParser::RowParser() : handler_(std::make_unique<Handler>()) {}
RowParser::~RowParser() = default;

const MetricsRow* RowParser::parse(const std::string& line) {
  handler_->begin();
  if (!Json::sax_parse(line, handler_.get())) return nullptr;
  return handler_->finish();
}

}  // namespace convoy::train
