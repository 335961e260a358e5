#include "sim.hpp"

#include "executors.hpp"
#include "laws.hpp"
#include "qm/base/crash_point.hpp"
#include "qm/base/digest.hpp"
#include "quartermaster/v1/admission_service.pb.h"
#include "quartermaster/v1/placement_service.pb.h"
#include "steady_clock.hpp"

#include <deque>

namespace qm::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

struct LawBroken {
  std::string what;
};

struct Line {
  std::string text, topic, payload;
};
struct Progress {
  std::uint64_t seed = 0;
  std::deque<Line> lines;
} progress;

constexpr std::size_t kLines = 60;

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

/// How often each kind of trouble comes, drawn per seed: a seed without a kind leaves room for the others.
struct Faults {
  int crash = 0, crash_point = 0, commit = 0, publish = 0, watch_break = 0, watch_repeat = 0, watch_hold = 0;
  int node_lost = 0, node_silent = 0, spot = 0, xid = 0, capacity = 0, fact_repeat = 0;
  BusFaults bus;
  Outages outages;
  std::string names;

  void draw(Random& random) {
    const auto rate = [&](const char* name, int low, int high) {
      if (random.chance(450)) return 0;
      names += std::string(name) + " ";
      return static_cast<int>(random.between(low, high));
    };
    crash = rate("crash", 2, 15);
    crash_point = rate("crash-point", 2, 20);
    commit = rate("commit", 5, 40);
    publish = rate("publish", 5, 60);
    watch_break = rate("watch-break", 2, 15);
    watch_repeat = rate("watch-repeat", 10, 100);
    watch_hold = rate("watch-hold", 200, 900);
    node_lost = rate("node-lost", 1, 6);
    node_silent = rate("node-silent", 2, 10);
    spot = rate("spot", 3, 15);
    xid = rate("xid", 1, 4);
    capacity = rate("capacity", 3, 30);
    fact_repeat = rate("fact-repeat", 10, 200);
    bus.hold_per_mille = rate("bus-hold", 200, 800);
    bus.rewind_per_mille = rate("bus-rewind", 5, 60);
    bus.cut_per_mille = rate("bus-cut", 5, 40);
    outages.away_per_mille = rate("away", 20, 200);
    outages.answer_lost_per_mille = rate("answer-lost", 20, 200);
  }
  void end() {
    const std::string kept = names;
    *this = {};
    names = kept;
  }
};

/// One that is soon used up and has a new period before long, one that counts dollars of everybody in a namespace.
std::vector<cost::Budget> draw_budgets(Random& random, Instant now) {
  if (random.chance(400)) return {};
  cost::Budget hours;
  hours.name = "hours";
  hours.cluster_queue = "a";
  hours.amount = random.between(0, 12) * 3'600'000;
  hours.period = cost::BudgetPeriod::kDay;
  const Duration until_midnight = std::chrono::hours(24) - (now.time_since_epoch() % std::chrono::hours(24));
  hours.utc_offset = until_midnight - minutes(random.between(1, 30));
  hours.carry_permille = static_cast<std::int32_t>(random.between(0, 1000));
  hours.default_run = minutes(random.between(1, 40));
  cost::Budget dollars;
  dollars.name = "dollars";
  dollars.ns = "team-b";
  dollars.unit = cost::BudgetUnit::kNanoUsd;
  dollars.amount = random.between(0, 200) * 1'000'000'000;
  dollars.soft = random.chance(500);
  return {hours, dollars};
}

class Sim {
 public:
  Sim(std::uint64_t seed, Bug bug);
  ~Sim() { disarm_crash_points(); }
  Report run();

 private:
  void say(std::string text, std::string topic = {}, std::string payload = {});
  void make_services(std::uint64_t seed);
  void start(Service& service);
  void down(Service& service, const char* how);
  void tick(Duration by);
  void turn(Service& service, bool busy);
  void outside(bool busy);
  void trouble();
  void apply_config();
  void tell_budgets();
  void offer_layout();
  void turn_all(bool busy);

  Random random_;
  Bug bug_;
  bool sliced_;     ///< two tenants share a machine with GPUs that are cut by MIG, too
  bool cut_later_;  ///< it is not cut before somebody waits for instances
  bool elastic_;    ///< most jobs may run with fewer pods than they ask for, and quota is not what they lack
  bool in_turns_;   ///< most jobs have more pods to come than run at once
  ManualClock clock_;
  Faults faults_;
  World world_;
  Broken broken_ = [](const std::string& what) { throw LawBroken{what}; };
  std::shared_ptr<bus::Bus> bus_;
  JobExecutor jobs_;
  PodExecutor pods_;
  CloudExecutor cloud_;
  std::unique_ptr<telemetry::AgentHub> hub_;
  /// The hub of the telemetry process that lives now.
  struct HubExecutor final : service::Executor {
    explicit HubExecutor(std::unique_ptr<telemetry::AgentHub>& h) : hub(h) {}
    Result<service::Outcome> execute(const store::IntentRow& intent) override { return hub->execute(intent); }
    service::Outcome failed(const store::IntentRow& intent, const Error& error) override {
      return hub->failed(intent, error);
    }
    std::unique_ptr<telemetry::AgentHub>& hub;
  } orders_{hub_};
  std::vector<std::unique_ptr<Service>> services_;
  Five five_{};
  std::map<Service*, int> down_for_;
  std::vector<Watch> watches_;
  std::unique_ptr<CloudLooks> looks_;
  std::unique_ptr<Agents> agents_;
  std::unique_ptr<Users> users_;
  bool configured_ = false;
  int offers_ = 0;
  std::vector<cost::Budget> budgets_;
  Instant asked_{};
  Digest hash_;
  Report report_;
};

Sim::Sim(std::uint64_t seed, Bug bug)
    : random_(seed),
      bug_(bug),
      sliced_(seed % 5 == 0),
      cut_later_(seed % 10 == 0),
      elastic_(seed % 7 == 3),
      in_turns_(seed % 7 == 5),
      // Some runs cross the end of a month.
      clock_(random_.chance(250) ? *from_rfc3339("2026-11-30T23:50:00Z") : *from_rfc3339("2026-11-21T08:00:00Z")),
      world_(random_, bug),
      jobs_(world_, random_, faults_.outages, bug),
      pods_(world_, random_, faults_.outages),
      cloud_(world_, random_, faults_.outages) {
  progress.seed = seed;
  progress.lines.clear();
  faults_.draw(random_);
  report_.faults = faults_.names;
  // A bug that shows only when something is repeated or taken back needs these to happen.
  if (bug == Bug::kLaunchTwice || bug == Bug::kCreateTwice) faults_.outages.answer_lost_per_mille = 300;
  if (bug == Bug::kUndoForgotten) faults_.commit = 60;
  if (bug == Bug::kRowNotWritten || bug == Bug::kClockBack) faults_.crash = 15;
  if (bug == Bug::kSkipMessages) faults_.bus.skip_per_mille = 5;
  world_.start(clock_.now());
  world_.broken = broken_;
  world_.note = [this](std::string text) { say(std::move(text)); };
  make_services(seed);
}

void Sim::say(std::string text, std::string topic, std::string payload) {
  hash_.add(text);  // not the payload: maps have no order in protobuf bytes
  progress.lines.push_back(
      {fmt::format("{:9.3f} {}", static_cast<double>(micros(clock_.now()) % 86'400'000'000) / 1e6, text),
       std::move(topic), std::move(payload)});
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
    services_.push_back(std::make_unique<Service>(std::move(parts), clock_));
    return services_.back().get();
  };
  service::HostOptions admission;
  admission.service = "admission";
  admission.consumes = {"qm.placement", "qm.capacity", "qm.cost"};
  admission.produces = {"qm.workload"};
  five_.admission = add(admission, &jobs_, [] {
    return std::make_unique<admission::AdmissionShell>(std::make_unique<admission::Engine>(), admission::Codec{});
  });
  jobs_.awaited = [this](const auto& ns, const auto& name, const auto& intent) {
    return admission::awaits(five_.admission->host(), ns, name, intent);
  };
  placement::Options placing;
  Random of_proposals(seed);  // its own, too
  placing.proposing.on = of_proposals.chance(500);
  placing.proposing.after = seconds(of_proposals.between(0, 40));
  if (of_proposals.chance(500)) placing.returning = seconds(of_proposals.between(60, 400));
  placing.tidying.on = of_proposals.chance(500);
  placing.tidying.every = seconds(of_proposals.between(20, 300));
  placing.tidying.least_gpus = 1;
  placing.tidying.most_lost = 100'000;
  placing.recutting.on = cut_later_;
  placing.recutting.pools = {kLayoutPool};
  placing.recutting.after = seconds(of_proposals.between(0, 40));
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

  Random of_budgets(seed);  // its own, so that seeds without budgets are the schedules that they are
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

void Sim::start(Service& service) {
  say(fmt::format("{} starts", service.name()));
  if (&service == five_.telemetry) hub_ = std::make_unique<telemetry::AgentHub>();
  service.start();
  (void)service.host().follow(
      service.host().feed_position(), [this, name = service.name()](const service::FeedEvent& e) {
        count_proposals(e, report_);
        say(fmt::format("{} says {} {} v{}{}", name, e.topic, e.key, e.key_version, e.tombstone ? " (last)" : ""),
            e.topic, e.payload);
      });
  if (&service == five_.admission) watches_[0].restart();
  if (&service == five_.placement) {
    (void)service.host().submit(placement::watch_started());
    if (cut_later_) offer_layout();
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
    tell_budgets();
  }
}

/// mig-manager's list: one layout, which is said again after each start.
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

void Sim::tell_budgets() {
  if (five_.cost->up()) (void)five_.cost->host().submit(cost::budgets_input(budgets_));
}

void Sim::down(Service& service, const char* how) {
  say(fmt::format("{} {}", service.name(), how));
  ++report_.crashes;
  if (service.up()) {
    const auto c = service.host().counters();
    report_.batches += c.batches;
    report_.undone += c.undone;
    report_.reloads += c.reloads;
    report_.duplicates += c.duplicates;
    service.crash();
  }
  down_for_[&service] = static_cast<int>(random_.between(0, 15));
}

void Sim::tick(Duration by) {
  clock_.advance(by);
  advance_steady_time(by);
  world_.advance(clock_.now());
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
      if (!service.up()) {
        say(fmt::format("{} dies while it {}", service.name(), kNames[static_cast<int>(step)]));
        ++report_.crashes;
        down_for_[&service] = static_cast<int>(random_.between(0, 15));
      } else if (step != Service::Step::kExecute) {
        say(fmt::format("{} {}", service.name(), kNames[static_cast<int>(step)]));
      }
    }
  }
}

void Sim::apply_config() {
  if (configured_ || !five_.admission->up() || asked_ + seconds(5) > clock_.now()) return;
  asked_ = clock_.now();
  quartermaster::v1::ApplyRequest request;
  request.set_request_id("apply");
  std::string queues = kQueues;
  for (std::size_t at = 0;
       elastic_ && (at = queues.find("nvidia.com/gpu\", nominalQuota: \"", at)) != std::string::npos;)
    queues.insert(at += std::string_view("nvidia.com/gpu\", nominalQuota: \"").size(), "9");
  request.set_manifest(queues);
  request.set_source("queues.yaml");
  service::Input input;
  input.source = service::Source::kRequest;
  input.name = "Apply";
  input.id = "apply";
  input.bytes = request.SerializeAsString();
  (void)five_.admission->host().submit(std::move(input), [this](const Result<std::string>& answer) {
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

void Sim::trouble() {
  static const std::vector<std::string> kPoints{
      "service.before_commit", "service.after_commit", "service.before_publish", "service.after_publish",
      "service.before_intent", "service.after_intent", "store.in_commit",        "store.before_commit",
      "bus.before_publish",    "bus.after_publish",    "bus.after_poll"};
  if (random_.chance(faults_.crash)) {
    auto& service = *random_.pick(services_);
    if (service.up()) down(service, "is killed");
  }
  if (random_.chance(faults_.crash_point)) {
    arm_crash_point(random_.pick(kPoints), static_cast<int>(random_.between(1, 12)),
                    [](std::string_view) { throw Crash{}; });
  }
  if (random_.chance(faults_.watch_break)) watches_[static_cast<std::size_t>(random_.between(0, 2))].list();
  std::vector<std::string> names;
  for (const auto& [name, node] : world_.nodes) names.push_back(name);
  if (!names.empty()) {
    const std::string& name = random_.pick(names);
    if (random_.chance(faults_.node_lost)) {
      say("node " + name + " is lost");
      world_.lose_node(name);
    }
    if (random_.chance(faults_.node_silent)) {
      const auto length =
          milliseconds(random_.chance(500) ? random_.between(2000, 40'000) : random_.between(55'000, 240'000));
      say(fmt::format("node {} is silent for {} s", name, length.count() / 1000));
      world_.silence_node(name, length);
    }
    if (random_.chance(faults_.spot)) {
      const auto& instance = world_.instances.at(world_.nodes.at(name).instance);
      if (instance.spot) {
        say("spot notice for " + name);
        world_.spot_notice(instance.id, seconds(120));
      }
    }
    // Nobody makes a machine whose GPUs are cut: the one that there is lives on.
    if (random_.chance(faults_.xid) && !world_.nodes.at(name).sliced && !world_.nodes.at(name).cuttable) {
      const int xid = random_.chance(500) ? 79 : random_.chance(500) ? 48 : 13;
      say(fmt::format("XID {} on {}", xid, name));
      agents_->report_xid(name, xid, static_cast<int>(random_.between(0, 7)));
    }
  }
  if (random_.chance(faults_.capacity)) {
    world_.no_capacity = !world_.no_capacity;
    say(world_.no_capacity ? "the cloud has no capacity" : "the cloud has capacity");
  }
  auto& quotes = looks_->quotes;
  if (random_.chance(5) && quotes.back().first + minutes(4) < clock_.now()) {
    quotes.emplace_back(from_micros(micros(clock_.now()) / 1'000'000 * 1'000'000),
                        random_.between(15, 50) * 1'000'000'000);
  }
}

void Sim::turn_all(bool busy) {
  std::vector<Service*> order = five_.all();
  if (busy) random_.shuffle(order);
  for (Service* service : order) {
    if (!service->up()) {
      if (down_for_[service]-- > 0) continue;
      start(*service);
    }
    turn(*service, busy);
  }
}

Report Sim::run() {
  try {
    looks_->quotes.emplace_back(clock_.now(), random_.between(15, 50) * 1'000'000'000);
    const auto statics = random_.between(1, 3);
    for (std::int64_t i = 0; i < statics; ++i) world_.add_static(CloudLooks::kType);
    if (sliced_) world_.add_static(CloudLooks::kType, cut_later_ ? World::Cut::kWhenAsked : World::Cut::kFromTheFirst);
    users_->plan(static_cast<int>(random_.between(4, 14)), minutes(10), {sliced_, elastic_, in_turns_});
    const int turns = static_cast<int>(random_.between(200, 500));
    for (int i = 0; i < turns; ++i) {
      tick(milliseconds(random_.chance(300) ? random_.between(1, 300) : random_.between(300, 4000)));
      outside(true);
      turn_all(true);
      trouble();
      if (i % 50 == 0) check_running(five_, clock_.now(), broken_);
      if (i % 10 == 0) report_.returning += returning(five_);
    }

    say("calm");
    faults_.end();
    // Somebody raises what is too little for all of it.
    for (auto& budget : budgets_) budget.amount = std::int64_t{1} << 50;
    tell_budgets();
    disarm_crash_points();
    world_.no_capacity = false;
    if (bug_ == Bug::kLaunchTwice || bug_ == Bug::kCreateTwice) faults_.outages.answer_lost_per_mille = 100;
    const Instant limit = clock_.now() + std::chrono::hours(5);
    std::string left = "not looked yet";
    for (int i = 0; !left.empty(); ++i) {
      tick(milliseconds(random_.between(1000, 8000)));
      outside(false);
      turn_all(false);
      if (i % 4 == 0) left = agents_->idle() ? unfinished(five_, world_, *users_) : "agents have work";
      if (i % 100 == 0) check_running(five_, clock_.now(), broken_);
      if (clock_.now() > limit) throw LawBroken{"five hours of calm and this is left: " + left};
    }
    // The rest that has only to be heard: the last events, and the settlement of the ledger, which waits for word of machines.
    for (int i = 0; i < 60 || (i < 600 && !settled(five_)); ++i) {
      tick(seconds(30));
      outside(false);
      turn_all(false);
      turn_all(false);
    }
    check_running(five_, clock_.now(), broken_);
    check_end(five_, world_, *users_, looks_->quotes, clock_.now(), broken_);
    std::uint64_t journals = 0;
    for (auto& service : services_) service->replay(&journals);
    hash_.add(static_cast<std::int64_t>(journals));
  } catch (const LawBroken& law) {
    report_.failure = law.what;
    report_.last_steps = steps_so_far();
  }
  for (auto& service : services_) {
    if (!service->up()) continue;
    const auto c = service->host().counters();
    report_.batches += c.batches;
    report_.undone += c.undone;
    report_.reloads += c.reloads;
    report_.duplicates += c.duplicates;
  }
  report_.jobs = world_.jobs.size();
  report_.starts = world_.starts;
  report_.meetings = world_.meetings;
  report_.grown = world_.grown;
  report_.layouts = world_.layouts;
  report_.instances = world_.instances.size();
  report_.hash = hash_.value();
  return report_;
}

}  // namespace

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
