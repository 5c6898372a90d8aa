#include "server/transport/certificates.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include <cstring>

#include "convoy/base/error.h"
#include "server/transport/openssl.h"

namespace convoy::server::transport {
namespace {

void need(bool done, const char* what) {
  if (done) return;
  char reason[256];
  ERR_error_string_n(ERR_get_error(), reason, sizeof reason);
  ERR_clear_error();
  throw Failure(std::string("OpenSSL can't ") + what + ": " + reason);
}

std::string contents(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return {data, static_cast<std::size_t>(size)};
}

void extend(X509* certificate, X509* issuer, int which, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, which, value.c_str());
  need(extension != nullptr, "make an extension of a certificate");
  const int added = X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
  need(added == 1, "add an extension to a certificate");
}

// All but the extensions and the signature.
Certificate blank(const std::string& name, const Validity& validity, EVP_PKEY* key) {
  Certificate certificate(X509_new());
  need(certificate != nullptr, "make a certificate");
  X509* it = certificate.get();
  X509_set_version(it, 2);  // counted from 0: version 3
  unsigned char serial[16];
  need(RAND_bytes(serial, sizeof serial) == 1, "draw a random number");
  serial[0] &= 0x7f;
  BIGNUM* number = BN_bin2bn(serial, sizeof serial, nullptr);
  BN_to_ASN1_INTEGER(number, X509_get_serialNumber(it));
  BN_free(number);
  using std::chrono::system_clock;
  ASN1_TIME_set(X509_getm_notBefore(it), system_clock::to_time_t(validity.from));
  ASN1_TIME_set(X509_getm_notAfter(it), system_clock::to_time_t(validity.until));
  X509_NAME* subject = X509_get_subject_name(it);
  need(X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8,
                                  reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1,
                                  0) == 1,
       "name a certificate");
  need(X509_set_pubkey(it, key) == 1, "give a certificate its key");
  return certificate;
}

Key new_key() {
  Key key(EVP_EC_gen("P-256"));
  need(key != nullptr, "make a key");
  return key;
}

CertificateAndKey written(X509* certificate, EVP_PKEY* key) {
  const Bio first(BIO_new(BIO_s_mem())), second(BIO_new(BIO_s_mem()));
  need(PEM_write_bio_X509(first.get(), certificate) == 1, "write a certificate");
  need(PEM_write_bio_PrivateKey(second.get(), key, nullptr, nullptr, 0, nullptr, nullptr) == 1,
       "write a key");
  return {contents(first.get()), contents(second.get())};
}

bool is_ip(const std::string& host) {
  unsigned char bytes[16];
  return inet_pton(AF_INET, host.c_str(), bytes) == 1 ||
         inet_pton(AF_INET6, host.c_str(), bytes) == 1;
}

}  // namespace

Validity Validity::days(int count) {
  const auto now = std::chrono::system_clock::now();
  return {now - std::chrono::hours(1), now + std::chrono::hours(24) * count};
}

CertificateAndKey make_authority(const std::string& name, const Validity& validity) {
  const Key key = new_key();
  const Certificate certificate = blank(name, validity, key.get());
  X509* it = certificate.get();
  X509_set_issuer_name(it, X509_get_subject_name(it));
  extend(it, it, NID_basic_constraints, "critical,CA:TRUE,pathlen:0");
  extend(it, it, NID_key_usage, "critical,keyCertSign,cRLSign");
  extend(it, it, NID_subject_key_identifier, "hash");
  need(X509_sign(it, key.get(), EVP_sha256()) > 0, "sign a certificate");
  return written(it, key.get());
}

CertificateAndKey issue_certificate(const CertificateAndKey& authority, const std::string& name,
                                    const std::vector<std::string>& hosts,
                                    const Validity& validity) {
  if (hosts.empty()) throw UsageError("certificate '" + name + "' is for no host: name one");
  const Certificate issuer = read_certificate(reading(authority.certificate).get());
  const Key issuer_key = read_key(reading(authority.key).get());
  need(issuer && issuer_key, "read the CA's certificate and key");
  const Key key = new_key();
  const Certificate certificate = blank(name, validity, key.get());
  X509* it = certificate.get();
  X509_set_issuer_name(it, X509_get_subject_name(issuer.get()));
  std::string names;
  for (const std::string& host : hosts) {
    if (host.find_first_of(",:\n") != std::string::npos && !is_ip(host))
      throw UsageError("'" + host + "' is neither a host name nor an IP address");
    names += (names.empty() ? "" : ",") + std::string(is_ip(host) ? "IP:" : "DNS:") + host;
  }
  extend(it, issuer.get(), NID_basic_constraints, "critical,CA:FALSE");
  extend(it, issuer.get(), NID_key_usage, "critical,digitalSignature");
  extend(it, issuer.get(), NID_ext_key_usage, "serverAuth,clientAuth");
  extend(it, issuer.get(), NID_subject_alt_name, names);
  extend(it, issuer.get(), NID_authority_key_identifier, "keyid");
  need(X509_sign(it, issuer_key.get(), EVP_sha256()) > 0, "sign a certificate");
  return written(it, key.get());
}

}  // namespace convoy::server::transport
