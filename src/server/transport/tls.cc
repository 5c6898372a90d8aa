#include "server/transport/tls.h"

#include <openssl/err.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include <fstream>
#include <iterator>

#include "convoy/base/error.h"
#include "server/transport/openssl.h"

namespace convoy::server::transport {
namespace {

std::string read_file(const std::filesystem::path& path, const char* what) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file || text.empty())
    throw UsageError(std::string(what) + " " + path.string() + " can't be read, or is empty");
  return text;
}

std::string text_of(const ASN1_TIME* time) {
  const Bio out(BIO_new(BIO_s_mem()));
  ASN1_TIME_print(out.get(), time);
  char* data = nullptr;
  const long size = BIO_get_mem_data(out.get(), &data);
  return {data, static_cast<std::size_t>(size)};
}

std::string text_of(const X509_NAME* name) {
  const Bio out(BIO_new(BIO_s_mem()));
  X509_NAME_print_ex(out.get(), name, 0, XN_FLAG_ONELINE);
  char* data = nullptr;
  const long size = BIO_get_mem_data(out.get(), &data);
  return {data, static_cast<std::size_t>(size)};
}

// A signature that is wrong is not such an error: OpenSSL looks at it only where name and key id of
// the issuer are those of a certificate that is trusted.
bool is_of_another_authority(long error) {
  switch (error) {
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
      return true;
    default:
      return false;
  }
}

int purpose_of(Purpose purpose) {
  return purpose == Purpose::client ? X509_PURPOSE_SSL_CLIENT : X509_PURPOSE_SSL_SERVER;
}

}  // namespace

std::string verdict(long error, X509* certificate) {
  if (is_of_another_authority(error))
    return "shows a certificate of another CA (" + text_of(X509_get_issuer_name(certificate)) + ")";
  switch (error) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return "shows a certificate that expired on " + text_of(X509_get0_notAfter(certificate));
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return "shows a certificate that is not valid before " +
             text_of(X509_get0_notBefore(certificate));
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
      return "shows a certificate of another CA of the same name, or a damaged one (" +
             text_of(X509_get_issuer_name(certificate)) + ")";
    case X509_V_ERR_INVALID_PURPOSE:
      return "shows a certificate that is not made for its side of the connection";
    default:
      return std::string("shows a certificate that is not good: ") +
             X509_verify_cert_error_string(error);
  }
}

TlsTexts read_tls(const TlsFiles& files) {
  TlsTexts texts{read_file(files.authority, "the CA's certificate"),
                 read_file(files.certificate, "the certificate"),
                 read_file(files.key, "the certificate's key")};
  if (!read_certificate(reading(texts.authority).get()))
    throw UsageError("the CA's certificate " + files.authority.string() + " is no PEM certificate");
  const Certificate own = read_certificate(reading(texts.certificate).get());
  if (!own) throw UsageError(files.certificate.string() + " is no PEM certificate");
  const Key key = read_key(reading(texts.key).get());
  if (!key) throw UsageError(files.key.string() + " is no PEM key without a password");
  if (X509_check_private_key(own.get(), key.get()) != 1) {
    throw UsageError(files.key.string() + " is not the key of certificate " +
                     files.certificate.string());
  }
  ERR_clear_error();
  return texts;
}

namespace {

struct FoundProblem {
  std::string text;
  bool another_authority = false;
};

std::optional<FoundProblem> find_problem(const std::string& chain, const std::string& authority,
                                         Purpose purpose) {
  const Bio bio = reading(chain);
  const Certificate peer = read_certificate(bio.get());
  if (!peer) {
    ERR_clear_error();
    return FoundProblem{"shows no certificate"};
  }
  // Those between it and the authority.
  const auto free_all = [](STACK_OF(X509) * stack) { sk_X509_pop_free(stack, X509_free); };
  const std::unique_ptr<STACK_OF(X509), decltype(free_all)> between(sk_X509_new_null(), free_all);
  while (Certificate next = read_certificate(bio.get()))
    sk_X509_push(between.get(), next.release());
  const Store store(X509_STORE_new());
  const Bio trusted = reading(authority);
  while (const Certificate one = read_certificate(trusted.get()))
    X509_STORE_add_cert(store.get(), one.get());
  ERR_clear_error();  // of the ends of the texts
  const StoreContext context(X509_STORE_CTX_new());
  if (X509_STORE_CTX_init(context.get(), store.get(), peer.get(), between.get()) != 1)
    return FoundProblem{"shows a certificate that can't be checked"};
  X509_STORE_CTX_set_purpose(context.get(), purpose_of(purpose));
  if (X509_verify_cert(context.get()) == 1) return std::nullopt;
  const long error = X509_STORE_CTX_get_error(context.get());
  X509* wrong = X509_STORE_CTX_get_current_cert(context.get());
  FoundProblem problem{verdict(error, wrong != nullptr ? wrong : peer.get()),
                       is_of_another_authority(error)};
  ERR_clear_error();
  return problem;
}

// Of the first certificate of a text by itself, whoever has signed it. OpenSSL looks at its dates
// only when it knows who that is.
std::optional<std::string> problem_by_itself(const std::string& text, Purpose purpose) {
  const Certificate own = read_certificate(reading(text).get());
  std::optional<std::string> problem;
  if (X509_cmp_current_time(X509_get0_notAfter(own.get())) < 0) {
    problem = verdict(X509_V_ERR_CERT_HAS_EXPIRED, own.get());
  } else if (X509_cmp_current_time(X509_get0_notBefore(own.get())) > 0) {
    problem = verdict(X509_V_ERR_CERT_NOT_YET_VALID, own.get());
  } else if (X509_check_purpose(own.get(), purpose_of(purpose), 0) != 1) {
    problem = verdict(X509_V_ERR_INVALID_PURPOSE, own.get());
  }
  ERR_clear_error();
  return problem;
}

}  // namespace

std::optional<std::string> problem_of(const std::string& chain, const std::string& authority,
                                      Purpose purpose) {
  const auto problem = find_problem(chain, authority, purpose);
  return problem ? std::optional(problem->text) : std::nullopt;
}

std::string check_shown(const TlsFiles& files) {
  const TlsTexts texts = read_tls(files);
  const auto found = find_problem(texts.certificate, texts.authority, Purpose::server);
  if (!found) return "";
  const std::string where = ", in " + files.certificate.string();
  const auto problem = found->another_authority
                           ? problem_by_itself(texts.certificate, Purpose::server)
                           : std::optional(found->text);
  if (problem) {
    throw UsageError("this process " + *problem + where +
                     ": nobody would take it. `convoy certs` makes new ones (--renew)");
  }
  return "this process " + found->text + where + ", than that of " + files.authority.string() +
         ": those alone take it who trust that CA";
}

}  // namespace convoy::server::transport
