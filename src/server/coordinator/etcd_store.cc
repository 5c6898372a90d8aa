#include "server/coordinator/etcd_store.h"

#include <chrono>
#include <mutex>
#include <utility>

#include "convoy/base/clock.h"
#include "convoy/base/error.h"
#include "server/coordinator/base64.h"
#include "server/coordinator/etcd_answers.h"
#include "server/coordinator/etcd_client.h"

namespace convoy::server::coordinator {
namespace {

using nlohmann::json;

constexpr auto kLook = std::chrono::seconds(1);  // at the term, when nothing is written
constexpr std::uint64_t kPage = 1000;            // keys that are read at once

// The first key behind all that begin so.
std::string behind(std::string prefix) {
  while (!prefix.empty() && static_cast<unsigned char>(prefix.back()) == 255) prefix.pop_back();
  if (!prefix.empty()) prefix.back() = static_cast<char>(prefix.back() + 1);
  return prefix.empty() ? std::string(1, '\0') : prefix;
}

void check_prefix(const std::string& prefix) {
  if (!prefix.empty() && prefix.back() == '/') return;
  throw UsageError("the prefix of keys in etcd, '" + prefix + "', has to end with '/'");
}

class EtcdStore final : public StateStore {
 public:
  explicit EtcdStore(const EtcdOptions& options)
      : client_(options), prefix_(options.prefix), where_([&] {
          std::string text = "etcd at ";
          for (const std::string& each : options.endpoints) {
            text += (&each == &options.endpoints.front() ? "" : ", ") + each;
          }
          return text;
        }()) {
    check_prefix(prefix_);
  }

  std::string where() const override { return where_; }

  // A request has at most 1.5 MiB, unless etcd was told otherwise.
  std::size_t largest_value() const override { return std::size_t{1} << 20; }

  std::uint64_t begin() override {
    while (true) {
      const auto before = read_at(term_key());
      const std::uint64_t term = before ? etcd::term(where_, term_key(), before->bytes) + 1 : 1;
      const std::uint64_t revision = before ? before->revision : 0;
      const std::string value = text_of(term);
      json request;
      request["compare"] = json::array({has_revision(term_key(), revision)});
      request["success"] = json::array({put(term_key(), std::as_bytes(std::span(value)))});
      const json answer = client_.post("/v3/kv/txn", request);
      // Not so: another one has begun, or this one, and the answer got lost.
      if (etcd::succeeded(where_, answer)) {
        leave(term, etcd::revision(where_, answer));
        return term;
      }
    }
  }

  // All that was changed survives; but one that has nothing to write has to learn, too, that its
  // term is over.
  Changed settle() override {
    std::uint64_t term = 0;
    {
      const std::lock_guard lock(mutex_);
      if (term_ == 0 || Clock::now() < look_at_) return {};
      term = term_;
      look_at_ = Clock::now() + kLook;
    }
    try {
      const auto now = read_at(term_key());
      const std::uint64_t newest = now ? etcd::term(where_, term_key(), now->bytes) : 0;
      if (newest == term) return {};
      return {Changed::Kind::fenced, 0,
              "term " + std::to_string(newest) + " has begun, this one is " + std::to_string(term)};
    } catch (const EtcdRefusal& refusal) {
      return {Changed::Kind::unreached, 0, refusal.what()};
    } catch (const Failure& failure) {
      return {Changed::Kind::unreached, 0, failure.what()};
    }
  }

  std::optional<Value> read(const std::string& key) override {
    return read_at(prefix_ + "k/" + key);
  }

  std::map<std::string, Value> list(const std::string& prefix) override {
    const std::string all = prefix_ + "k/";
    std::string from = all + prefix;
    const std::string end = behind(from);
    std::map<std::string, Value> found;
    std::uint64_t revision = 0;  // the same for all pages
    while (true) {
      json request = {{"key", to_base64(from)}, {"range_end", to_base64(end)}, {"limit", kPage}};
      if (revision != 0) request["revision"] = std::to_string(revision);
      etcd::Page page = etcd::page(where_, client_.post("/v3/kv/range", request), all);
      if (revision == 0) revision = page.revision;
      found.merge(page.keys);
      if (!page.more) return found;
      from = page.last + '\0';
    }
  }

  // A change that was given up may be applied yet. So each also sets the term's key, and wants it
  // as the one before left it: after a later one has succeeded those before can't be applied any
  // more.
  Changed change(std::uint64_t term, std::span<const Write> writes, Survives) override {
    const std::lock_guard one_at_a_time(change_mutex_);
    while (true) {
      const std::uint64_t before = left(term);
      json compare = json::array({has_term(term)});
      if (before != 0) compare.push_back(has_revision(term_key(), before));
      const std::string value = text_of(term);
      json success = json::array({put(term_key(), std::as_bytes(std::span(value)))});
      for (const Write& write : writes) {
        const std::string key = prefix_ + "k/" + write.key;
        if (write.expected) compare.push_back(has_revision(key, *write.expected));
        success.push_back(write.value ? put(key, *write.value)
                                      : json{{"requestDeleteRange", {{"key", to_base64(key)}}}});
      }
      try {
        const json request = {{"compare", compare},
                              {"success", success},
                              {"failure", {{{"requestRange", {{"key", to_base64(term_key())}}}}}}};
        const json answer = client_.post("/v3/kv/txn", request);
        const Changed changed = etcd::changed(where_, answer, term, term_key());
        if (changed.kind == Changed::Kind::done) leave(term, changed.revision);
        if (changed.kind != Changed::Kind::conflict || before == 0) return changed;
        // Is it one that was given up, and was applied after all? Then it is as if its answer had
        // got lost.
        const auto now = read_at(term_key());
        if (!now || now->revision == before) return changed;
        leave(term, now->revision);
      } catch (const EtcdRefusal& refusal) {
        return {Changed::Kind::broken, 0, refusal.what()};
      } catch (const Failure& failure) {
        return {Changed::Kind::unreached, 0, failure.what()};
      }
    }
  }

 private:
  std::string term_key() const { return prefix_ + "term"; }

  // The revision of the term's key, if this object began the term; else 0.
  std::uint64_t left(std::uint64_t term) {
    const std::lock_guard lock(mutex_);
    return term_ == term ? left_ : 0;
  }
  void leave(std::uint64_t term, std::uint64_t revision) {
    const std::lock_guard lock(mutex_);
    if (term < term_) return;
    term_ = term;
    left_ = revision;
  }

  static std::string text_of(std::uint64_t term) { return std::to_string(term); }

  static json put(const std::string& key, std::span<const std::byte> value) {
    return {{"requestPut", {{"key", to_base64(key)}, {"value", to_base64(value)}}}};
  }
  static json has_revision(const std::string& key, std::uint64_t revision) {
    return {{"key", to_base64(key)},
            {"target", "MOD"},
            {"result", "EQUAL"},
            {"modRevision", std::to_string(revision)}};
  }
  json has_term(std::uint64_t term) const {
    return {{"key", to_base64(term_key())},
            {"target", "VALUE"},
            {"result", "EQUAL"},
            {"value", to_base64(text_of(term))}};
  }

  std::optional<Value> read_at(const std::string& key) {
    return etcd::value(where_, client_.post("/v3/kv/range", {{"key", to_base64(key)}}));
  }

  EtcdClient client_;
  const std::string prefix_;
  const std::string where_;
  std::mutex change_mutex_;
  std::mutex mutex_;        // of these
  std::uint64_t term_ = 0;  // that was begun here
  std::uint64_t left_ = 0;  // revision of its key
  Clock::time_point look_at_{};
};

}  // namespace

std::unique_ptr<StateStore> open_etcd_store(EtcdOptions options) {
  return std::make_unique<EtcdStore>(options);
}

void remove_etcd_keys(const EtcdOptions& options) {
  check_prefix(options.prefix);
  EtcdClient(options).post(
      "/v3/kv/deleterange",
      {{"key", to_base64(options.prefix)}, {"range_end", to_base64(behind(options.prefix))}});
}

}  // namespace convoy::server::coordinator
