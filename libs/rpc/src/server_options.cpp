#include "qm/kube/client.hpp"
#include "qm/kube/connect.hpp"
#include "qm/rpc/process.hpp"

#include <utility>

namespace qm::rpc {
namespace {

/// The required audience of tokens, so that a token stolen from this server is not valid elsewhere, and tokens of
/// other servers are not valid here.
constexpr const char* kAudience = "quartermaster";
const kube::Resource kTokenReviews{"authentication.k8s.io", "v1", "tokenreviews", false};

Result<Review> review_of(const Settings& settings) {
  if (settings.auth == "none") return Review();
  if (settings.auth != "tokenreview") return review_by_file(settings.auth.substr(settings.auth.find(':') + 1));
  QM_ASSIGN(auto options, kube::find_server(settings.kube));
  options.timeout_ms = 5000;
  auto client = std::make_shared<kube::Client>(std::move(options));
  return review_by_kubernetes([client](const Json& review) { return client->create(kTokenReviews, {}, review); },
                              kAudience);
}

}  // namespace

ClientSecurity client_security(const Settings& settings) {
  ClientSecurity out;
  out.tls = settings.tls;
  out.insecure = settings.insecure;
  return out;
}

Result<std::shared_ptr<Access>> make_access(const Settings& settings, const std::string& service,
                                            metrics::Registry* registry, service::Host* host) {
  AccessOptions access;
  access.service = service;
  QM_ASSIGN(access.review, review_of(settings));
  if (access.review) {
    QM_ASSIGN(access.roles, RoleMap::open(settings.roles));
  }
  if (host != nullptr) {
    access.on_denied = [host](const Denial& denial) {
      service::Input input;
      input.source = service::Source::kRequest;
      input.name = denial.method.substr(denial.method.find('/') + 1);
      input.caller = denial.caller;
      input.roles = denial.roles;
      const bool known = denial.caller != "unknown";
      host->note_denied(std::move(input),
                        {known ? Code::kPermissionDenied : Code::kUnauthenticated, denial.reason, {}, {}});
    };
  }
  auto out = std::make_shared<Access>(std::move(access));
  if (registry != nullptr) out->export_to(*registry, service);
  return out;
}

Result<ServerOptions> server_options(const Settings& settings, const std::string& service, metrics::Registry* registry,
                                     service::Host* host) {
  ServerOptions out;
  out.address = settings.grpc;
  out.tls = settings.tls;
  out.insecure = settings.insecure;
  QM_ASSIGN(out.access, make_access(settings, service, registry, host));
  if (registry != nullptr) export_certificates(*registry, settings.tls, service);
  return out;
}

}  // namespace qm::rpc
