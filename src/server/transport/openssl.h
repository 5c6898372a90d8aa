// Objects of OpenSSL that free themselves.
#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <memory>
#include <string>

namespace convoy::server::transport {

template <auto Free>
struct OpenSslFree {
  template <class T>
  void operator()(T* object) const {
    Free(object);
  }
};
using Bio = std::unique_ptr<BIO, OpenSslFree<BIO_free>>;
using Certificate = std::unique_ptr<X509, OpenSslFree<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, OpenSslFree<EVP_PKEY_free>>;
using Store = std::unique_ptr<X509_STORE, OpenSslFree<X509_STORE_free>>;
using StoreContext = std::unique_ptr<X509_STORE_CTX, OpenSslFree<X509_STORE_CTX_free>>;
using TlsContext = std::unique_ptr<SSL_CTX, OpenSslFree<SSL_CTX_free>>;
using TlsConnection = std::unique_ptr<SSL, OpenSslFree<SSL_free>>;

inline Bio reading(const std::string& text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}
// Null where there is none.
inline Certificate read_certificate(BIO* bio) {
  return Certificate(PEM_read_bio_X509(bio, nullptr, nullptr, nullptr));
}
inline Key read_key(BIO* bio) {
  return Key(PEM_read_bio_PrivateKey(bio, nullptr, nullptr, nullptr));
}

// What X509_verify says, as a person would of the peer.
std::string verdict(long error, X509* certificate);

}  // namespace convoy::server::transport
