#pragma once
#include "qm/http/http.hpp"
#include "qm/kube/client.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace qm::admission::webhook {

inline const kube::Resource kNamespaces{"", "v1", "namespaces", false};
inline const kube::Resource kMutating{"admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", false};
inline const kube::Resource kValidating{"admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", false};

inline std::string env(const char* name) {
  const auto* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

/// The real API server, with the rights of an administrator.
inline kube::ClientOptions real() {
  kube::ClientOptions out;
  out.server = env("QM_KUBE_URL");
  out.token = env("QM_KUBE_TOKEN");
  out.ca_file = env("QM_KUBE_CA");
  return out;
}

inline http::Response send_to_real(http::Request request) {
  http::ClientOptions options;
  options.ca_file = real().ca_file;
  request.headers.set("Authorization", "Bearer " + real().token);
  auto answer = http::Client(real().server, options).send(request);
  return answer ? *answer : http::Response{};  // status 0
}

/// A merge patch by a cluster administrator that is not one of our service accounts.
inline http::Response by_alice(const kube::Resource& resource, const std::string& ns, const std::string& name,
                               const std::string& patch) {
  http::Request request;
  request.method = "PATCH";
  request.target = resource.path(ns, name);
  request.headers.set("Impersonate-User", "alice");
  request.headers.set("Impersonate-Group", "system:masters");
  request.headers.set("Content-Type", "application/merge-patch+json");
  request.body = patch;
  return send_to_real(std::move(request));
}

/// The object as the API server would store it after the webhooks; null if it would refuse it. Creates nothing: probe
/// Jobs would keep the Job controller busy with their pods.
inline Json dry_run(const kube::Resource& resource, const std::string& ns, Json object) {
  http::Request request;
  request.method = "POST";
  request.target = resource.path(ns) + "?dryRun=All";
  request.headers.set("Content-Type", "application/json");
  object.set("apiVersion", resource.group.empty() ? resource.version : resource.group + "/" + resource.version);
  object.set("kind", resource.plural == "jobs" ? "Job" : "Pod");
  request.body = object.dump();
  const auto answer = send_to_real(std::move(request));
  return answer.status == 201 ? Json::parse(answer.body).value_or(Json()) : Json();
}

}  // namespace qm::admission::webhook
