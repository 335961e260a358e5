#include "qm/http/http.hpp"
#include "qm/testing/testing.hpp"

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <memory>
#include <thread>

namespace qm::http {
namespace tls_test {

/// Writes a self-signed certificate for 127.0.0.1 and its key.
TlsFiles self_signed(const std::string& folder) {
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_EC_gen("P-256"), &EVP_PKEY_free);
  const std::unique_ptr<X509, decltype(&X509_free)> cert(X509_new(), &X509_free);
  X509_set_version(cert.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(cert.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(cert.get()), -60);
  X509_gmtime_adj(X509_getm_notAfter(cert.get()), 3600);
  X509_set_pubkey(cert.get(), key.get());
  auto* name = X509_get_subject_name(cert.get());
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("test"), -1, -1, 0);
  X509_set_issuer_name(cert.get(), name);
  auto* names = X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, "IP:127.0.0.1");
  X509_add_ext(cert.get(), names, -1);
  X509_EXTENSION_free(names);
  EXPECT_GT(X509_sign(cert.get(), key.get(), EVP_sha256()), 0);

  TlsFiles files{folder + "/cert.pem", folder + "/key.pem", ""};
  auto* out = std::fopen(files.certificate.c_str(), "w");
  PEM_write_X509(out, cert.get());
  std::fclose(out);
  out = std::fopen(files.key.c_str(), "w");
  PEM_write_PrivateKey(out, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  std::fclose(out);
  return files;
}

struct TlsServer {
  explicit TlsServer(bool client_certificates) : files(self_signed(folder.path())) {
    ServerOptions options;
    options.tls = files;
    if (client_certificates) options.tls->client_ca = files.certificate;
    server = std::make_unique<Server>(options, [](const Request& request) -> Answer {
      if (request.target == "/watch") {
        return {text(200, ""), [](std::shared_ptr<Stream> stream) {
                  for (int i = 0; i < 100; ++i) stream->write(std::string(1000, 'w'));
                  stream->close();
                }};
      }
      return text(200, request.method + std::string(100000, 'x') + request.body);
    });
    EXPECT_TRUE(server->start());
  }
  [[nodiscard]] std::string origin() const { return "https://127.0.0.1:" + std::to_string(server->port()); }
  testing::TempDir folder;
  TlsFiles files;
  std::unique_ptr<Server> server;
};

TEST(Tls, TrustedByItsCa) {
  TlsServer fixture(false);
  ClientOptions options;
  options.ca_file = fixture.files.certificate;
  Client client(fixture.origin(), options);
  Request request;
  request.method = "POST";
  request.body = std::string(300000, 'b');
  for (int i = 0; i < 3; ++i) {
    const auto answer = client.send(request);
    ASSERT_TRUE(answer) << answer.error().to_string();
    EXPECT_EQ(answer->body, "POST" + std::string(100000, 'x') + request.body);
  }
  Request watch;
  watch.target = "/watch";
  std::size_t got = 0;
  const auto ended = client.stream(watch, {},
                                   [&](std::string_view chunk) {
                                     got += chunk.size();
                                     return true;
                                   },
                                   {});
  EXPECT_TRUE(ended) << ended.error().to_string();
  EXPECT_EQ(got, 100000U);
}

TEST(Tls, AnUnknownCertificateIsRefused) {
  TlsServer fixture(false);
  const auto answer = Client(fixture.origin()).send({});
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::kUnauthenticated);
  EXPECT_EQ(answer.error().field, "ca_file");
  ClientOptions insecure;
  insecure.insecure = true;
  EXPECT_TRUE(Client(fixture.origin(), insecure).send({}));
}

TEST(Tls, AnotherNameIsRefused) {
  TlsServer fixture(false);
  ClientOptions options;
  options.ca_file = fixture.files.certificate;
  const auto answer = Client("https://localhost:" + std::to_string(fixture.server->port()), options).send({});
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::kUnauthenticated);
}

TEST(Tls, AClientCertificateIsAskedWhereACaIsNamed) {
  TlsServer fixture(true);
  ClientOptions options;
  options.ca_file = fixture.files.certificate;
  EXPECT_FALSE(Client(fixture.origin(), options).send({}));
  options.certificate = fixture.files.certificate;
  options.key = fixture.files.key;
  const auto answer = Client(fixture.origin(), options).send({});
  EXPECT_TRUE(answer) << answer.error().to_string();
}

TEST(Tls, AClientCertificateMayComeFromMemory) {
  TlsServer fixture(true);
  ClientOptions options;
  options.ca = testing::read_file(fixture.files.certificate);
  options.identity = Identity{options.ca, testing::read_file(fixture.files.key)};
  const auto answer = Client(fixture.origin(), options).send({});
  EXPECT_TRUE(answer) << answer.error().to_string();
  options.identity->key = "no key";
  EXPECT_EQ(Client(fixture.origin(), options).send({}).error().code, Code::kInvalid);
  options.identity->certificate = "no certificate";
  EXPECT_EQ(Client(fixture.origin(), options).send({}).error().code, Code::kInvalid);
}

TEST(Tls, MissingFilesAreNamed) {
  ServerOptions server;
  server.tls = TlsFiles{"/nowhere/cert.pem", "/nowhere/key.pem", ""};
  const auto started = Server(server, [](const Request&) { return text(200, ""); }).start();
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code, Code::kInvalid);
  EXPECT_NE(started.error().message.find("/nowhere/cert.pem"), std::string::npos);
  ClientOptions client;
  client.ca_file = "/nowhere/ca.pem";
  EXPECT_EQ(Client("https://127.0.0.1:1", client).send({}).error().code, Code::kInvalid);
}

}  // namespace tls_test
}  // namespace qm::http
