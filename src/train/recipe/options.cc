#include "convoy/train/options.h"

#include <stdexcept>

namespace convoy::train {
namespace {

template <class T>
const T& get(const Options& options, std::string_view key) {
  const T* value = std::get_if<T>(&options.value(key));
  if (value == nullptr)
    throw std::logic_error("option '" + std::string(key) + "' has another type");
  return *value;
}

}  // namespace

Options::Options(const std::vector<Option>& specification) : specification_(specification) {
  for (const Option& option : specification_) values_[option.key] = option.initial;
}

const Value& Options::value(std::string_view key) const {
  const auto found = values_.find(key);
  if (found == values_.end()) throw std::logic_error("no option '" + std::string(key) + "'");
  return found->second;
}

void Options::set(std::string_view key, Value value) {
  const auto found = values_.find(key);
  if (found == values_.end()) throw std::logic_error("no option '" + std::string(key) + "'");
  if (std::holds_alternative<double>(found->second) &&
      std::holds_alternative<std::int64_t>(value)) {
    value = static_cast<double>(std::get<std::int64_t>(value));
  }
  if (found->second.index() != value.index()) {
    throw std::logic_error("option '" + std::string(key) + "' has another type");
  }
  found->second = std::move(value);
}

bool Options::flag(std::string_view key) const { return get<bool>(*this, key); }
std::int64_t Options::integer(std::string_view key) const { return get<std::int64_t>(*this, key); }
double Options::number(std::string_view key) const { return get<double>(*this, key); }
const std::string& Options::text(std::string_view key) const {
  return get<std::string>(*this, key);
}
const std::vector<double>& Options::numbers(std::string_view key) const {
  return get<std::vector<double>>(*this, key);
}
const std::vector<std::string>& Options::texts(std::string_view key) const {
  return get<std::vector<std::string>>(*this, key);
}

}  // namespace convoy::train
