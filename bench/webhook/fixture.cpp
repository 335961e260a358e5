#include "fixture.hpp"

#include <thread>

namespace qm::bench {

using namespace std::chrono_literals;
namespace webhook = admission::webhook;

double ms(Clock::duration d) { return std::chrono::duration<double, std::milli>(d).count(); }

Json gpu_pod(const std::string& name) {
  auto out = must(Json::parse(R"({"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"team":"research","app":"train"},
      "annotations":{"note":"a pod of usual size"}},"spec":{"restartPolicy":"Never",
      "nodeSelector":{"nvidia.com/gpu.product":"H100"},"tolerations":[{"key":"nvidia.com/gpu","operator":"Exists"}],
      "containers":[{"name":"main","image":"registry.example/train:1","command":["train","--epochs","10"],
      "env":[{"name":"NCCL_DEBUG","value":"INFO"},{"name":"OMP_NUM_THREADS","value":"8"}],
      "resources":{"requests":{"cpu":"1","memory":"1Gi","nvidia.com/gpu":"1"},"limits":{"nvidia.com/gpu":"1"}}}]}})"));
  out.set("metadata").set("name", name);
  return out;
}

bool gated(const Json& pod) { return pod["spec"]["schedulingGates"].size() == 1; }

std::shared_ptr<const admission_policy::View> cluster(const std::vector<std::string>& with_queue) {
  auto out = std::make_shared<admission_policy::View>();
  for (int i = 0; i < 200; ++i) {
    const auto other = "team-" + std::to_string(i);
    out->namespaces[other].labels = {{"team", other}, {"env", "prod"}};
    out->local_queues[other] = {"default", "night"};
  }
  for (const auto& ns : with_queue) {
    out->namespaces[ns] = {};
    out->local_queues[ns] = {"default"};
  }
  return out;
}

admission_policy::Settings rules() {
  admission_policy::Settings out;
  out.required_labels = {{"team", {}}};
  return out;
}

Certified::Certified() {
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  authority = must(http::make_authority({"bench", {}, now - 1h, now + 10h}));
  serving = must(http::make_certificate({"bench", {"127.0.0.1"}, now - 1h, now + 10h}, authority));
}

Running::Running(const std::string& ns) : view(cluster({ns})) {
  server = std::make_unique<webhook::Server>(
      webhook::ServerOptions{}, rules(), [this] { return view; }, registry);
  must(server->serve(certified.serving));
}

std::unique_ptr<http::Client> Running::client() const {
  http::ClientOptions options;
  options.ca = certified.authority.certificate;
  return std::make_unique<http::Client>(origin(), options);
}

std::string env(const char* name) {
  const auto* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

kube::ClientOptions api_server() {
  kube::ClientOptions out;
  out.server = env("QM_KUBE_URL");
  out.token = env("QM_KUBE_TOKEN");
  out.ca_file = env("QM_KUBE_CA");
  if (!out.server.empty()) return out;
  std::cerr << "no Kubernetes: run ./qm peers kubernetes\n";
  std::exit(1);
}

namespace {
const kube::Resource kNamespaces{"", "v1", "namespaces", false};
}

void make_space(kube::Client& client, const std::string& name, const std::string& label) {
  auto metadata = Json::object({{"name", name}, {"labels", Json::object({{"bench", label}})}});
  must(client.create(kNamespaces, "", Json::object({{"metadata", std::move(metadata)}})));
}

void remove_space(kube::Client& client, const std::string& name) { must(client.remove(kNamespaces, "", name, {})); }

void await_gated(kube::Client& client, const std::string& ns) {
  for (int i = 0;; ++i) {
    if (gated(must(client.create(kube::resources::kPods, ns, gpu_pod("probe-" + std::to_string(i)))))) return;
    std::this_thread::sleep_for(50ms);
  }
}

}  // namespace qm::bench
