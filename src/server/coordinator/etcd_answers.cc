#include "server/coordinator/etcd_answers.h"

#include <charconv>

#include "convoy/base/error.h"
#include "server/coordinator/base64.h"

namespace convoy::server::coordinator::etcd {
namespace {

using nlohmann::json;

template <typename F>
auto understood(const std::string& where, F&& read) {
  try {
    return read();
  } catch (const json::exception& error) {
    throw Failure(where + " answered what is no answer: " + error.what());
  } catch (const UsageError& error) {
    throw Failure(where + " answered what is no answer: " + error.what());
  }
}

// 64-bit numbers are texts in JSON; those that are 0 are left out.
std::uint64_t number(const json& object, const char* key) {
  if (!object.contains(key)) return 0;
  const auto text = object.at(key).get<std::string>();
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) {
    throw UsageError(std::string(key) + " is no number");
  }
  return value;
}

bool flag(const json& object, const char* key) {
  return object.contains(key) && object.at(key).get<bool>();
}

std::string text_of(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Value value_of(const json& kv) {
  Value value;
  value.revision = number(kv, "mod_revision");
  if (kv.contains("value")) value.bytes = from_base64(kv.at("value").get<std::string>());
  return value;
}

}  // namespace

std::uint64_t revision(const std::string& where, const json& answer) {
  return understood(where, [&] { return number(answer.at("header"), "revision"); });
}

bool succeeded(const std::string& where, const json& answer) {
  return understood(where, [&] { return flag(answer, "succeeded"); });
}

std::optional<Value> value(const std::string& where, const json& answer) {
  return understood(where, [&]() -> std::optional<Value> {
    if (!answer.contains("kvs") || answer.at("kvs").empty()) return std::nullopt;
    return value_of(answer.at("kvs").at(0));
  });
}

Page page(const std::string& where, const json& answer, const std::string& prefix) {
  return understood(where, [&] {
    Page page;
    page.revision = number(answer.at("header"), "revision");
    if (!answer.contains("kvs")) return page;
    for (const json& each : answer.at("kvs")) {
      const std::string name = text_of(from_base64(each.at("key").get<std::string>()));
      if (!name.starts_with(prefix)) throw UsageError("it sent a key that wasn't asked for");
      page.keys[name.substr(prefix.size())] = value_of(each);
      page.last = name;
    }
    page.more = flag(answer, "more") && !page.keys.empty();
    return page;
  });
}

std::uint64_t term(const std::string& where, const std::string& key, const Bytes& bytes) {
  const std::string text = text_of(bytes);
  std::uint64_t term = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), term);
  if (error != std::errc{} || end != text.data() + text.size()) {
    throw Failure(where + ": the key '" + key + "' holds no number of a term");
  }
  return term;
}

Changed changed(const std::string& where, const json& answer, std::uint64_t term,
                const std::string& term_key) {
  return understood(where, [&]() -> Changed {
    if (flag(answer, "succeeded")) {
      return {Changed::Kind::done, number(answer.at("header"), "revision"), {}};
    }
    const json& kvs = answer.at("responses").at(0).at("response_range").at("kvs");
    const std::uint64_t now = etcd::term(where, term_key, value_of(kvs.at(0)).bytes);
    if (now == term) {
      return {Changed::Kind::conflict, 0, "a key has another revision than was expected"};
    }
    return {Changed::Kind::fenced, 0,
            "term " + std::to_string(now) + " has begun, this one is " + std::to_string(term)};
  });
}

}  // namespace convoy::server::coordinator::etcd
