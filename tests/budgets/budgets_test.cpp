// A queue admits workloads up to its budget, and continues when the next period begins. If the process that keeps the
// ledger crashes meanwhile, the sums are the same.
#include "process.hpp"
#include "qm/admission/codec.hpp"
#include "qm/admission/queries/budget_view.hpp"
#include "qm/admission/queries/explanation.hpp"
#include "qm/base/crash_point.hpp"
#include "qm/bus/bus.hpp"
#include "qm/cost/shell.hpp"
#include "qm/testing/queue_manifest.hpp"
#include "quartermaster/v1/events.pb.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace qm {
namespace budgets_test {

namespace pb = quartermaster::v1;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

using testing::Crash;
using Process = testing::ServiceProcess;
using testing::Prompt;

/// The state at one instant.
struct State {
  std::vector<std::string> admitted, waiting;
  admission::BudgetView budget;
  std::string why;
};

class Suite {
 public:
  /// With a crash point: cost crashes at its first passage after each handled input.
  explicit Suite(std::string crash_at = {}) : crash_at_(std::move(crash_at)) {
    static int n = 0;
    bus_ = std::make_shared<Prompt>(*bus::make_bus("memory:budgets-" + std::to_string(++n)));
    service::HostOptions options;
    options.service = "admission";
    options.consumes = {"qm.cost"};
    options.produces = {admission::kTopic};
    admission_ = std::make_unique<Process>(Process{options,
                                                   [] {
                                                     return std::make_unique<admission::AdmissionShell>(
                                                         std::make_unique<admission::Engine>(), admission::Codec{});
                                                   },
                                                   bus_, clock_});
    options = cost::host_options("default");
    options.consumes.clear();  // the test submits the events of the other services
    cost_ = std::make_unique<Process>(
        Process{options, [] { return std::make_unique<cost::Shell>(std::make_unique<cost::Engine>(), cost::Codec{}); },
                bus_, clock_});
    admission_->start();
    cost_->start();
  }
  ~Suite() { disarm_crash_points(); }

  void budget(std::int64_t gpu_hours) {
    cost::Budget budget;
    budget.name = "research";
    budget.cluster_queue = "research";
    budget.amount = gpu_hours * 3'600'000;
    budget.period = cost::BudgetPeriod::kDay;
    to(*cost_, cost::budgets_input(std::vector<cost::Budget>{budget}));
  }
  /// A yearly budget of the namespace in dollars.
  void yearly(std::int64_t usd) {
    cost::Budget budget;
    budget.name = "research";
    budget.ns = "team";
    budget.unit = cost::BudgetUnit::kNanoUsd;
    budget.amount = usd * 1'000'000'000;
    budget.period = cost::BudgetPeriod::kYear;
    const std::vector<cost::PricePlan> none;
    to(*cost_, cost::prices_input(cost::joined(none)));
    to(*cost_, cost::budgets_input(std::vector<cost::Budget>{budget}));
  }
  void queues() { to(*admission_, testing::apply_input(testing::yaml_of({}))); }
  void job(const std::string& name, int gpus, bool complete = false) {
    const std::string limits = R"({"nvidia.com/gpu":")" + std::to_string(gpus) + R"("})";
    const auto json = R"({"apiVersion":"batch/v1","kind":"Job","metadata":{"namespace":"team","name":")" + name +
                      R"(","uid":")" + name +
                      R"(","labels":{"kueue.x-k8s.io/queue-name":"q"}},"spec":{"suspend":true,"parallelism":1,
      "completions":1,"template":{"spec":{"schedulerName":"quartermaster","containers":[{"name":"main","image":"x",
      "resources":{"requests":)" +
                      limits + R"(,"limits":)" + limits + "}}]}}}" +
                      (complete ? R"(,"status":{"conditions":[{"type":"Complete","status":"True"}]})" : "") + "}";
    to(*admission_, testing::watch_input("job", json));
  }
  void instance(const std::string& node) {
    pb::CapacityEvent event;
    auto* i = event.mutable_instance();
    i->set_claim("claim-" + node);
    i->set_instance_id("i-" + node);
    i->set_instance_type("p5.48xlarge");
    i->set_capacity_type("on-demand");
    i->set_state(pb::INSTANCE_RUNNING);
    i->set_launched_us(micros(clock_.now()));
    i->set_gpus(8);
    i->set_node(node);
    to(*cost_, bus_input("qm.capacity", "instance/claim-" + node, event.SerializeAsString()));
  }
  /// An event of placement, sent to both consumers.
  void placed(const std::string& uid, const std::string& node, int gpus, bool gone = false) {
    pb::PlacementEvent event;
    auto* a = event.mutable_assignment();
    a->set_uid(uid);
    a->set_attempt(1);
    a->set_state(gone ? pb::RELEASED : pb::BOUND);
    a->set_namespace_("team");
    a->set_workload(uid);
    auto* m = a->add_members();
    m->set_node(node);
    if (!gone) bound_[uid] = micros(clock_.now());
    m->set_bound_us(bound_[uid]);
    if (gone) m->set_released_us(micros(clock_.now()));
    for (int i = 0; i < gpus; ++i) {
      m->add_devices()->set_index(i);
      m->mutable_devices(i)->set_milli(1000);
    }
    for (auto* process : {admission_.get(), cost_.get()}) {
      to(*process, bus_input("qm.placement", uid + "/1", event.SerializeAsString()));
    }
  }
  void pass(Duration time) {
    // Timers fire in between, as they do in real time.
    for (const Instant end = clock_.now() + time; clock_.now() < end;) {
      clock_.advance(std::min<Duration>(minutes(5), end - clock_.now()));
      settle();
    }
  }
  void settle(bool may_die = true) {
    const int lives = cost_->lives;
    for (bool busy = true; busy;) {
      if (may_die && !crash_at_.empty() && cost_->lives == lives) {
        arm_crash_point(crash_at_, 1, [](std::string_view) { throw Crash{}; });
      }
      busy = cost_->turn();
      disarm_crash_points();
      busy = admission_->turn() || busy;
    }
  }
  void kill_cost() {
    cost_->host.reset();
    cost_->start();
  }
  [[nodiscard]] int cost_starts() const { return cost_->lives; }
  void stop_cost() { cost_->host.reset(); }
  void pass_without_cost(Duration time) {
    clock_.advance(time);
    while (admission_->turn()) {
    }
  }

  State read_state(const std::string& why_of = {}) {
    settle();
    State out;
    admission_->host->read([&](const service::Shell& shell) { out = read(shell, why_of); });
    return out;
  }
  State read_without_cost() {
    State out;
    admission_->host->read([&](const service::Shell& shell) { out = read(shell, {}); });
    return out;
  }
  std::string audit() {
    std::string out;
    cost_->host->read([&](const service::Shell& shell) { out = cost::engine_of(shell).audit(); });
    return out;
  }

 private:
  State read(const service::Shell& shell, const std::string& why_of) {
    State out;
    const auto& engine = static_cast<const admission::AdmissionShell&>(shell).engine();
    engine.check_laws();
    for (const auto& [uid, w] : engine.tables().workloads) {
      if (w.holds_quota()) out.admitted.push_back(uid.value());
      if (w.phase == admission::Phase::kPending) out.waiting.push_back(uid.value());
    }
    if (const auto* row = engine.tables().budgets.find("research")) out.budget = view_of(*row, clock_.now());
    if (!why_of.empty())
      out.why = admission::explain(engine.state(), *engine.find(WorkloadUid(why_of)), clock_.now()).causes.at(0).code;
    return out;
  }
  service::Input bus_input(const char* topic, std::string key, std::string bytes) {
    return testing::bus_input(topic, std::move(key), ++version_, std::move(bytes));
  }
  /// At least once: after a crash the input is submitted again.
  void to(Process& process, const service::Input& input) {
    const int lives = process.lives;
    ASSERT_TRUE(process.host->submit(service::Input(input)));
    settle();
    if (process.lives == lives) return;
    ASSERT_TRUE(process.host->submit(service::Input(input)));
    settle(false);
  }

  std::string crash_at_;
  ManualClock clock_{*from_rfc3339("2026-11-21T08:00:00Z")};
  std::shared_ptr<bus::Bus> bus_;
  std::unique_ptr<Process> admission_, cost_;
  std::map<std::string, std::int64_t> bound_;
  std::uint64_t version_ = 0;
};

constexpr std::int64_t kGpuHour = 3'600'000;

/// The whole scenario; `kill` is called wherever a process might crash.
void run_scenario(Suite& suite, const std::function<void()>& kill) {
  suite.queues();
  suite.budget(10);
  kill();
  suite.instance("n1");
  suite.instance("n2");
  suite.instance("n3");
  for (const char* name : {"a", "b", "c"}) suite.job(name, 4);
  suite.job("d", 2);
  // Each is held for an hour: 4 + 4 + 2 are the 10, and c is pending for budget, although 54 GPUs of quota are free.
  auto now = suite.read_state("c");
  EXPECT_EQ(now.admitted, (std::vector<std::string>{"a", "b", "d"}));
  EXPECT_EQ(now.waiting, std::vector<std::string>{"c"});
  EXPECT_EQ(now.why, "BudgetExhausted");
  EXPECT_EQ(now.budget.granted, 10 * kGpuHour);
  EXPECT_EQ(now.budget.held, 10 * kGpuHour);
  EXPECT_EQ(now.budget.free, 0);
  suite.placed("a", "n1", 4);
  suite.placed("b", "n2", 4);
  suite.placed("d", "n3", 2);
  kill();
  suite.pass(minutes(30));
  suite.placed("a", "n1", 4, true);
  suite.job("a", 4, true);
  kill();
  // Half of a's hour was not used. The free budget is then still too small for c.
  suite.pass(minutes(15));
  now = suite.read_state("c");
  EXPECT_EQ(now.waiting, std::vector<std::string>{"c"});
  EXPECT_EQ(now.budget.spent, 2 * kGpuHour);
  EXPECT_EQ(now.budget.held, 6 * kGpuHour);
  EXPECT_EQ(now.budget.free, 2 * kGpuHour);
  suite.pass(minutes(15));
  for (const auto& [name, node, gpus] : {std::tuple("b", "n2", 4), {"d", "n3", 2}}) {
    suite.placed(name, node, gpus, true);
    suite.job(name, gpus, true);
  }
  kill();
  suite.pass(minutes(90));
  now = suite.read_state("c");
  EXPECT_EQ(now.budget.spent, 8 * kGpuHour);
  EXPECT_EQ(now.budget.held, 0);
  EXPECT_EQ(now.budget.free, 2 * kGpuHour);
  EXPECT_EQ(now.waiting, std::vector<std::string>{"c"});
  EXPECT_EQ(now.budget.next, *from_rfc3339("2026-11-22T00:00:00Z"));
  kill();
  suite.pass(*now.budget.next - *from_rfc3339("2026-11-21T10:30:00Z"));
  now = suite.read_state();
  EXPECT_EQ(now.admitted, std::vector<std::string>{"c"});
  EXPECT_EQ(now.budget.spent, 0);
  EXPECT_EQ(now.budget.held, 4 * kGpuHour);
  EXPECT_EQ(now.budget.free, 6 * kGpuHour);
  EXPECT_EQ(now.budget.owed, 0);
  EXPECT_EQ(suite.audit(), "");
}

TEST(Budgets, QueueAdmitsWithinBudgetAndResumesInNextPeriod) {
  Suite suite;
  run_scenario(suite, [] {});
}

TEST(Budgets, SumsAreEqualWhenCostFails) {
  Suite killed;
  run_scenario(killed, [&] { killed.kill_cost(); });
  EXPECT_EQ(killed.cost_starts(), 6);
  for (const char* point : {"service.before_commit", "service.after_commit", "service.before_publish",
                            "service.after_publish", "store.in_commit"}) {
    SCOPED_TRACE(point);
    Suite suite(point);
    run_scenario(suite, [] {});
    EXPECT_GT(suite.cost_starts(), 8) << "it crashed on the way";
  }
}

// S-309: a namespace has a yearly budget in dollars; its use is projected over the year, and no more is admitted
// beyond it.
TEST(Budgets, YearlyNamespaceBudgetIsProjectedAndStopsScaleUp) {
  Suite suite;
  suite.queues();
  suite.yearly(1000);
  suite.instance("n1");
  suite.job("a", 8);
  EXPECT_EQ(suite.read_state().admitted, std::vector<std::string>{"a"});
  suite.placed("a", "n1", 8);
  suite.pass(hours(4));
  auto now = suite.read_state();
  EXPECT_EQ(now.budget.granted, 1'000'000'000'000);
  EXPECT_GT(now.budget.spent, 0);
  // 325 days of the year are over, so the projection is a little above the spent amount.
  EXPECT_GT(now.budget.projected, now.budget.spent * 112 / 100);
  EXPECT_LT(now.budget.projected, now.budget.spent * 113 / 100);
  // Each further replica is held at its price until the year's budget is used up; then no more are admitted.
  for (const char* name : {"b", "c", "d", "e", "f", "g"}) suite.job(name, 8);
  now = suite.read_state("g");
  EXPECT_EQ(now.why, "BudgetExhausted");
  EXPECT_GT(now.admitted.size(), 1u);
  EXPECT_GE(now.budget.free, 0);
  EXPECT_LE(now.budget.spent + now.budget.held, 1'000'000'000'000);
  const auto price = cost::hold_prices(cost::builtin_prices());
  const auto most_expensive = std::ranges::max(price, {}, [](const auto& one) { return one.nano_usd_gpu_hour; });
  EXPECT_LT(now.budget.free, 8 * most_expensive.nano_usd_gpu_hour) << "not a replica more, and not one less";
}

TEST(Budgets, PeriodStartsWithoutCost) {
  Suite suite;
  suite.queues();
  suite.budget(4);
  suite.job("a", 4);
  suite.job("b", 4);
  EXPECT_EQ(suite.read_state().waiting, std::vector<std::string>{"b"});
  suite.stop_cost();
  suite.pass_without_cost(hours(16));
  EXPECT_EQ(suite.read_without_cost().waiting, std::vector<std::string>{});
}

TEST(Budgets, RaisedAmountAdmitsAtOnce) {
  Suite suite;
  suite.queues();
  suite.budget(4);
  suite.job("a", 4);
  suite.job("b", 4);
  EXPECT_EQ(suite.read_state("b").why, "BudgetExhausted");
  suite.budget(8);
  EXPECT_EQ(suite.read_state().admitted, (std::vector<std::string>{"a", "b"}));
}

}  // namespace budgets_test
}  // namespace qm
