#include "server/coordinator/etcd_client.h"

#include <curl/curl.h>

#include <algorithm>

#include "convoy/base/error.h"
#include "server/transport/address.h"

namespace convoy::server::coordinator {
namespace {

constexpr std::size_t kMaxAnswer = std::size_t{1} << 30;  // bytes

std::string checked(const std::string& endpoint, bool tls) {
  const auto refuse = [&](const std::string& why) {
    throw UsageError("etcd at '" + endpoint + "': " + why);
  };
  const bool https = endpoint.starts_with("https://");
  if (!https && !endpoint.starts_with("http://")) {
    refuse("an address is http://HOST:PORT or https://HOST:PORT");
  }
  std::string rest = endpoint.substr(https ? 8 : 7);
  while (!rest.empty() && rest.back() == '/') rest.pop_back();
  if (rest.find_first_of("/?#@") != std::string::npos) refuse("an address has no path and no user");
  const auto address = transport::Address::parse(rest);
  if (!https && !transport::is_loopback(address)) {
    refuse("beyond this host only https is spoken: name https://" + rest +
           " and give certificates");
  }
  if (https && !tls) refuse("https needs certificates");
  return (https ? "https://" : "http://") + rest;
}

std::size_t take(char* data, std::size_t size, std::size_t count, void* to) {
  auto& text = *static_cast<std::string*>(to);
  if (text.size() + size * count > kMaxAnswer) return 0;
  text.append(data, size * count);
  return size * count;
}

// Every other status may pass: a member that has no leader, or is asked for too much at once.
bool permanent(long status) {
  return status == 400 || status == 401 || status == 403 || status == 404;
}

}  // namespace

struct EtcdClient::Curl {
  Curl() {
    static const CURLcode global = curl_global_init(CURL_GLOBAL_DEFAULT);
    if (global == CURLE_OK) handle = curl_easy_init();
    if (handle == nullptr) throw Failure("libcurl can't be initialized");
    headers = curl_slist_append(nullptr, "Content-Type: application/json");
    // Without it curl waits a second for "100 Continue" before it sends a large body.
    headers = curl_slist_append(headers, "Expect:");
  }
  ~Curl() {
    curl_slist_free_all(headers);
    curl_easy_cleanup(handle);
  }
  Curl(const Curl&) = delete;
  Curl& operator=(const Curl&) = delete;

  CURL* handle = nullptr;
  curl_slist* headers = nullptr;
  char error[CURL_ERROR_SIZE] = {};
};

EtcdClient::EtcdClient(const EtcdOptions& options)
    : options_([&] {
        EtcdOptions checked_options = options;
        if (options.endpoints.empty()) throw UsageError("no address of an etcd member was given");
        if (options.tls) transport::read_tls(*options.tls);
        for (std::string& endpoint : checked_options.endpoints) {
          endpoint = checked(endpoint, options.tls.has_value());
        }
        return checked_options;
      }()),
      curl_(std::make_unique<Curl>()) {
  CURL* curl = curl_->handle;
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_PROXY, "");  // whatever the environment says
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, curl_->headers);
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, curl_->error);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take);
  curl_easy_setopt(curl, CURLOPT_POST, 1L);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS,
                   static_cast<long>(options_.connect_timeout.count()));
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, static_cast<long>(options_.timeout.count()));
  if (options_.tls) {
    curl_easy_setopt(curl, CURLOPT_CAINFO, options_.tls->authority.c_str());
    curl_easy_setopt(curl, CURLOPT_CAPATH, nullptr);  // no authority but the job's
    curl_easy_setopt(curl, CURLOPT_SSLCERT, options_.tls->certificate.c_str());
    curl_easy_setopt(curl, CURLOPT_SSLKEY, options_.tls->key.c_str());
  }
}

EtcdClient::~EtcdClient() = default;

nlohmann::json EtcdClient::post(const std::string& path, const nlohmann::json& request) {
  const std::lock_guard lock(mutex_);
  const std::string body = request.dump();
  std::string problems;
  for (std::size_t i = 0; i < options_.endpoints.size(); ++i) {
    const std::size_t which = (first_ + i) % options_.endpoints.size();
    try {
      nlohmann::json answer = try_one(options_.endpoints[which], path, body);
      first_ = which;
      return answer;
    } catch (const EtcdRefusal&) {
      throw;
    } catch (const Failure& failure) {
      problems += (problems.empty() ? "" : "; ") + std::string(failure.what());
    }
  }
  throw Failure(problems);
}

nlohmann::json EtcdClient::try_one(const std::string& endpoint, const std::string& path,
                                   const std::string& body) {
  CURL* curl = curl_->handle;
  const std::string url = endpoint + path;
  std::string text;
  curl_->error[0] = '\0';
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body.data());
  curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &text);
  const CURLcode code = curl_easy_perform(curl);
  if (code != CURLE_OK) {
    const std::string why = curl_->error[0] != '\0' ? curl_->error : curl_easy_strerror(code);
    throw Failure("etcd at " + endpoint + ": " + why);
  }
  long status = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  nlohmann::json answer = nlohmann::json::parse(text, nullptr, false);
  if (status == 200 && answer.is_object()) return answer;
  std::string why = "HTTP status " + std::to_string(status);
  if (answer.is_object() && answer.contains("error") && answer["error"].is_string()) {
    why = answer["error"].get<std::string>() + " (" + why + ")";
  } else if (status == 200) {
    why = "an answer that is no JSON object";
  }
  why = "etcd at " + endpoint + ": " + why;
  if (permanent(status)) throw EtcdRefusal(why);
  throw Failure(why);
}

}  // namespace convoy::server::coordinator
