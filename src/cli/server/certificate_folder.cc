#include "cli/server/certificate_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "base/own_files.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "server/transport/certificate_facts.h"
#include "server/transport/certificates.h"
#include "server/transport/tls.h"

namespace convoy::cli {
namespace {

namespace fs = std::filesystem;
using server::transport::CertificateAndKey;
using server::transport::Validity;

constexpr int kAuthorityDays = 3650;
constexpr std::size_t kLongestFile = 1 << 20;
constexpr mode_t kOwnersFile = 0600;
constexpr mode_t kOthers = 0077;

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, at);) parts.push_back(part);
  return parts;
}

bool is_name(const std::string& name, bool first) {
  const auto known = [&](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_' || c == ':' ||
           (c == '*' && !first);
  };
  return !name.empty() && name.front() != '.' && name.front() != '-' && name.size() <= 253 &&
         std::all_of(name.begin(), name.end(), known);
}

[[noreturn]] void fail(const std::string& path, const char* operation) {
  throw Failure("cannot write " + path + ": " + operation + ": " + std::strerror(errno));
}

// The file is there, whole and for its owner alone, or not at all. Two at once can't replace each
// other's CA.
void write_private(const std::string& path, const std::string& text, bool replace) {
  const std::string partial = path + ".partial-" + std::to_string(getpid());
  unlink(partial.c_str());
  Descriptor file(open(partial.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kOwnersFile));
  if (!file.open()) fail(path, "open");
  const int error = write_all(file.get(), std::as_bytes(std::span(text)));
  if (error != 0 || fsync(file.get()) != 0) {
    if (error != 0) errno = error;
    const int why = errno;
    unlink(partial.c_str());
    errno = why;
    fail(path, "write");
  }
  const int moved =
      replace ? rename(partial.c_str(), path.c_str()) : link(partial.c_str(), path.c_str());
  const int why = errno;
  if (!replace || moved != 0) unlink(partial.c_str());
  if (moved == 0) return;
  if (why == EEXIST) throw UsageError(path + " is there already, and is not replaced");
  errno = why;
  fail(path, replace ? "rename" : "link");
}

// The key first: a certificate is never there without it.
void write_pair(const CertificatePaths& paths, const CertificateAndKey& pair, bool replace) {
  write_private(paths.key, pair.key, replace);
  write_private(paths.certificate, pair.certificate, replace);
}

void make_folder(const std::string& folder) {
  std::error_code error;
  if (fs::is_directory(folder, error)) return;
  const mode_t before = umask(kOthers);
  const bool made = fs::create_directories(folder, error);
  umask(before);
  if (error || (!made && !fs::is_directory(folder)))
    throw UsageError("can't make the folder " + folder + ": " + error.message());
}

CertificateAndKey authority_of(const std::string& folder, const CertificateOrder& order,
                               bool& made) {
  const CertificatePaths paths = certificate_paths(folder, kAuthorityFile);
  const bool certificate = fs::exists(paths.certificate);
  const bool key = fs::exists(paths.key);
  if (!order.new_authority && certificate && key) {
    CertificateAndKey authority{read_text_file(paths.certificate, kLongestFile),
                                read_text_file(paths.key, kLongestFile)};
    const auto facts = server::transport::facts_of(authority.certificate);
    if (!facts || !facts->authority)
      throw UsageError(paths.certificate + " is no certificate of a CA; --new-ca replaces it");
    if (!server::transport::is_key_of(authority.key, authority.certificate))
      throw UsageError(paths.key + " is not the key of " + paths.certificate +
                       "; --new-ca replaces both");
    if (facts->until < std::chrono::system_clock::now())
      throw UsageError(paths.certificate + " has expired; --new-ca replaces it");
    return authority;
  }
  if (!order.new_authority && (certificate || key)) {
    throw UsageError(folder + " has " +
                     (certificate ? "ca.pem without ca.key" : "ca.key without ca.pem") +
                     ": put the other one there, too, or replace the CA with --new-ca");
  }
  made = true;
  CertificateAndKey authority = server::transport::make_authority(
      order.name, Validity::days(std::max(kAuthorityDays, order.days)));
  write_pair(paths, authority, order.new_authority);
  return authority;
}

// What is there of a pair may be needed.
void check_pairs(const std::string& folder, const CertificateOrder& order) {
  if (order.renew || order.new_authority) return;
  for (const HostNames& host : order.hosts) {
    const CertificatePaths paths = certificate_paths(folder, host.file());
    if (fs::exists(paths.certificate) == fs::exists(paths.key)) continue;
    throw UsageError(folder + " has " + host.file() +
                     (fs::exists(paths.key) ? ".key alone" : ".pem alone") +
                     ": put the other one there, too, or replace it with --renew");
  }
}

bool signed_by(const std::string& authority, const std::string& certificate) {
  using namespace server::transport;
  const auto problem = problem_of(certificate, authority, Purpose::server);
  return !problem || problem->find("another CA") == std::string::npos;
}

std::string state_of(const std::string& path, const std::string& text, const std::string& authority,
                     const server::transport::CertificateFacts& facts) {
  const auto now = std::chrono::system_clock::now();
  const std::string key = path.substr(0, path.rfind('.')) + ".key";
  if (!facts.authority && !signed_by(authority, text)) return "of another CA";
  if (facts.until < now) return "expired";
  if (facts.from > now) return "not valid yet";
  struct stat status {};
  if (stat(key.c_str(), &status) != 0) return facts.authority ? "" : "has no key here";
  if ((status.st_mode & kOthers) != 0) return "its key can be read by others";
  if (!server::transport::is_key_of(read_text_file(key, kLongestFile), text))
    return "its key is another's";
  return "";
}

}  // namespace

std::vector<HostNames> parse_host_names(const std::string& text) {
  std::vector<HostNames> hosts;
  for (const std::string& entry : split(text, ',')) {
    HostNames host{split(entry, '+')};
    for (std::size_t i = 0; i < host.names.size(); ++i) {
      if (!is_name(host.names[i], i == 0))
        throw UsageError("'" + entry +
                         "' is no host; write for example node1 or node1+10.0.0.1, with all its "
                         "names");
    }
    if (host.names.empty()) throw UsageError("--hosts " + text + ": an entry is empty");
    if (host.file() == kAuthorityFile) throw UsageError("a host can't be called ca here");
    hosts.push_back(std::move(host));
  }
  return hosts;
}

CertificatesMade make_certificates(const std::string& folder, const CertificateOrder& order) {
  check_own_folder("folder", folder, kCertificates);
  check_pairs(folder, order);
  make_folder(folder);
  CertificatesMade result;
  const CertificateAndKey authority = authority_of(folder, order, result.authority);
  for (const HostNames& host : order.hosts) {
    const CertificatePaths paths = certificate_paths(folder, host.file());
    const bool there = fs::exists(paths.certificate) && fs::exists(paths.key);
    if (there && !order.renew && !order.new_authority) {
      result.kept.push_back(host.file());
      continue;
    }
    write_pair(paths,
               server::transport::issue_certificate(authority, host.file(), host.names,
                                                    Validity::days(order.days)),
               true);
    result.made.push_back(host.file());
  }
  for (const std::string& name : certified_hosts(folder)) {
    const std::string path = certificate_paths(folder, name).certificate;
    if (!signed_by(authority.certificate, read_text_file(path, kLongestFile)))
      result.worthless.push_back(name);
  }
  return result;
}

std::vector<CertificateState> check_certificates(const std::string& folder) {
  const std::string path = certificate_paths(folder, kAuthorityFile).certificate;
  if (!fs::exists(path))
    throw UsageError(folder + " has no ca.pem: convoy certs " + folder +
                     " --hosts node1,node2 makes a CA and certificates");
  const std::string authority = read_text_file(path, kLongestFile);
  std::vector<std::string> names = certified_hosts(folder);
  names.insert(names.begin(), kAuthorityFile);
  std::vector<CertificateState> states;
  for (const std::string& name : names) {
    CertificateState& state = states.emplace_back();
    state.file = name + ".pem";
    const std::string its = certificate_paths(folder, name).certificate;
    const std::string text = read_text_file(its, kLongestFile);
    const auto facts = server::transport::facts_of(text);
    if (!facts) {
      state.problem = "no PEM certificate";
      continue;
    }
    state.name = facts->name;
    state.hosts = facts->hosts;
    state.authority = facts->authority;
    state.until = facts->until;
    state.problem = state_of(its, text, authority, *facts);
  }
  return states;
}

}  // namespace convoy::cli
