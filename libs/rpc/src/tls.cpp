// Connections: plain text on loopback, TLS elsewhere. The files are watched by gRPC's own provider.
#include "qm/http/certificate.hpp"
#include "qm/rpc/channel.hpp"
#include "qm/rpc/process.hpp"
#include "qm/rpc/security.hpp"
#include "server_credentials.hpp"

#include <fmt/format.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <chrono>
#include <fstream>
#include <mutex>
#include <optional>
#include <sstream>
#include <utility>

namespace qm::rpc {
namespace {

namespace tls = grpc::experimental;

constexpr unsigned kLookEverySeconds = 1;

tl::unexpected<Error> bad(const std::string& flag, std::string what, std::string remedy) {
  return fail(Error{Code::kInvalid, std::move(what), flag, std::move(remedy)});
}

Result<std::string> read(const std::string& flag, const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  if (in) text << in.rdbuf();
  if (!in || text.str().empty())
    return bad(flag, fmt::format("{} cannot be read, or is empty", path), "name a PEM file that this process may read");
  return text.str();
}

/// The provider for the given files. gRPC refuses to watch a file without a name.
std::shared_ptr<tls::CertificateProviderInterface> provider(const TlsFiles& files) {
  if (files.certificate.empty())
    return std::make_shared<tls::FileWatcherCertificateProvider>(files.ca, kLookEverySeconds);
  return std::make_shared<tls::FileWatcherCertificateProvider>(files.key, files.certificate, files.ca,
                                                               kLookEverySeconds);
}

}  // namespace

bool is_loopback(const std::string& address) {
  if (const auto comma = address.find(','); comma != std::string::npos)
    return is_loopback(address.substr(0, comma)) && is_loopback(address.substr(comma + 1));
  if (address.starts_with("unix:")) return true;
  auto host = address.substr(0, address.rfind(':'));
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  return host == "localhost" || host == "::1" ||
         (host.starts_with("127.") && host.find_first_not_of("0123456789.") == std::string::npos);
}

Status check_tls(const TlsFiles& files, bool server) {
  if (files.certificate.empty() != files.key.empty())
    return bad(files.key.empty() ? "--tls-key" : "--tls-cert", "a certificate needs its key, and a key its certificate",
               "set both --tls-cert and --tls-key");
  if (files.ca.empty()) return bad("--tls-ca", "no certificate authority is set", "add --tls-ca FILE");
  if (server && files.certificate.empty())
    return bad("--tls-cert", "a server needs a certificate of its own", "add --tls-cert FILE and --tls-key FILE");
  QM_ASSIGN(const auto ca, read("--tls-ca", files.ca));
  if (const auto facts = http::read_certificate(ca); !facts)
    return bad("--tls-ca", fmt::format("{} contains no certificate", files.ca), "give the PEM file of the authority");
  if (files.certificate.empty()) return {};
  QM_ASSIGN(const auto certificate, read("--tls-cert", files.certificate));
  QM_ASSIGN(const auto key, read("--tls-key", files.key));
  const auto facts = http::read_certificate(certificate);
  if (!facts) return bad("--tls-cert", fmt::format("{} contains no certificate", files.certificate), "give a PEM file");
  if (!http::belongs({certificate, key}))
    return bad("--tls-key", fmt::format("{} is not the key of {}", files.key, files.certificate),
               "use the key of this certificate");
  if (facts->until < std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now()))
    return bad("--tls-cert",
               fmt::format("the certificate of {} in {} has expired", facts->common_name, files.certificate),
               "renew it; the new file is loaded without a restart");
  return {};
}

Result<std::shared_ptr<grpc::Channel>> open_channel(const std::string& address, const ClientSecurity& security,
                                                    grpc::ChannelArguments arguments) {
  if (!security.tls.any()) {
    if (!security.insecure && !is_loopback(address)) {
      return fail(Error{Code::kFailedPrecondition, fmt::format("{} would be called in plain text", address), "--tls-ca",
                        "set --tls-ca FILE, or --insecure if the network is isolated"});
    }
    return grpc::CreateCustomChannel(target_of(address), grpc::InsecureChannelCredentials(), arguments);
  }
  QM_TRY(check_tls(security.tls, false));
  tls::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(provider(security.tls));
  options.watch_root_certs();
  if (!security.tls.certificate.empty()) options.watch_identity_key_cert_pairs();
  options.set_certificate_verifier(std::make_shared<tls::HostNameCertificateVerifier>());
  // Several addresses are one target without a name: the replicas of a service have the certificate name of the
  // first.
  auto name = security.server_name;
  if (const auto comma = address.find(','); name.empty() && comma != std::string::npos)
    name = address.substr(0, address.rfind(':', comma));
  if (!name.empty()) arguments.SetSslTargetNameOverride(name);
  return grpc::CreateCustomChannel(target_of(address), tls::TlsCredentials(options), arguments);
}

Status add_token(grpc::ClientContext& context, const ClientSecurity& security) {
  auto token = security.token;
  if (token.empty() && !security.token_file.empty()) {
    QM_ASSIGN(token, read("--token-file", security.token_file));
    while (!token.empty() && (token.back() == '\n' || token.back() == '\r' || token.back() == ' ')) token.pop_back();
  }
  if (token.empty()) return {};
  // A line break inside would end the header, and gRPC aborts the process on it.
  if (token.find_first_of("\r\n\t ") != std::string::npos)
    return bad("--token", "a bearer token has no blanks", "use the token alone, without \"Bearer\"");
  context.AddMetadata("authorization", "Bearer " + token);
  return {};
}

// ---- exported metrics ----

namespace {

/// The certificates as last read: gRPC keeps a pair of certificate and key until the files have a new pair.
struct ReadLast {
  std::mutex mutex;
  std::optional<http::CertificateFacts> identity, authority;

  void read_again(const TlsFiles& files) {
    if (const auto ca = read("--tls-ca", files.ca)) {
      std::optional<http::CertificateFacts> last;
      for (const auto& one : http::split_certificates(*ca)) {
        if (const auto facts = http::read_certificate(one); facts && (!last || facts->until > last->until))
          last = *facts;
      }
      if (last) authority = last;
    }
    const auto certificate = read("--tls-cert", files.certificate);
    const auto key = read("--tls-key", files.key);
    if (!certificate || !key || !http::belongs({*certificate, *key})) return;
    if (const auto facts = http::read_certificate(*certificate)) identity = *facts;
  }
};

}  // namespace

void export_certificates(metrics::Registry& registry, const TlsFiles& files, const std::string& service) {
  if (!files.any()) return;
  registry.on_collect([files, service, known = std::make_shared<ReadLast>()] {
    const std::lock_guard lock(known->mutex);
    known->read_again(files);
    metrics::Family expiration{"qm_tls_certificate_expiration_timestamp_seconds",
                               "End of a certificate's validity, Unix time.",
                               metrics::Family::Kind::kGauge,
                               {}};
    metrics::Family not_before{"qm_tls_certificate_not_before_timestamp_seconds",
                               "Begin of the validity of a certificate, Unix time.",
                               metrics::Family::Kind::kGauge,
                               {}};
    const auto add = [&](const char* use, const std::optional<http::CertificateFacts>& facts) {
      if (!facts) return;
      const metrics::Labels labels{{"service", service}, {"use", use}};
      expiration.series.push_back({labels, static_cast<double>(facts->until.time_since_epoch().count())});
      not_before.series.push_back({labels, static_cast<double>(facts->from.time_since_epoch().count())});
    };
    add("identity", known->identity);
    add("authority", known->authority);
    return std::vector{expiration, not_before};
  });
}

// ---- server side ----

namespace {

Call call_of(const grpc_auth_context* context) {
  Call out;
  if (context == nullptr) return out;
  auto each = grpc_auth_context_property_iterator(context);
  while (const auto* property = grpc_auth_property_iterator_next(&each)) {
    const std::string_view name(property->name);
    const std::string value(property->value, property->value_length);
    if (name == GRPC_TRANSPORT_SECURITY_TYPE_PROPERTY_NAME) {
      out.tls = value == GRPC_TLS_TRANSPORT_SECURITY_TYPE || value == GRPC_SSL_TRANSPORT_SECURITY_TYPE;
    } else if (name == GRPC_X509_CN_PROPERTY_NAME) {
      out.common_name = value;
    } else if (name == GRPC_PEER_URI_PROPERTY_NAME) {
      out.uris.push_back(value);
    }
  }
  return out;
}

std::string_view view(const grpc_slice& slice) {
  return {reinterpret_cast<const char*>(GRPC_SLICE_START_PTR(slice)), GRPC_SLICE_LENGTH(slice)};
}

/// gRPC transmits a denial as code and text only, so the text includes the remedy; from_grpc separates it again.
void process(void* state, grpc_auth_context* context, const grpc_metadata* metadata, std::size_t count,
             grpc_process_auth_metadata_done_cb done, void* user_data) {
  Call call = call_of(context);
  for (std::size_t i = 0; i < count; ++i) {
    if (view(metadata[i].key) == ":path") call.path = view(metadata[i].value);
    if (view(metadata[i].key) == "authorization") call.authorization = view(metadata[i].value);
    if (view(metadata[i].key) == kForwarded) call.forwarded = view(metadata[i].value);
  }
  static_cast<Access*>(state)->check(call, [done, user_data](const Status& allowed) {
    if (allowed) return done(user_data, nullptr, 0, nullptr, 0, GRPC_STATUS_OK, nullptr);
    const auto& error = allowed.error();
    const auto text =
        error.remedy.empty() ? error.message : fmt::format("{} (remedy: {})", error.message, error.remedy);
    done(user_data, nullptr, 0, nullptr, 0, static_cast<grpc_status_code>(error.code), text.c_str());
  });
}

/// gRPC's own classes for this accept a processor with TLS only, and run it on an unbounded number of threads.
class Credentials final : public grpc::ServerCredentials {
 public:
  Credentials(grpc_server_credentials* made, std::shared_ptr<tls::CertificateProviderInterface> files,
              std::shared_ptr<Access> access)
      : made_(made), files_(std::move(files)), access_(std::move(access)) {
    if (access_) grpc_server_credentials_set_auth_metadata_processor(made_, {process, nullptr, access_.get()});
  }
  ~Credentials() override { grpc_server_credentials_release(made_); }
  Credentials(const Credentials&) = delete;
  Credentials& operator=(const Credentials&) = delete;
  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), made_);
  }
  grpc_server_credentials* made_;
  std::shared_ptr<tls::CertificateProviderInterface> files_;
  std::shared_ptr<Access> access_;
};

}  // namespace

Call call_of(const grpc::CallbackServerContext& context) {
  Call out;
  const auto peer = context.auth_context();
  const auto first = [&](const char* name) {
    const auto found = peer ? peer->FindPropertyValues(name) : std::vector<grpc::string_ref>();
    return found.empty() ? std::string() : std::string(found[0].data(), found[0].size());
  };
  const auto type = first(GRPC_TRANSPORT_SECURITY_TYPE_PROPERTY_NAME);
  out.tls = type == GRPC_TLS_TRANSPORT_SECURITY_TYPE || type == GRPC_SSL_TRANSPORT_SECURITY_TYPE;
  out.common_name = first(GRPC_X509_CN_PROPERTY_NAME);
  if (peer) {
    for (const auto& uri : peer->FindPropertyValues(GRPC_PEER_URI_PROPERTY_NAME))
      out.uris.emplace_back(uri.data(), uri.size());
  }
  const auto& metadata = context.client_metadata();
  const auto take = [&](const char* key, std::string& into) {
    if (const auto found = metadata.find(key); found != metadata.end())
      into.assign(found->second.data(), found->second.size());
  };
  take("authorization", out.authorization);
  take(kForwarded, out.forwarded);
  return out;
}

Result<std::shared_ptr<grpc::ServerCredentials>> server_credentials(const TlsFiles& files,
                                                                    std::shared_ptr<Access> access) {
  if (!files.any())
    return std::make_shared<Credentials>(grpc_insecure_server_credentials_create(), nullptr, std::move(access));
  QM_TRY(check_tls(files, true));
  auto watched = provider(files);
  auto* options = grpc_tls_credentials_options_create();
  grpc_tls_credentials_options_set_certificate_provider(options, watched->c_provider());
  grpc_tls_credentials_options_watch_root_certs(options);
  grpc_tls_credentials_options_watch_identity_key_cert_pairs(options);
  // A presented certificate must be valid; users authenticate with a token instead.
  grpc_tls_credentials_options_set_cert_request_type(options, GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY);
  return std::make_shared<Credentials>(grpc_tls_server_credentials_create(options), std::move(watched),
                                       std::move(access));
}

}  // namespace qm::rpc
