#include "server/transport/certificate_facts.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>

#include <ctime>

#include "server/transport/openssl.h"

namespace convoy::server::transport {
namespace {

constexpr int kIpv4Bytes = 4;
constexpr int kIpv6Bytes = 16;

std::chrono::system_clock::time_point time_of(const ASN1_TIME* time) {
  std::tm parts{};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return {};
  return std::chrono::system_clock::from_time_t(timegm(&parts));
}

std::string asn1_text(const ASN1_STRING* text) {
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
          static_cast<std::size_t>(ASN1_STRING_length(text))};
}

std::string common_name(X509* certificate) {
  const X509_NAME* subject = X509_get_subject_name(certificate);
  const int at = X509_NAME_get_index_by_NID(const_cast<X509_NAME*>(subject), NID_commonName, -1);
  if (at < 0) return "";
  return asn1_text(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
}

std::string address_text(const std::string& bytes) {
  char text[INET6_ADDRSTRLEN] = "";
  if (bytes.size() == kIpv4Bytes) inet_ntop(AF_INET, bytes.data(), text, sizeof text);
  if (bytes.size() == kIpv6Bytes) inet_ntop(AF_INET6, bytes.data(), text, sizeof text);
  return text;
}

std::vector<std::string> hosts_of(X509* certificate) {
  std::vector<std::string> hosts;
  auto* names = static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names, i);
    if (name->type == GEN_DNS) hosts.push_back(asn1_text(name->d.dNSName));
    if (name->type == GEN_IPADD) hosts.push_back(address_text(asn1_text(name->d.iPAddress)));
  }
  GENERAL_NAMES_free(names);
  return hosts;
}

}  // namespace

std::optional<CertificateFacts> facts_of(const std::string& text) {
  const Certificate certificate = read_certificate(reading(text).get());
  ERR_clear_error();
  if (!certificate) return std::nullopt;
  X509* it = certificate.get();
  CertificateFacts facts{common_name(it), hosts_of(it), X509_check_ca(it) > 0,
                         time_of(X509_get0_notBefore(it)), time_of(X509_get0_notAfter(it))};
  ERR_clear_error();
  return facts;
}

bool is_key_of(const std::string& key, const std::string& certificate) {
  const Certificate own = read_certificate(reading(certificate).get());
  const Key its = read_key(reading(key).get());
  const bool fits = own && its && X509_check_private_key(own.get(), its.get()) == 1;
  ERR_clear_error();
  return fits;
}

}  // namespace convoy::server::transport
