#pragma once
// Shared code of the modes of webhook_bench: a pod, a view of a cluster, a webhook in this process, and access to a
// real API server.
#include "qm/admission/webhook/server.hpp"
#include "qm/http/certificate.hpp"
#include "qm/http/http.hpp"
#include "qm/kube/client.hpp"
#include "report.hpp"

#include <memory>
#include <string>
#include <vector>

namespace qm::bench {

[[nodiscard]] double ms(Clock::duration d);

/// A GPU pod that satisfies every rule, in a namespace with a default queue: the mutating webhook changes it and the
/// validating one allows it.
[[nodiscard]] Json gpu_pod(const std::string& name);
/// True if the webhook handled the pod: it adds a scheduling gate.
[[nodiscard]] bool gated(const Json& pod);

/// 200 namespaces, as in a large cluster, and those given, with a default queue.
[[nodiscard]] std::shared_ptr<const admission_policy::View> cluster(const std::vector<std::string>& with_queue);
/// The settings of the rules.
[[nodiscard]] admission_policy::Settings rules();

/// A CA and a certificate for 127.0.0.1, valid for the hours of a bench.
struct Certified {
  Certified();
  http::Identity authority, serving;
};

struct Running {
  explicit Running(const std::string& ns = "bench");
  [[nodiscard]] std::string origin() const { return "https://127.0.0.1:" + std::to_string(server->port()); }
  [[nodiscard]] std::unique_ptr<http::Client> client() const;
  std::shared_ptr<const admission_policy::View> view;
  metrics::Registry registry;
  Certified certified;
  std::unique_ptr<admission::webhook::Server> server;
};

[[nodiscard]] std::string env(const char* name);
/// The API server of QM_KUBE_URL, as its administrator; exits the program if there is none.
[[nodiscard]] kube::ClientOptions api_server();
/// Creates a namespace with the label bench=LABEL.
void make_space(kube::Client& client, const std::string& name, const std::string& label);
void remove_space(kube::Client& client, const std::string& name);
/// Creates pods until one is returned with the gate: the API server has applied the registration.
void await_gated(kube::Client& client, const std::string& ns);

inline const kube::Resource kMutating{"admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", false};
inline const kube::Resource kValidating{"admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", false};

// The modes that need an API server; webhook_bench.cpp describes what each of them measures.
void pods(int clients, int seconds);
void floor_of_calls(int seconds);

}  // namespace qm::bench
