// The time until an informer knows all pods of a real API server (QM_KUBE_URL) from nothing, compared with the time
// that the server itself needs to send them. Prints a JSON line for each measure: the median, minimum and maximum of
// its repeats.
//
//   informer_bench [PODS]     creates PODS (5000) pods in its own namespace, measures, and deletes them
#include "qm/base/json.hpp"
#include "qm/http/http.hpp"
#include "qm/kube/client.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <mutex>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

using namespace std::chrono_literals;
using namespace qm;
using Clock = std::chrono::steady_clock;

constexpr int kRepeats = 7;
constexpr int kMakers = 8;
const kube::Resource kNamespaces{"", "v1", "namespaces", false};

template <class T>
T must(Result<T> result) {
  if (result) return std::move(*result);
  std::cerr << result.error().to_string() << '\n';
  std::exit(1);
}

std::string env(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

kube::ClientOptions server() {
  kube::ClientOptions out;
  out.server = env("QM_KUBE_URL");
  out.token = env("QM_KUBE_TOKEN");
  out.ca_file = env("QM_KUBE_CA");
  out.timeout_ms = 60'000;
  return out;
}

/// A GPU pod of a gang, of usual size.
Json pod_of(int number) {
  return must(Json::parse(fmt::format(R"({{"metadata":{{"name":"rank-{0}","labels":{{"job-name":"train-{1}",
    "kueue.x-k8s.io/queue-name":"research","batch.kubernetes.io/job-completion-index":"{2}","app":"train"}},
    "annotations":{{"quartermaster.dev/attempt":"1","quartermaster.dev/reservation":"research/train-{1}/1",
    "quartermaster.dev/devices":"0,1,2,3,4,5,6,7"}}}},
    "spec":{{"schedulerName":"none","restartPolicy":"Never","containers":[{{"name":"main","image":"example.com/train:1",
    "command":["python","-m","train"],"env":[{{"name":"RANK","value":"{2}"}},{{"name":"WORLD_SIZE","value":"8"}}],
    "resources":{{"requests":{{"cpu":"8","memory":"64Gi","nvidia.com/gpu":"8"}},"limits":{{"nvidia.com/gpu":"8"}}}}}}]}}}})",
                                      number, number / 8, number % 8)));
}

void make(const std::string& ns, int count) {
  kube::Client client(server());
  must(client.create(kNamespaces, "", Json::object({{"metadata", Json::object({{"name", ns}})}})));
  // If no controller creates it.
  (void)client.create({"", "v1", "serviceaccounts", true}, ns, must(Json::parse(R"({"metadata":{"name":"default"}})")));
  std::atomic<int> next = 0;
  std::vector<std::jthread> makers;
  for (int i = 0; i < kMakers; ++i) {
    makers.emplace_back([&] {
      kube::Client own(server());
      for (int n = next++; n < count; n = next++) must(own.create(kube::resources::kPods, ns, pod_of(n)));
    });
  }
}

void measure(const std::string& name, int count, const std::function<std::size_t()>& once) {
  std::vector<double> took;
  std::size_t of = 0;
  for (int i = 0; i < kRepeats; ++i) {
    const auto begin = Clock::now();
    of = once();
    took.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  std::sort(took.begin(), took.end());
  std::cout << fmt::format(
                   R"({{"measure": "{}", "pods": {}, "seconds": {:.3f}, "min": {:.3f}, "max": {:.3f}, "got": {}}})",
                   name, count, took[took.size() / 2], took.front(), took.back(), of)
            << std::endl;
}

/// From the creation of an informer to its first on_synced.
std::size_t cold(const std::string& ns) {
  kube::Client client(server());
  std::mutex mutex;
  std::condition_variable wake;
  std::size_t seen = 0;
  bool synced = false;
  kube::Informer informer(client, kube::resources::kPods, ns,
                          {[&](const Json&, bool) {
                             const std::lock_guard lock(mutex);
                             ++seen;
                           },
                           [&] {
                             const std::lock_guard lock(mutex);
                             synced = true;
                             wake.notify_all();
                           },
                           {}});
  informer.start();
  {
    std::unique_lock lock(mutex);
    if (!wake.wait_for(lock, 60s, [&] { return synced; })) {
      std::cerr << "the informer did not sync\n";
      std::exit(1);
    }
  }
  informer.stop();
  return seen;
}

/// One LIST as the server sends it, not parsed: returns its bytes.
std::size_t raw(const std::string& ns) {
  http::ClientOptions options;
  options.ca_file = env("QM_KUBE_CA");
  options.timeout = 60s;
  http::Request request;
  request.target = kube::resources::kPods.path(ns);
  request.headers.set("Authorization", "Bearer " + env("QM_KUBE_TOKEN"));
  http::Client client(env("QM_KUBE_URL"), options);
  return must(client.send(request)).body.size();
}

}  // namespace

int main(int argc, char** argv) {
  if (env("QM_KUBE_URL").empty()) {
    std::cerr << "QM_KUBE_URL is not set: ./qm peers kubernetes, then eval \"$(tools/peers/kubernetes.sh env)\"\n";
    return 2;
  }
  const int count = argc > 1 ? std::atoi(argv[1]) : 5000;
  const auto ns = fmt::format("informer-bench-{}", ::getpid());
  make(ns, count);
  // Alternating within one run would be better still; each is repeated, and the load of the host is printed around it.
  measure("raw LIST, bytes", count, [&] { return raw(ns); });
  measure("cold informer", count, [&] { return cold(ns); });
  measure("raw LIST again, bytes", count, [&] { return raw(ns); });
  kube::Client client(server());
  measure("LIST in pages of 500, read", count,
          [&] { return must(client.list_all(kube::resources::kPods, ns)).size(); });
  (void)client.remove(kNamespaces, "", ns, {});
  return 0;
}
