#include "qm/base/crash_point.hpp"
#include "qm/base/digest.hpp"
#include "qm/bus/memory.hpp"
#include "qm/wire/last_state.hpp"
#include "quartermaster/v1/placement_service.pb.h"
#include "simulation.hpp"
#include "steady_clock.hpp"

#include <cstdlib>
#include <deque>

namespace qm::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

struct Line {
  std::string text, topic, payload;
};
struct Progress {
  std::uint64_t seed = 0;
  std::deque<Line> lines;
} progress;

constexpr std::size_t kLines = 60;
/// Prints every step, and after a failure the state of each service.
const bool kTrace = std::getenv("QM_SIM_TRACE") != nullptr;
const bool kDecisions = std::getenv("QM_SIM_DECISIONS") != nullptr;

constexpr const char* kQueues = R"(
apiVersion: kueue.x-k8s.io/v1beta1
kind: ResourceFlavor
metadata: {name: default}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: WorkloadPriorityClass
metadata: {name: high}
value: 1000
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: a}
spec:
  cohort: all
  namespaceSelector: {}
  preemption: {withinClusterQueue: LowerPriority, reclaimWithinCohort: Any}
  resourceGroups:
  - coveredResources: ["nvidia.com/gpu", "nvidia.com/mig-1g.10gb", "cpu"]
    flavors:
    - name: default
      resources: [{name: "nvidia.com/gpu", nominalQuota: "24"}, {name: "nvidia.com/mig-1g.10gb", nominalQuota: "14"}, {name: cpu, nominalQuota: "4000"}]
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: b}
spec:
  cohort: all
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: ["nvidia.com/gpu", "nvidia.com/mig-1g.10gb", "cpu"]
    flavors:
    - name: default
      resources: [{name: "nvidia.com/gpu", nominalQuota: "16"}, {name: "nvidia.com/mig-1g.10gb", nominalQuota: "14"}, {name: cpu, nominalQuota: "4000"}]
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: LocalQueue
metadata: {name: main, namespace: team-a}
spec: {clusterQueue: a}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: LocalQueue
metadata: {name: main, namespace: team-b}
spec: {clusterQueue: b}
)";

/// One budget that is soon used up and starts a new period before long, and one in dollars for all of a namespace.
std::vector<cost::Budget> draw_budgets(Random& random, Instant now) {
  if (random.chance(400)) return {};
  cost::Budget hours;
  hours.name = "hours";
  hours.cluster_queue = "a";
  hours.amount = random.between(0, 12) * 3'600'000;
  hours.period = cost::BudgetPeriod::kDay;
  const Duration until_midnight = std::chrono::hours(24) - (now.time_since_epoch() % std::chrono::hours(24));
  hours.utc_offset = until_midnight - minutes(random.between(1, 30));
  hours.carry_over_permille = static_cast<std::int32_t>(random.between(0, 1000));
  hours.default_run = minutes(random.between(1, 40));
  cost::Budget dollars;
  dollars.name = "dollars";
  dollars.ns = "team-b";
  dollars.unit = cost::BudgetUnit::kNanoUsd;
  dollars.amount = random.between(0, 200) * 1'000'000'000;
  dollars.soft = random.chance(500);
  return {hours, dollars};
}

}  // namespace

Sim::Sim(std::uint64_t seed, Bug bug)
    : random_(seed),
      later_(~seed),
      bug_(bug),
      sliced_(seed % 5 == 0),
      mig_on_demand_(seed % 10 == 0),
      elastic_(seed % 7 == 3),
      work_queue_(seed % 7 == 5),
      // Some runs cross the end of a month.
      clock_(random_.chance(250) ? *from_rfc3339("2026-11-30T23:50:00Z") : *from_rfc3339("2026-11-21T08:00:00Z")),
      world_(random_, bug),
      jobs_(world_, random_, faults_.outages, bug),
      pods_(world_, random_, faults_.outages),
      cloud_(world_, random_, faults_.outages) {
  progress.seed = seed;
  progress.lines.clear();
  faults_.draw(random_);
  faults_.draw_later(later_);
  report_.faults = faults_.names;
  plant(bug);
  world_.start(clock_.now());
  world_.broken = broken_;
  world_.note = [this](std::string text) { say(std::move(text)); };
  make_services(seed);
}

void Sim::say(std::string text, std::string topic, std::string payload) {
  hash_.add(text);  // without the payload: maps have no order in protobuf bytes
  progress.lines.push_back(
      {fmt::format("{:9.3f} {}", static_cast<double>(micros(clock_.now()) % 86'400'000'000) / 1e6, text),
       std::move(topic), std::move(payload)});
  if (kTrace) {
    const Line& line = progress.lines.back();
    fmt::print(stderr, "{} {}\n", line.text, line.topic.empty() ? "" : telemetry::summary_of(line.topic, line.payload));
  }
  if (progress.lines.size() > kLines) progress.lines.pop_front();
}

void Sim::make_services(std::uint64_t seed) {
  static std::uint64_t run = 0;
  bus_ = *bus::make_bus(fmt::format("memory:sim-{}-{}", seed, ++run));
  const auto add = [&](service::HostOptions options, service::Executor* executor, auto shell,
                       std::function<bool(const bus::Message&)> lose = {}) {
    options.digest_each_batch = true;
    Service::Parts parts;
    parts.options = std::move(options);
    parts.shell = std::move(shell);
    parts.executor = executor;
    parts.bus = chaos_bus(bus_, random_, faults_.bus, broken_, std::move(lose));
    parts.broken = broken_;
    parts.bug = bug_;
    parts.random = &random_;
    parts.note = [this](std::string text) { say(std::move(text)); };
    parts.opened = [this](Service& service) { opened(service); };
    parts.in_call = [this](Service& service) { in_call(service); };
    parts.blocked = [this](Service&, Process& process) { blocked(process); };
    parts.options.snapshot = [this](const std::string& topic, const auto&) { return snapshot(topic); };
    parts.options.last_state = [this](const std::string& topic, const std::string& key, bool rolled_back) {
      const bool kept = bug_ == Bug::kNoTombstones || bug_ == Bug::kSnapshotSkipped;
      return kept ? std::nullopt : wire::last_state(topic, key, rolled_back);
    };
    services_.push_back(std::make_unique<Service>(std::move(parts), clock_));
    return services_.back().get();
  };
  service::HostOptions admission;
  admission.service = "admission";
  admission.consumes = {"qm.placement", "qm.capacity", "qm.cost"};
  admission.produces = {"qm.workload"};
  // In half of the seeds each batch is decided before the one before it is written.
  if (seed % 2 == 0) admission.overlap_from = 0;
  std::function<bool(const bus::Message&)> unheard;
  if (bug_ == Bug::kRequeueUnheard) {
    unheard = [](const bus::Message& m) { return m.at.topic == "qm.placement" && m.key == "requeue"; };
  }
  five_.admission = add(
      admission, &jobs_,
      [] {
        return std::make_unique<admission::AdmissionShell>(std::make_unique<admission::Engine>(), admission::Codec{});
      },
      unheard);
  jobs_.awaited = [this](const auto& ns, const auto& name, const auto& intent) {
    return admission::awaits(five_.admission->host(), ns, name, intent);
  };
  placement::Options placing;
  Random of_proposals(seed);  // separate, too
  placing.preemption.on = of_proposals.chance(500);
  placing.preemption.after = seconds(of_proposals.between(0, 40));
  if (of_proposals.chance(500)) placing.returning = seconds(of_proposals.between(60, 400));
  placing.defrag.on = of_proposals.chance(500);
  placing.defrag.every = seconds(of_proposals.between(20, 300));
  placing.defrag.least_gpus = 1;
  placing.defrag.max_lost_gpu_seconds = 100'000;
  placing.mig_repartition.on = mig_on_demand_;
  placing.mig_repartition.pools = {kLayoutPool};
  placing.mig_repartition.after = seconds(of_proposals.between(0, 40));
  five_.placement = add(placement::host_options("default"), &pods_, [placing] {
    return std::make_unique<placement::Shell>(std::make_unique<placement::Engine>(placing), placement::Codec{});
  });
  five_.autoscaler = add(autoscaler::host_options("default"), &cloud_, [] {
    return std::make_unique<autoscaler::Shell>(std::make_unique<autoscaler::Engine>(autoscaler::catalog_types()),
                                               autoscaler::Codec{});
  });
  five_.telemetry = add(telemetry::host_options("default"), &orders_, [] {
    return std::make_unique<telemetry::Shell>(std::make_unique<telemetry::Engine>(), telemetry::Codec{});
  });
  std::function<bool(const bus::Message&)> lose;
  if (bug_ == Bug::kCostLosesStops) {
    lose = [](const bus::Message& m) {
      return m.at.topic == "qm.capacity" && m.key.starts_with("instance/") && m.key.back() % 3 == 0 && m.offset > 5;
    };
  }
  five_.cost = add(
      cost::host_options("default"), nullptr,
      [] { return std::make_unique<cost::Shell>(std::make_unique<cost::Engine>(), cost::Codec{}); }, lose);

  Random of_budgets(seed);  // separate, so that seeds without budgets keep their schedules
  budgets_ = draw_budgets(of_budgets, clock_.now());
  watches_.emplace_back(world_, World::Kind::kJob, *five_.admission);
  watches_.emplace_back(world_, World::Kind::kPod, *five_.placement);
  watches_.emplace_back(world_, World::Kind::kNode, *five_.placement);
  world_.changed = [this](World::Kind kind, const std::string& key, const Json& object, bool deleted) {
    watches_[static_cast<std::size_t>(kind)].change(key, object, deleted);
    if (random_.chance(faults_.watch_repeat)) watches_[static_cast<std::size_t>(kind)].repeat_last();
  };
  looks_ = std::make_unique<CloudLooks>(world_, *five_.autoscaler);
  agents_ = std::make_unique<Agents>(world_, random_, *five_.telemetry, hub_);
  users_ = std::make_unique<Users>(world_, random_, *five_.admission);
}

void Sim::opened(Service& service) {
  say(fmt::format("{} leads {}", service.leader().holder, service.name()));
  if (&service == five_.telemetry) hub_ = std::make_unique<telemetry::AgentHub>();
  (void)service.host().follow(
      service.host().feed_position(), [this, name = service.name()](const service::FeedEvent& e) {
        count_proposals(e, report_);
        if (kDecisions) decisions_.add(name, e);
        say(fmt::format("{} says {} {} v{}{}", name, e.topic, e.key, e.key_version, e.tombstone ? " (last)" : ""),
            e.topic, e.payload);
      });
  if (&service == five_.admission) {
    watches_[0].restart();
    // Until a restore is detected, a repeated call is answered from memory.
    if (restored_) configured_ = false;
  }
  if (&service == five_.placement) {
    (void)service.host().submit(placement::watch_started());
    if (mig_on_demand_) offer_layout();
    watches_[1].restart();
    watches_[2].restart();
  }
  if (&service == five_.telemetry) agents_->restart();
  if (&service == five_.autoscaler) {
    looks_->restart();
    autoscaler::Pool pool;
    pool.name = "gpu";
    pool.instance_types = {CloudLooks::kType};
    pool.markets = {autoscaler::Market::kOnDemand, autoscaler::Market::kSpot};
    pool.zones = {CloudLooks::kZone};
    pool.limit_gpus = 48;
    pool.consolidate_after = minutes(2);
    (void)service.host().submit(autoscaler::pools_input({pool}));
  }
  if (&service == five_.cost) {
    (void)service.host().submit(cost::prices_input(cost::builtin_prices()));
    publish_budgets();
  }
}

/// mig-manager's list of allowed layouts: one layout, which is sent again after each start.
void Sim::offer_layout() {
  quartermaster::v1::OrderLayoutsRequest request;
  request.set_manifest(fmt::format(
      "version: v1\nmig-configs:\n  {}:\n  - {{devices: [0, 1], mig-enabled: true, mig-devices: {{1g.10gb: 7}}}}\n",
      kLayout));
  request.set_source("layouts.yaml");
  service::Input input;
  input.source = service::Source::kRequest;
  input.name = "OrderLayouts";
  input.id = fmt::format("layouts-{}", ++offers_);
  input.bytes = request.SerializeAsString();
  (void)five_.placement->host().submit(std::move(input), [this](const Result<std::string>& answer) {
    if (!answer && answer.error().code == Code::kInvalid) broken_(answer.error().to_string());
  });
}

void Sim::publish_budgets() {
  if (five_.cost->up()) (void)five_.cost->host().submit(cost::budgets_input(budgets_));
}

void Sim::kill(Service& service) {
  service.kill(service.leader(), static_cast<int>(random_.between(0, 15)));
  if (random_.chance(300)) service.kill(service.other(), static_cast<int>(random_.between(0, 15)));
}

void Sim::tick(Duration by) {
  clock_.advance(by);
  advance_steady_time(by);
  world_.advance(clock_.now());
  for (auto& service : services_) service->pass();
}

void Sim::turn(Service& service, bool busy) {
  constexpr const char* kNames[] = {"consumes", "pumps", "relays", "executes"};
  std::vector<Service::Step> steps{Service::Step::kConsume, Service::Step::kPump, Service::Step::kRelay,
                                   Service::Step::kExecute};
  if (busy) random_.shuffle(steps);
  for (const auto step : steps) {
    if (busy && random_.chance(300)) continue;
    int times = step == Service::Step::kExecute ? (busy ? static_cast<int>(random_.between(1, 4)) : 20) : 1;
    for (; times > 0 && service.up(); --times) {
      if (step == Service::Step::kPump && random_.chance(faults_.commit)) {
        const bool really = random_.chance(500);
        const auto outcome = random_.chance(500) ? store::CommitOutcome::kNotCommitted : store::CommitOutcome::kInDoubt;
        say(fmt::format("the next commit of {} is {}", service.name(),
                        outcome == store::CommitOutcome::kNotCommitted ? "refused"
                        : really                                       ? "in doubt and there"
                                                                       : "in doubt and not there"));
        store::plant_outcome(service.disk(), outcome, really);
      }
      if (step == Service::Step::kRelay && random_.chance(faults_.publish)) {
        bus::plant_publish(*bus_, random_.chance(500) ? Code::kUnknown : Code::kUnavailable, random_.chance(500));
      }
      if (!service.step(step)) break;
      if (step != Service::Step::kExecute) {
        say(fmt::format("{} {}", service.name(), kNames[static_cast<int>(step)]));
      }
    }
    service.step_deposed(step);
  }
}

void Sim::apply_config() {
  if (configured_ || !five_.admission->up() || asked_ + seconds(5) > clock_.now()) return;
  asked_ = clock_.now();
  std::string queues = kQueues;
  for (std::size_t at = 0;
       elastic_ && (at = queues.find("nvidia.com/gpu\", nominalQuota: \"", at)) != std::string::npos;)
    queues.insert(at += std::string_view("nvidia.com/gpu\", nominalQuota: \"").size(), "9");
  (void)five_.admission->host().submit(apply_input(queues), [this](const Result<std::string>& answer) {
    if (answer) configured_ = true;
    if (!answer && answer.error().code == Code::kInvalid) broken_(answer.error().to_string());
  });
}

void Sim::outside(bool busy) {
  apply_config();
  if (configured_) users_->step();
  for (auto& watch : watches_) {
    if (busy && random_.chance(faults_.watch_hold)) continue;
    watch.deliver(busy ? random_.between(1, 20) : 10'000);
  }
  if (!busy || random_.chance(600)) looks_->step();
  if (!busy || random_.chance(500)) agents_->step(faults_.fact_repeat);
}

void Sim::turn_all(bool busy) {
  std::vector<Service*> order = five_.all();
  if (busy) random_.shuffle(order);
  for (Service* service : order) {
    service->turn();
    turn(*service, busy);
  }
}

Report Sim::run() {
  try {
    looks_->quotes.emplace_back(clock_.now(), random_.between(15, 50) * 1'000'000'000);
    const auto statics = random_.between(1, 3);
    for (std::int64_t i = 0; i < statics; ++i) world_.add_static(CloudLooks::kType);
    if (sliced_)
      world_.add_static(CloudLooks::kType, mig_on_demand_ ? World::MigMode::kOnRequest : World::MigMode::kFromStart);
    for (auto& service : services_) service->pass();
    users_->plan(static_cast<int>(random_.between(4, 14)), minutes(10), {sliced_, elastic_, work_queue_});
    const int turns = static_cast<int>(random_.between(200, 500));
    for (int i = 0; i < turns; ++i) {
      tick(milliseconds(random_.chance(300) ? random_.between(1, 300) : random_.between(300, 4000)));
      outside(true);
      turn_all(true);
      // The loss of a list, together with all other messages of its topic, is detected with the next message.
      if (emptied_.contains("qm.placement") || emptied_.contains("qm.workload")) {
        waits_.clear();
      } else {
        check_waits(five_, clock_.now(), waits_, broken_);
      }
      inject_faults();
      if (i % 50 == 0) check_running(five_, clock_.now(), lossy(), broken_);
      if (i % 10 == 0) report_.returning += returning(five_);
    }

    say("calm");
    faults_.end();
    for (auto& service : services_) {
      for (Process* process : {&service->leader(), &service->other()}) process->clock.correct();
    }
    // A user raises budgets that are too small for all jobs.
    for (auto& budget : budgets_) budget.amount = std::int64_t{1} << 50;
    disarm_crash_points();
    publish_of_other_cluster();
    world_.no_capacity = false;
    if (bug_ == Bug::kLaunchTwice || bug_ == Bug::kCreateTwice) faults_.outages.answer_lost_per_mille = 100;
    const Instant limit = clock_.now() + std::chrono::hours(5);
    std::string left = "not looked yet";
    for (int i = 0; !left.empty(); ++i) {
      tick(milliseconds(random_.between(1000, 8000)));
      if (i % 50 == 0) publish_budgets();  // a process that was stopped at the first time lists them when it continues
      outside(false);
      turn_all(false);
      check_waits(five_, clock_.now(), waits_, broken_);
      if (i % 4 == 0) left = agents_->idle() ? unfinished(five_, world_, *users_) : "agents have work";
      if (i % 100 == 0) check_running(five_, clock_.now(), lossy(), broken_);
      if (clock_.now() > limit) throw LawBroken{"five hours of calm and this is left: " + left};
    }
    // Only deliveries are left: the last events, and the settlement of the ledger, which waits for events of instances.
    for (int i = 0; i < 60 || (i < 600 && !settled(five_)); ++i) {
      tick(seconds(30));
      outside(false);
      turn_all(false);
      turn_all(false);
    }
    for (auto& service : services_) {
      while (service->step(Service::Step::kPump)) {  // the last batch is written
      }
    }
    check_running(five_, clock_.now(), lossy(), broken_);
    check_end(five_, world_, *users_, looks_->quotes, clock_.now(), broken_);
    std::uint64_t journals = 0;
    for (auto& service : services_) service->replay(&journals);
    hash_.add(static_cast<std::int64_t>(journals));
  } catch (const LawBroken& law) {
    report_.failure = law.what;
    report_.last_steps = steps_so_far();
    for (auto& service : services_) {
      if (kTrace && service->up())
        fmt::print(stderr, "{}: {}\n", service->name(), service->host().debug_state().dump());
    }
  }
  for (auto& service : services_) report_ += service->counts();
  report_.refused = users_->refused();
  report_.starts = world_.starts;
  report_.meetings = world_.meetings;
  report_.grown = world_.grown;
  report_.layouts = world_.layouts;
  report_.instances = world_.instances.size();
  report_.hash = hash_.value();
  report_.decisions = decisions_.hex();
  return report_;
}

Counts& Counts::operator+=(const Counts& more) {
  constexpr std::uint64_t Counts::*kAll[] = {
      &Counts::starts,      &Counts::batches,     &Counts::crashes,   &Counts::undone,    &Counts::reloads,
      &Counts::duplicates,  &Counts::instances,   &Counts::claims,    &Counts::deposed,   &Counts::restores,
      &Counts::rollbacks,   &Counts::lost_events, &Counts::breaks,    &Counts::abandoned, &Counts::truncations,
      &Counts::recreations, &Counts::emptied,     &Counts::snapshots, &Counts::jumps,     &Counts::leaps,
      &Counts::rejections,  &Counts::overlaps,    &Counts::refused,   &Counts::layouts,   &Counts::meetings,
      &Counts::returning,   &Counts::grown,       &Counts::proposed,  &Counts::withdrawn, &Counts::preempted,
      &Counts::moved,       &Counts::moved_for};
  static_assert(std::size(kAll) * sizeof(std::uint64_t) == sizeof(Counts));
  for (const auto count : kAll) this->*count += more.*count;
  return *this;
}

Report run_seed(std::uint64_t seed, Bug bug) { return Sim(seed, bug).run(); }

std::vector<std::string> steps_so_far() {
  std::vector<std::string> out;
  for (const auto& line : progress.lines) {
    out.push_back(line.topic.empty() ? line.text : line.text + ": " + telemetry::summary_of(line.topic, line.payload));
  }
  return out;
}

std::uint64_t seed_in_progress() { return progress.seed; }

}  // namespace qm::sim
