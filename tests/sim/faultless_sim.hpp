#pragma once
#include "actors.hpp"
#include "executors.hpp"
#include "qm/config/manifest.hpp"
#include "steady_clock.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace qm::sim {

/// Admission, placement and autoscaler as in production over a world without faults, for tests that measure times.
///
/// Order    add the nodes that exist from the start to `world`, then begin().
class FaultlessSim {
 public:
  explicit FaultlessSim(std::uint64_t seed) : random_(seed), world(random_, Bug::kNone) {
    world.start(clock.now());
    world.broken = broken_;
    static int run = 0;
    bus_ = *bus::make_bus(fmt::format("memory:faultless-{}", ++run));
    service::HostOptions options;
    options.service = "admission";
    options.consumes = {"qm.placement", "qm.capacity"};
    options.produces = {"qm.workload"};
    services_.push_back(make(options, &jobs_, [] {
      return std::make_unique<admission::AdmissionShell>(std::make_unique<admission::Engine>(), admission::Codec{});
    }));
    services_.push_back(make(placement::host_options("default"), &pods_, [] {
      return std::make_unique<placement::Shell>(std::make_unique<placement::Engine>(), placement::Codec{});
    }));
    services_.push_back(make(autoscaler::host_options("default"), &cloud_, [] {
      return std::make_unique<autoscaler::Shell>(std::make_unique<autoscaler::Engine>(autoscaler::catalog_types()),
                                                 autoscaler::Codec{});
    }));
    jobs_.awaited = [this](const auto& ns, const auto& name, const auto& intent) {
      return admission::awaits(services_[0]->host(), ns, name, intent);
    };
  }

  void begin(const std::string& queues) {
    for (auto& service : services_) service->pass();
    (void)placement().host().submit(placement::watch_started());
    watches_.emplace_back(world, World::Kind::kJob, admission());
    watches_.emplace_back(world, World::Kind::kPod, placement());
    watches_.emplace_back(world, World::Kind::kNode, placement());
    polls_ = std::make_unique<CloudLooks>(world, autoscaler());
    world.changed = [this](World::Kind kind, const std::string& key, const Json& object, bool deleted) {
      observed(kind, key);
      watches_[static_cast<std::size_t>(kind)].change(key, object, deleted);
    };
    for (auto& watch : watches_) watch.restart();
    (void)admission().host().submit(apply_input(queues), [](const Result<std::string>& answer) {
      if (!answer) ADD_FAILURE() << answer.error().to_string();
    });
    settle();
  }

  void create(const std::string& ns, const std::string& name, PodSet set, int run_s) {
    WorkloadSpec spec;
    spec.ns = Namespace(ns);
    spec.name = name;
    spec.queue = "main";
    spec.team = Team(ns);
    spec.pod_sets.push_back(std::move(set));
    world.create_job(config::job_from_workload(spec, {{"fleet.quartermaster.dev/run-seconds", std::to_string(run_s)}}),
                     "kubectl");
  }

  void tick(Duration by) {
    clock.advance(by);
    advance_steady_time(by);
    world.advance(clock.now());
    for (auto& service : services_) service->pass();
  }
  /// One step of each kind for each service, each of which takes `cost` if there was work. True if there was any.
  bool turn(Duration cost = Duration::zero()) {
    bool busy = polls_->step();
    for (auto& watch : watches_) busy = watch.deliver(10'000) || busy;
    for (auto& service : services_) {
      for (const auto step :
           {Service::Step::kConsume, Service::Step::kPump, Service::Step::kRelay, Service::Step::kExecute}) {
        if (!service->step(step)) continue;
        busy = true;
        if (cost > Duration::zero()) tick(cost);
      }
    }
    return busy;
  }
  /// Runs all services until they are idle; decisions take no simulated time.
  void settle() {
    while (turn()) {
    }
  }

  [[nodiscard]] Service& admission() { return *services_[0]; }
  [[nodiscard]] Service& placement() { return *services_[1]; }
  [[nodiscard]] Service& autoscaler() { return *services_[2]; }

  ManualClock clock{*from_rfc3339("2026-11-21T00:00:00Z")};

 private:
  std::unique_ptr<Service> make(service::HostOptions options, service::Executor* executor,
                                std::function<std::unique_ptr<service::Shell>()> shell) {
    Service::Parts parts;
    parts.options = std::move(options);
    parts.shell = std::move(shell);
    parts.executor = executor;
    parts.bus = bus_;
    parts.broken = broken_;
    parts.random = &random_;
    return std::make_unique<Service>(std::move(parts), clock);
  }

  Random random_;

 public:
  World world;
  /// An object of the world changed, at the time of the clock.
  std::function<void(World::Kind, const std::string& key)> observed = [](World::Kind, const std::string&) {};

 private:
  std::function<void(const std::string&)> broken_ = [](const std::string& what) { ADD_FAILURE() << what; };
  Outages no_outages_;
  JobExecutor jobs_{world, random_, no_outages_, Bug::kNone};
  PodExecutor pods_{world, random_, no_outages_};
  CloudExecutor cloud_{world, random_, no_outages_};
  std::shared_ptr<bus::Bus> bus_;
  std::vector<std::unique_ptr<Service>> services_;
  std::vector<Watch> watches_;
  std::unique_ptr<CloudLooks> polls_;
};

}  // namespace qm::sim
