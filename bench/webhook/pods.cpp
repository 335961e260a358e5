// Pod creations on a real API server, alternating between with and without the webhook.
#include "fixture.hpp"
#include "qm/admission/webhook/registration.hpp"
#include "qm/admission_policy/policy.hpp"

#include <fstream>
#include <mutex>
#include <optional>
#include <thread>
#include <unistd.h>

namespace qm::bench {
namespace {

namespace webhook = admission::webhook;

struct Creates {
  std::vector<double> without, with;
};
enum class Turns { kBoth, kWith, kWithout };
/// The client that creates pods, and the kind of pods.
struct Maker {
  std::string kind;            ///< of the measures: "alone" or "of_job"
  kube::ClientOptions client;  ///< of the client that creates them
  std::string ns;              ///< with the webhook; ns-free is without
  Json owner, owner_free;      ///< the owner reference in each; null = none
  [[nodiscard]] Json pod(const std::string& name, bool asked) const {
    auto out = gpu_pod(name);
    const auto& of = asked ? owner : owner_free;
    if (of.is_null()) return out;
    out.set("metadata").set("ownerReferences", Json::array({of}));
    auto& labels = out.set("metadata").set("labels");
    labels.set(admission_policy::kJudged, "true").set("batch.kubernetes.io/controller-uid", of["uid"]);
    return out;
  }
};
/// Creates and deletes pods for a while, alternating between a namespace with the webhook and one without, so that
/// other load on the host affects both.
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
        // Each follows the other as often as itself: the scheduler's work for a pod without gates falls into the next
        // creation.
        const bool asked = turns == Turns::kBoth ? (i + i / 2) % 2 == 0 : turns == Turns::kWith;
        const auto where = asked ? maker.ns : maker.ns + "-free";
        const auto name = "p-" + std::to_string(round) + "-" + std::to_string(c) + "-" + std::to_string(i);
        const auto pod = maker.pod(name, asked);
        const auto begin = Clock::now();
        const auto made = must(client.create(kube::resources::kPods, where, pod));
        (asked ? own.with : own.without).push_back(ms(Clock::now() - begin));
        if (gated(made) != (asked && maker.owner.is_null())) {
          std::cerr << "the webhook was called when it should not be, or not called when it should be\n";
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

/// Processor time of the API server so far, if the peer's folder contains its process id.
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

/// The cost of a creation in processor time, of the API server and of this process, client and webhook: unlike a
/// duration it does not depend on the load of the host. Deletions are in both.
void processor_time(Report& report, const Maker& maker, int clients, int seconds) {
  if (!api_cpu_ms()) return;
  double cost[2] = {0, 0};
  for (const auto turns : {Turns::kWithout, Turns::kWith}) {
    const double api = *api_cpu_ms();
    const double own = processor_seconds();
    const auto took = creates(maker, clients, seconds, turns);
    const auto n = static_cast<double>(took.with.size() + took.without.size());
    cost[turns == Turns::kWith ? 1 : 0] = (*api_cpu_ms() - api + (processor_seconds() - own) * 1000) / n;
  }
  report.add("without_cpu_ms", cost[0]);
  report.add("with_cpu_ms", cost[1]);
  report.add("added_cpu_ms", cost[1] - cost[0]);
}

void measure(const Maker& maker, int clients, int seconds) {
  Report report("webhook.pods." + maker.kind, {{"clients", clients}});
  std::size_t all = 0;
  for (int repeat = -1; repeat < kRepeats; ++repeat) {
    const auto took = creates(maker, clients, repeat < 0 ? 2 : seconds, Turns::kBoth);
    if (repeat < 0) continue;
    all += took.with.size();
    for (const auto& [name, share] : {std::pair{"p50_ms", 0.5}, std::pair{"p99_ms", 0.99}}) {
      const double without = at_share(took.without, share), with = at_share(took.with, share);
      report.add(std::string("without_") + name, without);
      report.add(std::string("with_") + name, with);
      report.add(std::string("added_") + name, with - without);
    }
    processor_time(report, maker, clients, seconds / 2 + 1);
  }
  report.add("creates_of_each", static_cast<double>(all));
  report.print();
}

/// A Job that its controller ignores, so that pods can be created in its name.
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

}  // namespace

void pods(int clients, int seconds) {
  const auto options = api_server();
  kube::Client client(options);
  const auto ns = "qm-bench-" + std::to_string(::getpid());
  make_space(client, ns, ns);
  make_space(client, ns + "-free", "free");
  const Running running(ns);
  webhook::Registration registration;
  registration.name = ns;
  registration.url = running.origin();
  registration.only = "bench=" + ns;
  must(enrol(client, registration, running.certified.authority.certificate));
  await_gated(client, ns);
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
  must(client.remove(kMutating, "", ns, {}));
  must(client.remove(kValidating, "", ns, {}));
  for (const auto& name : {ns, ns + "-free"}) remove_space(client, name);
}

}  // namespace qm::bench
