#pragma once
// What the modes of webhook_bench share: a pod, a cluster's picture, a webhook that runs in this process, and the way
// to a real API server.
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

/// A GPU pod that keeps every rule, in a namespace with a default queue: it is changed by the one and judged by the
/// other.
[[nodiscard]] Json gpu_pod(const std::string& name);
/// Whether it came through the door: it is gated there.
[[nodiscard]] bool gated(const Json& pod);

/// 200 namespaces, as a large cluster has them, and these with a default queue.
[[nodiscard]] std::shared_ptr<const admission::webhook::View> cluster(const std::vector<std::string>& with_queue);
/// What the rules are here.
[[nodiscard]] admission::webhook::Settings rules();

/// An authority and what it signed for 127.0.0.1, for the hours of a bench.
struct Certified {
  Certified();
  http::Identity authority, serving;
};

struct Running {
  explicit Running(const std::string& ns = "bench");
  [[nodiscard]] std::string origin() const { return "https://127.0.0.1:" + std::to_string(server->port()); }
  [[nodiscard]] std::unique_ptr<http::Client> client() const;
  std::shared_ptr<const admission::webhook::View> view;
  metrics::Registry registry;
  Certified certified;
  std::unique_ptr<admission::webhook::Server> server;
};

[[nodiscard]] std::string env(const char* name);
/// The API server of QM_KUBE_URL, as its administrator; ends the program where there is none.
[[nodiscard]] kube::ClientOptions api_server();
/// Makes a namespace with the label bench=LABEL.
void make_space(kube::Client& client, const std::string& name, const std::string& label);
void remove_space(kube::Client& client, const std::string& name);
/// Creates pods until one comes back gated: the API server has seen the registration.
void await_gated(kube::Client& client, const std::string& ns);

inline const kube::Resource kMutating{"admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", false};
inline const kube::Resource kValidating{"admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", false};

// The modes that need an API server; webhook_bench.cpp says what each of them measures.
void pods(int clients, int seconds);
void floor_of_calls(int seconds);

}  // namespace qm::bench
