// What etcd's JSON gateway answers, which may be anything at all. Everything throws Failure, with
// `where` in front, for what is no answer.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "server/coordinator/state_store.h"

namespace convoy::server::coordinator::etcd {

// Of a transaction without anything to read.
std::uint64_t revision(const std::string& where, const nlohmann::json& answer);  // of etcd by then
bool succeeded(const std::string& where, const nlohmann::json& answer);

// Of a range that is one key; nothing: it isn't there.
std::optional<Value> value(const std::string& where, const nlohmann::json& answer);

// A page of a range of keys that all begin with `prefix`.
struct Page {
  std::uint64_t revision = 0;         // of the whole store
  std::map<std::string, Value> keys;  // without the prefix
  std::string last;                   // of them, with it
  bool more = false;                  // keys follow
};
Page page(const std::string& where, const nlohmann::json& answer, const std::string& prefix);

// The number of a term that a key holds.
std::uint64_t term(const std::string& where, const std::string& key, const Bytes& bytes);

// Of a change in term `term`, which reads the key of the term where it isn't made.
Changed changed(const std::string& where, const nlohmann::json& answer, std::uint64_t term,
                const std::string& term_key);

}  // namespace convoy::server::coordinator::etcd
