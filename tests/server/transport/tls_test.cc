// Certificates: who is served, and what the others are told.
#include <grpcpp/channel.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "convoy/base/error.h"
#include "server/transport/certificates.h"
#include "server/transport/grpc_settings.h"
#include "server/transport/tls.h"
#include "tests/base/scratch.h"
#include "tests/server/transport/net_fixture.h"

namespace convoy::server::transport::test {
namespace {

using namespace std::chrono_literals;
using Status = Answer::Status;

class Tls : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("convoy-tls-" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
    authority_ = make_authority("CA of the job", Validity::days(1));
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  TlsFiles files(const std::string& name, const CertificateAndKey& authority,
                 const CertificateAndKey& own) {
    const auto write = [&](const std::string& what, const std::string& text) {
      const auto path = folder_ / (name + what);
      std::ofstream(path) << text;
      return path;
    };
    return {write(".ca", authority.certificate), write(".crt", own.certificate),
            write(".key", own.key)};
  }
  TlsFiles good(const std::string& name) {
    return files(name, authority_, issued(authority_, Validity::days(1)));
  }
  static CertificateAndKey issued(const CertificateAndKey& authority, const Validity& validity,
                                  const std::string& host = "127.0.0.1") {
    return issue_certificate(authority, "process", {host, "made.up.name"}, validity);
  }
  static Validity past() {
    const auto now = std::chrono::system_clock::now();
    return {now - 48h, now - 24h};
  }
  // What a client is told that comes to this server.
  static std::string told(const Listener& listener, const std::optional<TlsFiles>& tls) {
    Channel channel(channel_settings(), grpc_connector(listener.address(), tls));
    const Answer answer = echo(channel);
    EXPECT_EQ(answer.status, Status::refused) << answer.problem;
    return answer.problem;
  }
  static ListenerSettings secure(const TlsFiles& tls) {
    ListenerSettings settings = listener_settings();
    settings.tls = tls;
    return settings;
  }

  std::filesystem::path folder_;
  CertificateAndKey authority_;
};

TEST_F(Tls, GoodCertificatesOnBothSides) {
  const Listener listener(secure(good("server")));
  for (const bool shared : {false, true}) {
    Channel channel(channel_settings(shared), grpc_connector(listener.address(), good("client")));
    const Answer answer = echo(channel, 3000000);
    EXPECT_EQ(answer.status, Status::done) << answer.problem;
    EXPECT_EQ(answer.message.gather(), some_bytes(3000000));
    EXPECT_EQ(channel.shares_memory(), shared);
  }
  ListenerSettings open = secure(good("open"));
  open.address = "0.0.0.0:0";
  EXPECT_NO_THROW(Listener{open});
}

TEST_F(Tls, ClientsThatAreRefusedHearWhy) {
  const Listener listener(secure(good("server")));
  const auto contains = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  contains(told(listener, std::nullopt),
           "the server speaks TLS and this client was given no certificate (plain text)");
  const auto other = make_authority("another CA", Validity::days(1));
  contains(told(listener, files("other", authority_, issued(other, Validity::days(1)))),
           "this client shows a certificate of another CA (CN = another CA)");
  contains(told(listener, files("expired", authority_, issued(authority_, past()))),
           "this client shows a certificate that expired on ");
  // Without a certificate at all, as no channel of ours would be.
  const auto options = grpc::SslCredentialsOptions{authority_.certificate, "", ""};
  grpc::GenericStub stub(grpc::CreateChannel(listener.address(), grpc::SslCredentials(options)));
  grpc::CompletionQueue queue;
  grpc::ClientContext context;
  grpc::ByteBuffer buffer;
  void* tag;
  bool ok = false;
  const auto stream = stub.PrepareCall(&context, kStreamMethod, &queue);
  stream->StartCall(nullptr);
  queue.Next(&tag, &ok);
  stream->Read(&buffer, nullptr);
  queue.Next(&tag, &ok);
  ASSERT_TRUE(ok);
  const auto bytes = from_grpc(buffer).payload.gather();
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()),
            "this client shows no certificate");
  context.TryCancel();
  grpc::Status status;
  stream->Finish(&status, nullptr);
  queue.Next(&tag, &ok);
  queue.Shutdown();
  EXPECT_FALSE(queue.Next(&tag, &ok));
}

TEST_F(Tls, ServersThatAreNotTrustedAreNamed) {
  const auto contains = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  contains(told(Listener(listener_settings()), good("client")),
           "the server speaks plain text and this client TLS");
  const auto other = make_authority("another CA", Validity::days(1));
  contains(
      told(Listener(secure(files("o", other, issued(other, Validity::days(1))))), good("client")),
      "the server shows a certificate of another CA (CN = another CA)");
  contains(
      told(Listener(secure(files("e", authority_, issued(authority_, past())))), good("client")),
      "the server shows a certificate that expired on ");
  contains(told(Listener(secure(
                    files("n", authority_, issued(authority_, Validity::days(1), "other.host")))),
                good("client")),
           "the server shows a certificate that is not for host '127.0.0.1'");
}

// A server may show what others than it trusts have signed, if its clients trust these.
TEST_F(Tls, AServerMayShowACertificateOfAnotherAuthority) {
  const auto other = make_authority("another CA", Validity::days(1));
  const TlsFiles server = files("server", authority_, issued(other, Validity::days(1)));
  const std::string said = check_shown(server);
  EXPECT_NE(said.find("shows a certificate of another CA (CN = another CA), in "), said.npos)
      << said;
  EXPECT_NE(said.find(", than that of " + server.authority.string()), said.npos) << said;
  EXPECT_EQ(check_shown(good("good")), "");
  // One of its own with a byte of the signature, which stands at the end, changed is no such one.
  CertificateAndKey damaged = issued(authority_, Validity::days(1));
  std::string& text = damaged.certificate;
  char& letter = text.at(text.rfind('\n', text.find("\n-----END") - 1) - 4);
  letter = letter == 'A' ? 'B' : 'A';
  const TlsFiles broken = files("damaged", authority_, damaged);
  const std::string refused = convoy::test::message_of<UsageError>([&] { check_shown(broken); });
  EXPECT_NE(refused.find("a damaged one (CN = CA of the job), in "), refused.npos) << refused;
  const Listener listener(secure(server));
  const TlsFiles client = files("client", other, issued(authority_, Validity::days(1)));
  Channel channel(channel_settings(), grpc_connector(listener.address(), client));
  const Answer answer = echo(channel);
  EXPECT_EQ(answer.status, Status::done) << answer.problem;
}

TEST_F(Tls, AServerMayNotShowWhatNobodyTakes) {
  const auto other = make_authority("another CA", Validity::days(1));
  const auto now = std::chrono::system_clock::now();
  for (const CertificateAndKey& authority : {authority_, other}) {
    const auto said = [&](const Validity& validity) {
      const TlsFiles shown = files("shown", authority_, issued(authority, validity));
      return convoy::test::message_of<UsageError>([&] { check_shown(shown); });
    };
    EXPECT_EQ(said(past()).find("this process shows a certificate that expired on "), 0u)
        << said(past());
    const Validity later{now + 24h, now + 48h};
    EXPECT_EQ(said(later).find("this process shows a certificate that is not valid before "), 0u)
        << said(later);
    EXPECT_EQ(said(Validity::days(1)), "");
  }
}

TEST_F(Tls, FilesThatDoNotFitAreNamed) {
  const TlsFiles fine = good("fine"), other = good("other");
  const auto refused = [&](const TlsFiles& tls, const std::string& part) {
    try {
      read_tls(tls);
      ADD_FAILURE() << part;
    } catch (const UsageError& e) {
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
    }
  };
  refused({fine.authority, fine.certificate, other.key}, "is not the key of certificate");
  refused({folder_ / "none", fine.certificate, fine.key}, "can't be read");
  refused({fine.key, fine.certificate, fine.key}, "is no PEM certificate");
  refused({fine.authority, fine.certificate, fine.authority}, "is no PEM key");
  EXPECT_THROW(issue_certificate(authority_, "x", {}, Validity::days(1)), UsageError);
  EXPECT_THROW(issue_certificate(authority_, "x", {"a,DNS:b"}, Validity::days(1)), UsageError);
}

}  // namespace
}  // namespace convoy::server::transport::test
