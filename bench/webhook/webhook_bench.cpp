// What the webhook costs. Prints a JSON line for each measure, with the median of its repeats and the smallest and largest
// of them.
//
//   webhook_bench decide [POLICY]     the decision alone, in this thread; by the rules of a policy file, too
//   webhook_bench review RATE         reviews over HTTPS on kept connections, from the moment each is due
//   webhook_bench saturated N         the same from N connections without a pause
//   webhook_bench pods N SECONDS      pod creates on a real API server (QM_KUBE_URL), by N clients, in turns in a
//                                     namespace with the webhook and in one without: pods alone in the world, and pods
//                                     of a judged Job as the Job controller makes them
#include "qm/admission/webhook/policy_file.hpp"
#include "qm/admission/webhook/registration.hpp"
#include "qm/admission/webhook/review.hpp"
#include "qm/admission/webhook/server.hpp"
#include "qm/base/json.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iostream>
#include <mutex>
#include <optional>
#include <thread>
#include <unistd.h>

namespace {

using namespace std::chrono_literals;
using namespace qm;
using namespace qm::admission::webhook;
using Clock = std::chrono::steady_clock;

constexpr int kRepeats = 5;

template <class T>
T must(Result<T> result) {
  if (result) return std::move(*result);
  std::cerr << result.error().to_string() << '\n';
  std::exit(1);
}
void must(const Status& status) {
  if (status) return;
  std::cerr << status.error().to_string() << '\n';
  std::exit(1);
}

double ms(Clock::duration d) { return std::chrono::duration<double, std::milli>(d).count(); }
double at_share(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values.at(static_cast<std::size_t>(share * static_cast<double>(values.size() - 1)));
}

class Report {
 public:
  Report(std::string bench, int parameter) : bench_(std::move(bench)), parameter_(parameter) {}
  void add(const std::string& measure, double value) {
    for (auto& [name, values] : measures_) {
      if (name == measure) return values.push_back(value);
    }
    measures_.push_back({measure, {value}});
  }
  void times(const std::string& prefix, const std::vector<double>& took) {
    add(prefix + "p50_ms", at_share(took, 0.5));
    add(prefix + "p99_ms", at_share(took, 0.99));
  }
  void print() const {
    const auto round = [](double value) { return std::round(value * 1000) / 1000; };
    for (const auto& [name, values] : measures_) {
      std::cout << Json::object({{"bench", bench_},
                                 {"parameter", parameter_},
                                 {"measure", name},
                                 {"median", round(at_share(values, 0.5))},
                                 {"min", round(at_share(values, 0))},
                                 {"max", round(at_share(values, 1))},
                                 {"repeats", static_cast<std::int64_t>(values.size())}})
                       .dump()
                << std::endl;
    }
  }

 private:
  std::string bench_;
  int parameter_;
  std::vector<std::pair<std::string, std::vector<double>>> measures_;
};

/// A GPU pod that keeps every rule, in a namespace with a default queue: it is changed by the one and judged by the other.
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

std::string review() {
  auto request = Json::object({{"uid", "705ab4f5-6393-11e8-b7cc-42010a800002"},
                               {"kind", Json::object({{"group", ""}, {"version", "v1"}, {"kind", "Pod"}})},
                               {"namespace", "bench"},
                               {"operation", "CREATE"},
                               {"userInfo", Json::object({{"username", "bench"}})},
                               {"object", gpu_pod("bench")}});
  return Json::object(
             {{"apiVersion", "admission.k8s.io/v1"}, {"kind", "AdmissionReview"}, {"request", std::move(request)}})
      .dump();
}

/// 200 namespaces, as a large cluster has them.
std::shared_ptr<const View> cluster(const std::string& ns) {
  auto out = std::make_shared<View>();
  for (int i = 0; i < 200; ++i) {
    const auto other = "team-" + std::to_string(i);
    out->namespaces[other].labels = {{"team", other}, {"env", "prod"}};
    out->local_queues[other] = {"default", "night"};
  }
  out->namespaces[ns] = {};
  out->local_queues[ns] = {"default"};
  return out;
}

struct Running {
  explicit Running(const std::string& ns = "bench") : view(cluster(ns)) {
    Settings settings;
    settings.required_labels = {{"team", {}}};
    server = std::make_unique<Server>(
        ServerOptions{}, settings, [this] { return view; }, registry);
    const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
    authority = must(http::make_authority({"bench", {}, now - 1h, now + 10h}));
    must(server->serve(must(http::make_certificate({"bench", {"127.0.0.1"}, now - 1h, now + 10h}, authority))));
  }
  [[nodiscard]] std::string origin() const { return "https://127.0.0.1:" + std::to_string(server->port()); }
  [[nodiscard]] std::unique_ptr<http::Client> client() const {
    http::ClientOptions options;
    options.ca = authority.certificate;
    return std::make_unique<http::Client>(origin(), options);
  }
  std::shared_ptr<const View> view;
  metrics::Registry registry;
  http::Identity authority;
  std::unique_ptr<Server> server;
};

http::Request post(const char* path) {
  http::Request out;
  out.method = "POST";
  out.target = path;
  out.headers.set("Content-Type", "application/json");
  out.body = review();
  return out;
}

void send(http::Client& client, const http::Request& request) {
  if (must(client.send(request)).status != 200) std::exit(1);
}

void decide(const std::string& policy) {
  const auto view = cluster("bench");
  Settings settings;
  if (!policy.empty()) must(read_policy_file(policy, settings));
  for (const auto* path : {"/mutate", "/validate"}) {
    const auto request = post(path);
    Report report(std::string(policy.empty() ? "webhook.decide" : "webhook.decide_by_policy") + path, 1);
    for (int repeat = -1; repeat < kRepeats; ++repeat) {
      const auto begin = Clock::now();
      for (int i = 0; i < 20'000; ++i) {
        if (respond(request, settings, *view).status != 200) std::exit(1);
      }
      if (repeat >= 0) report.add("us_each", ms(Clock::now() - begin) * 1000 / 20'000);
    }
    report.print();
  }
}

void reviews(int rate) {
  Running running;
  const auto request = post("/mutate");
  Report report("webhook.review", rate);
  constexpr int kClients = 4;
  for (int repeat = -1; repeat < kRepeats; ++repeat) {
    const int all = rate * (repeat < 0 ? 1 : 5);
    std::mutex mutex;
    std::vector<double> took;
    std::atomic<int> next{0};
    const auto start = Clock::now() + 50ms;
    std::vector<std::jthread> clients;
    for (int c = 0; c < kClients; ++c) {
      clients.emplace_back([&] {
        const auto client = running.client();
        std::vector<double> own;
        send(*client, request);  // opens the connection
        for (int i = next++; i < all; i = next++) {
          const auto due = start + std::chrono::nanoseconds(std::int64_t{1'000'000'000} * i / rate);
          std::this_thread::sleep_until(due);
          send(*client, request);
          own.push_back(ms(Clock::now() - due));
        }
        const std::scoped_lock lock(mutex);
        took.insert(took.end(), own.begin(), own.end());
      });
    }
    clients.clear();
    if (repeat >= 0) report.times("", took);
  }
  report.print();
}

void saturated(int connections) {
  Running running;
  const auto request = post("/mutate");
  Report report("webhook.saturated", connections);
  for (int repeat = -1; repeat < kRepeats; ++repeat) {
    std::mutex mutex;
    std::vector<double> took;
    const auto begin = Clock::now(), end = begin + (repeat < 0 ? 1s : 3s);
    std::vector<std::jthread> clients;
    for (int c = 0; c < connections; ++c) {
      clients.emplace_back([&] {
        const auto client = running.client();
        std::vector<double> own;
        send(*client, request);
        for (auto at = Clock::now(); at < end;) {
          send(*client, request);
          const auto after = Clock::now();
          own.push_back(ms(after - at));
          at = after;
        }
        const std::scoped_lock lock(mutex);
        took.insert(took.end(), own.begin(), own.end());
      });
    }
    clients.clear();
    if (repeat < 0) continue;
    report.add("per_s", static_cast<double>(took.size()) / (ms(Clock::now() - begin) / 1000));
    report.times("", took);
  }
  report.print();
}

std::string env(const char* name) {
  const auto* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

struct Creates {
  std::vector<double> without, with;
};
enum class Turns { kBoth, kWith, kWithout };
/// Who creates pods, and of what kind.
struct Maker {
  std::string kind;            ///< of the measures: "alone" or "of_job"
  kube::ClientOptions client;  ///< of who creates them
  std::string ns;              ///< with the webhook; ns-free is without
  Json owner, owner_free;      ///< the owner reference in each; null = none
  [[nodiscard]] Json pod(const std::string& name, bool asked) const {
    auto out = gpu_pod(name);
    const auto& of = asked ? owner : owner_free;
    if (of.is_null()) return out;
    out.set("metadata").set("ownerReferences", Json::array({of}));
    out.set("metadata").set("annotations").set(kJudged, "true");
    return out;
  }
};
/// Creates and deletes pods for a while, in turns in a namespace that is asked about and in one that is not, so that
/// whatever else the machine does is felt by both.
Creates creates(const Maker& maker, int clients, int seconds, Turns turns) {
  static int round = 0;
  ++round;
  std::mutex mutex;
  Creates out;
  std::vector<std::jthread> people;
  const auto end = Clock::now() + std::chrono::seconds(seconds);
  for (int c = 0; c < clients; ++c) {
    people.emplace_back([&, c] {
      kube::Client client(maker.client);
      Creates own;
      for (int i = 0; Clock::now() < end; ++i) {
        const bool asked = turns == Turns::kBoth ? i % 2 == 0 : turns == Turns::kWith;
        const auto where = asked ? maker.ns : maker.ns + "-free";
        const auto name = "p-" + std::to_string(round) + "-" + std::to_string(c) + "-" + std::to_string(i);
        const auto pod = maker.pod(name, asked);
        const auto begin = Clock::now();
        const auto made = must(client.create(kube::resources::kPods, where, pod));
        (asked ? own.with : own.without).push_back(ms(Clock::now() - begin));
        if ((made["spec"]["schedulingGates"].size() == 1) != (asked && maker.owner.is_null())) {
          std::cerr << "the webhook was asked when it should not be, or the other way round\n";
          std::exit(1);
        }
        must(client.remove(kube::resources::kPods, where, name, {.uid = {}, .grace_seconds = 0}));
      }
      const std::scoped_lock lock(mutex);
      out.with.insert(out.with.end(), own.with.begin(), own.with.end());
      out.without.insert(out.without.end(), own.without.begin(), own.without.end());
    });
  }
  people.clear();
  return out;
}

/// Processor time of the API server so far, where the peer's folder says which process it is.
std::optional<double> api_cpu_ms() {
  std::ifstream pid_file(env("QM_KUBE_RUN") + "/api.pid");
  std::string pid, word;
  if (!(pid_file >> pid)) return std::nullopt;
  std::ifstream stat("/proc/" + pid + "/stat");
  double ticks = 0;
  for (int field = 1; stat >> word; ++field) {
    if (field == 14 || field == 15) ticks += std::stod(word);
  }
  return ticks * 1000 / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

/// What a create costs in processor time, of the API server and of this process, client and webhook: unlike a duration
/// it says the same on a busy machine. Deletes are in both.
void processor_time(Report& report, const Maker& maker, int clients, int seconds) {
  if (!api_cpu_ms()) return;
  double cost[2] = {0, 0};
  for (const auto turns : {Turns::kWithout, Turns::kWith}) {
    const double api = *api_cpu_ms();
    const auto own = std::clock();
    const auto took = creates(maker, clients, seconds, turns);
    const auto n = static_cast<double>(took.with.size() + took.without.size());
    cost[turns == Turns::kWith ? 1 : 0] =
        (*api_cpu_ms() - api + static_cast<double>(std::clock() - own) * 1000 / CLOCKS_PER_SEC) / n;
  }
  report.add("without_cpu_ms", cost[0]);
  report.add("with_cpu_ms", cost[1]);
  report.add("added_cpu_ms", cost[1] - cost[0]);
}

void measure(const Maker& maker, int clients, int seconds) {
  Report report("webhook.pods." + maker.kind, clients);
  std::size_t all = 0;
  for (int repeat = -1; repeat < kRepeats; ++repeat) {
    const auto took = creates(maker, clients, repeat < 0 ? 2 : seconds, Turns::kBoth);
    if (repeat < 0) continue;
    all += took.with.size();
    report.times("without_", took.without);
    report.times("with_", took.with);
    report.add("added_p50_ms", at_share(took.with, 0.5) - at_share(took.without, 0.5));
    report.add("added_p99_ms", at_share(took.with, 0.99) - at_share(took.without, 0.99));
    processor_time(report, maker, clients, seconds / 2 + 1);
  }
  report.add("creates_of_each", static_cast<double>(all));
  report.print();
}

/// A Job that its controller leaves alone, so that pods can be made in its name.
Json owner_in(kube::Client& client, const std::string& ns) {
  auto job = must(Json::parse(R"({"metadata":{"name":"owner"},"spec":{"suspend":true,"managedBy":"example.com/bench",
      "template":{"spec":{"restartPolicy":"Never","containers":[{"name":"main","image":"x"}]}}}})"));
  const auto made = must(client.create(kube::resources::kJobs, ns, job));
  return Json::object({{"apiVersion", "batch/v1"},
                       {"kind", "Job"},
                       {"name", "owner"},
                       {"uid", kube::uid_of(made)},
                       {"controller", true}});
}

void pods(int clients, int seconds) {
  kube::ClientOptions options;
  options.server = env("QM_KUBE_URL");
  options.token = env("QM_KUBE_TOKEN");
  options.ca_file = env("QM_KUBE_CA");
  if (options.server.empty()) {
    std::cerr << "no Kubernetes: run ./qm peers kubernetes\n";
    std::exit(1);
  }
  const kube::Resource namespaces{"", "v1", "namespaces", false};
  const kube::Resource mutating{"admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", false};
  const kube::Resource validating{"admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", false};
  kube::Client client(options);
  const auto ns = "qm-bench-" + std::to_string(::getpid());
  const auto space = [&](const std::string& name, const char* label) {
    auto metadata = Json::object({{"name", name}, {"labels", Json::object({{label, ns}})}});
    must(client.create(namespaces, "", Json::object({{"metadata", std::move(metadata)}})));
  };
  space(ns, "bench");
  space(ns + "-free", "free");
  const Running running(ns);
  Registration registration;
  registration.name = ns;
  registration.url = running.origin();
  registration.only = "bench=" + ns;
  must(enrol(client, registration, running.authority.certificate));
  for (int i = 0;; ++i) {
    const auto made = must(client.create(kube::resources::kPods, ns, gpu_pod("probe-" + std::to_string(i))));
    if (made["spec"]["schedulingGates"].size() == 1) break;
    std::this_thread::sleep_for(50ms);
  }
  Maker maker{"alone", options, ns, {}, {}};
  measure(maker, clients, seconds);
  maker.kind = "of_job";
  maker.owner = owner_in(client, ns);
  maker.owner_free = owner_in(client, ns + "-free");
  const kube::Resource tokens{"", "v1", "serviceaccounts/job-controller/token", true};
  maker.client.token = must(client.create(tokens, "kube-system", Json::object({{"spec", Json::object({})}})))
                           .path("status.token")
                           .string();
  measure(maker, clients, seconds);
  must(client.remove(mutating, "", ns, {}));
  must(client.remove(validating, "", ns, {}));
  for (const auto& name : {ns, ns + "-free"}) must(client.remove(namespaces, "", name, {}));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string verb = argc > 1 ? argv[1] : "";
  const auto number = [&](int i, int fallback) { return argc > i ? std::atoi(argv[i]) : fallback; };
  if (verb == "decide") {
    decide(argc > 2 ? argv[2] : "");
  } else if (verb == "review") {
    reviews(number(2, 200));
  } else if (verb == "saturated") {
    saturated(number(2, 4));
  } else if (verb == "pods") {
    pods(number(2, 1), number(3, 6));
  } else {
    std::cerr << "webhook_bench decide [POLICY] | review RATE | saturated N | pods N SECONDS\n";
    return 2;
  }
}
