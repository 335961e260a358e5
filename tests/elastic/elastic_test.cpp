// A group of eight pods of which four must run together: it starts with the six that fit, scales up, loses two with
// their node and keeps running, scales up again, and is charged for the pods and times that ran. A restart of
// placement between any two of these steps makes no difference.
#include "process.hpp"
#include "qm/admission/codec.hpp"
#include "qm/cost/shell.hpp"
#include "qm/kube/client.hpp"
#include "qm/placement/api.hpp"
#include "qm/placement/shell.hpp"
#include "qm/testing/queue_manifest.hpp"
#include "quartermaster/v1/events.pb.h"
#include "quartermaster/v1/placement_service.pb.h"
#include "state/admission_state.pb.h"

#include <fmt/format.h>

#include <map>
#include <set>

namespace qm {
namespace elastic_test {

namespace pb = quartermaster::v1;
namespace state = quartermaster::admission;
using std::chrono::seconds;
using Process = testing::ServiceProcess;
using testing::Prompt;

constexpr int kPods = 8;
constexpr std::int64_t kNanoPerGpuSecond = 1'000'000;  // 3.6 dollars an hour

class Town {
 public:
  Town() {
    static int n = 0;
    bus_ = std::make_shared<Prompt>(*bus::make_bus("memory:elastic-" + std::to_string(++n)));
    service::HostOptions options;
    options.service = "admission";
    options.consumes = {"qm.placement"};
    options.produces = {admission::kTopic};
    const auto admission = [] {
      return std::make_unique<admission::AdmissionShell>(std::make_unique<admission::Engine>(), admission::Codec{});
    };
    admission_ = std::make_unique<Process>(Process{options, admission, bus_, clock_});
    admission_->executor = &gates_;
    options = placement::host_options("default");
    options.consumes = {"qm.workload"};
    const auto placement = [] {
      return std::make_unique<placement::Shell>(std::make_unique<placement::Engine>(), placement::Codec());
    };
    placement_ = std::make_unique<Process>(Process{options, placement, bus_, clock_});
    placement_->executor = &binder_;
    options = cost::host_options("default");
    options.consumes = {"qm.placement", "qm.node"};  // the test submits the events of the autoscaler
    const auto cost = [] { return std::make_unique<cost::Shell>(std::make_unique<cost::Engine>(), cost::Codec{}); };
    cost_ = std::make_unique<Process>(Process{options, cost, bus_, clock_});
    for (auto* process : {admission_.get(), placement_.get(), cost_.get()}) process->start();
    cost::PricePlan plan{"test", {}};
    for (const int gpus : {2, 4}) {
      plan.entries.push_back(
          {fmt::format("gpus-{}", gpus), "on-demand", "", HourlyRate{Money::nano(kNanoPerGpuSecond * 3600 * gpus)}});
    }
    send(*cost_, cost::prices_input(plan));
    send(*admission_, testing::apply_input(testing::yaml_of({})));
    watched("node.synced", "[]");
    watched("pod.synced", "[]");
    run_until_idle();
  }

  void instance(const std::string& node, int gpus) {
    gpus_[node] = gpus;
    launched_[node] = clock_.now();
    publish_instance(node);
    watched("node", node_json(node).dump());
    run_until_idle();
  }
  /// The instance fails, and the node and its pods are deleted from the cluster.
  void lose(const std::string& node) {
    stop(node);
    Json gone = node_json(node);
    gone.set("deleted", true);
    watched("node", gone.dump());
    run_until_idle();
  }
  void stop(const std::string& node) {
    stopped_[node] = clock_.now();
    publish_instance(node);
  }
  void submit() {
    for (int i = 0; i < kPods; ++i) make_pod();
    send_pods();
    run_until_idle();
  }
  void finish() {
    for (auto& [uid, pod] : pods_) pod.set("status").set("phase", "Succeeded");
    for (const auto& [uid, pod] : pods_) {
      ended_[uid] = clock_.now();
      watched("pod", pod.dump());
    }
    send_pods();
    run_until_idle();
  }
  void pass(Duration time) {
    for (const Instant end = clock_.now() + time; clock_.now() < end;) {
      clock_.advance(seconds(20));
      run_until_idle();
    }
  }
  void restart_placement() {
    placement_->host.reset();
    placement_->start();
    run_until_idle();
  }

  [[nodiscard]] admission::Phase phase() {
    admission::Phase out{};
    admission_->host->read([&](const service::Shell& shell) {
      const auto& engine = static_cast<const admission::AdmissionShell&>(shell).engine();
      engine.check_laws();
      out = engine.find(WorkloadUid("ring"))->phase;
    });
    return out;
  }
  /// State, live members by node, and the reported reason of the missing ones.
  [[nodiscard]] std::string place() {
    std::string out;
    placement_->host->read([&](const service::Shell& shell) {
      const auto& engine = placement::engine_of(shell);
      engine.audit();
      const auto* row = engine.tables().assignments.find({WorkloadUid("ring"), 1});
      if (row == nullptr) return;
      std::map<std::string, int> live;
      for (const auto& member : row->members) live[member.node.value()] += member.live() ? 1 : 0;
      out = placement::name_of(row->state);
      for (const auto& [node, count] : live) out += count == 0 ? "" : fmt::format(" {}:{}", node, count);
      pb::GetAssignmentRequest request;
      request.set_uid("ring");
      const auto shown = placement::get_assignment(engine, request);
      if (const auto& lacks = shown->state().short_reason(); !lacks.empty()) out += ", " + lacks;
      for (const auto& item : engine.demand()) out += ", requests " + std::to_string(item.pod_sets.at(0).count);
    });
    return out;
  }
  /// Compares with the cluster's own record: pods by the times of their bind and end, instances by their lifetime.
  void check_bill() {
    std::int64_t ran = 0, lived = 0;
    for (const auto& [uid, at] : bound_) ran += (ended_.at(uid) - at).count() / 1'000'000;
    for (const auto& [node, at] : launched_) lived += gpus_[node] * (stopped_.at(node) - at).count() / 1'000'000;
    cost_->host->read([&](const service::Shell& shell) {
      const auto& engine = cost::engine_of(shell);
      EXPECT_EQ(engine.audit(), "");
      const auto statement = engine.statement("", clock_.now());
      ASSERT_TRUE(statement) << statement.error().to_string();
      EXPECT_EQ(statement->imbalance.nano(), 0);
      EXPECT_EQ(statement->total.nano, statement->provider) << "ledger and bill";
      EXPECT_EQ(statement->provider.nano(), lived * kNanoPerGpuSecond);
      ASSERT_TRUE(statement->lines.contains("team"));
      EXPECT_EQ(statement->lines.at("team").nano.nano(), ran * kNanoPerGpuSecond);
      EXPECT_EQ(statement->lines.at("team").gpu_micros, ran * 1'000'000);
    });
  }
  [[nodiscard]] std::size_t pods_bound() const { return bound_.size(); }
  [[nodiscard]] int bound_twice() const { return bound_twice_; }

 private:
  /// Admission's intents on pods: removes gates, and assigns the lowest free index to a new pod.
  struct Gates final : service::Executor {
    explicit Gates(Town& t) : town(t) {}
    Result<service::Outcome> execute(const store::IntentRow& intent) override {
      state::JobIntent want;
      EXPECT_TRUE(want.ParseFromString(intent.payload));
      if (intent.kind == "job.unsuspend") town.let_go(want);
      state::JobOutcome done;
      done.set_subject(want.uid());
      done.set_attempt(want.attempt());
      done.set_ok(true);
      return service::Outcome{done.SerializeAsString()};
    }
    service::Outcome failed(const store::IntentRow&, const Error&) override { return {}; }
    Town& town;
  };
  /// Placement's intents: pods are bound and start at once; a deleted pod is removed, and its controller creates
  /// another.
  struct Binder final : service::Executor {
    explicit Binder(Town& t) : town(t) {}
    Result<service::Outcome> execute(const store::IntentRow& intent) override {
      const Json order = *Json::parse(intent.payload);
      if (intent.kind == "pod.bind") town.bind(order);
      if (intent.kind == "pod.delete") town.remove(order["pod_uid"].string());
      return service::Outcome{Json::object({{"uid", order["uid"]},
                                            {"attempt", order["attempt"]},
                                            {"pod_uid", order["pod_uid"]},
                                            {"code", 0},
                                            {"message", ""}})
                                  .dump()};
    }
    service::Outcome failed(const store::IntentRow&, const Error&) override { return {}; }
    Town& town;
  };

  void make_pod() {
    const auto name = fmt::format("ring-{}", ++made_);
    pods_[name] = *Json::parse(fmt::format(
        R"({{"apiVersion":"v1","kind":"Pod","metadata":{{"namespace":"team","name":"{0}","uid":"{0}",
        "creationTimestamp":"2026-11-21T07:00:{1:02}Z","labels":{{"kueue.x-k8s.io/queue-name":"q"}},
        "annotations":{{"scheduling.k8s.io/group-name":"ring"}},
        "ownerReferences":[{{"apiVersion":"apps/v1","kind":"StatefulSet","name":"ring","uid":"set","controller":true}}]}},
        "spec":{{"schedulerName":"quartermaster","schedulingGates":[{{"name":"quartermaster.dev/admission"}}],"containers":[
        {{"name":"main","image":"x","resources":{{"limits":{{"nvidia.com/gpu":"1"}}}}}}]}},"status":{{"phase":"Pending"}}}})",
        name, made_));
  }
  void let_go(const state::JobIntent& want) {
    std::set<std::string> taken;
    for (const auto& [uid, pod] : pods_) taken.insert(kube::annotation(pod, "quartermaster.dev/index"));
    for (auto& [uid, pod] : pods_) {
      if (pod["spec"]["schedulingGates"].size() == 0) continue;
      int index = 0;
      while (taken.contains(std::to_string(index))) ++index;
      taken.insert(std::to_string(index));
      pod.set("spec").erase("schedulingGates");
      pod.set("metadata").set("labels").set("kueue.x-k8s.io/podset", want.sets(0).name());
      pod.set("metadata")
          .set("annotations")
          .set("quartermaster.dev/workload", want.uid())
          .set("quartermaster.dev/index", std::to_string(index))
          .set("quartermaster.dev/attempt", std::to_string(want.attempt()));
      watched("pod", pod.dump());
    }
    send_pods();
  }
  void bind(const Json& order) {
    Json& pod = pods_.at(order["pod_uid"].string());
    if (!pod["spec"]["nodeName"].string().empty()) ++bound_twice_;
    pod.set("spec").set("nodeName", order["node"].string());
    pod.set("status").set("phase", "Running");
    pod.set("metadata").set("annotations").set("quartermaster.dev/devices", order["devices"].string());
    bound_[order["pod_uid"].string()] = clock_.now();
    watched("pod", pod.dump());
    send_pods();
  }
  void remove(const std::string& uid) {
    const auto pod = pods_.find(uid);
    if (pod == pods_.end()) return;
    ended_[uid] = clock_.now();
    Json gone = pod->second;
    gone.set("deleted", true);
    pods_.erase(pod);
    watched("pod", gone.dump());
    send_pods();
    make_pod();
    send_pods();
  }
  /// Reports the pods as admission's watch of Volcano groups does.
  void send_pods() {
    Json list = Json::array();
    for (const auto& [uid, pod] : pods_) {
      list.push_back(pod);
      list.items_mut()
          .back()
          .set("metadata")
          .set("annotations")
          .set("kueue.x-k8s.io/pod-group-total-count", std::to_string(kPods));
    }
    Json group = Json::object({{"kind", "PodGroup"},
                               {"metadata", Json::object({{"namespace", "team"}, {"name", "ring"}, {"uid", "ring"}})},
                               {"pods", std::move(list)}});
    group.set("podGroup", *Json::parse(R"({"spec":{"minMember":4,"queue":"q"}})"));
    send(*admission_, testing::watch_input("pods", group.dump()));
  }
  [[nodiscard]] Json node_json(const std::string& name) const {
    return *Json::parse(fmt::format(
        R"({{"apiVersion":"v1","kind":"Node","metadata":{{"name":"{0}","uid":"node-{0}"}},"spec":{{"providerID":"aws:///z/i-{0}"}},
        "status":{{"allocatable":{{"cpu":"64","memory":"256Gi","pods":"110","nvidia.com/gpu":"{1}"}},
        "conditions":[{{"type":"Ready","status":"True"}}]}}}})",
        name, gpus_.at(name)));
  }
  void publish_instance(const std::string& node) {
    pb::CapacityEvent event;
    auto* i = event.mutable_instance();
    i->set_claim("claim-" + node);
    i->set_instance_id("i-" + node);
    i->set_instance_type(fmt::format("gpus-{}", gpus_[node]));
    i->set_capacity_type("on-demand");
    i->set_state(pb::INSTANCE_RUNNING);
    i->set_launched_us(micros(launched_[node]));
    if (stopped_.contains(node)) i->set_stopped_us(micros(stopped_[node]));
    i->set_gpus(gpus_[node]);
    i->set_node(node);
    send(*cost_, testing::bus_input("qm.capacity", "instance/claim-" + node, ++version_, event.SerializeAsString()));
  }
  void watched(const std::string& name, std::string bytes) {
    send(*placement_, testing::watch_input(name, std::move(bytes)));
  }
  static void send(Process& process, service::Input input) { ASSERT_TRUE(process.host->submit(std::move(input))); }
  void run_until_idle() {
    for (bool busy = true; busy;) {
      busy = false;
      for (auto* process : {admission_.get(), placement_.get(), cost_.get()}) busy = process->turn() || busy;
    }
  }

  ManualClock clock_{*from_rfc3339("2026-11-21T08:00:00Z")};
  std::shared_ptr<bus::Bus> bus_;
  Gates gates_{*this};
  Binder binder_{*this};
  std::unique_ptr<Process> admission_, placement_, cost_;
  std::map<std::string, Json> pods_;
  std::map<std::string, int> gpus_;
  std::map<std::string, Instant> launched_, stopped_, bound_, ended_;
  std::uint64_t version_ = 0;
  int made_ = 10, bound_twice_ = 0;
};

using admission::Phase;

void live(Town& town, bool restarts) {
  const auto again = [&] {
    if (restarts) town.restart_placement();
  };
  town.instance("a", 2);
  town.submit();
  EXPECT_EQ(town.place(), "short, 2 of 4 pods fit: 1 eligible nodes have 2 free GPUs, needs 4, requests 4")
      << "a pending gang requests its minimum of the autoscaler";
  again();
  town.instance("b", 2);
  town.instance("c", 2);
  town.pass(seconds(40));
  EXPECT_EQ(town.phase(), Phase::kAdmitted);
  EXPECT_EQ(town.place(), "bound a:2 b:2 c:2, runs with 6 of 8, needs 4, requests 2");
  again();
  town.pass(seconds(600));
  town.instance("d", 4);
  EXPECT_EQ(town.place(), "bound a:2 b:2 c:2 d:2");
  EXPECT_EQ(town.pods_bound(), 8U);
  again();
  town.pass(seconds(4000));
  town.lose("b");
  EXPECT_EQ(town.phase(), Phase::kAdmitted);
  EXPECT_EQ(town.place(), "bound a:2 c:2 d:4") << "the recreated pods fit";
  again();
  town.pass(seconds(1200));
  town.lose("d");
  EXPECT_EQ(town.place(), "bound a:2 c:2, runs with 4 of 8, needs 4, requests 4");
  again();
  town.pass(seconds(600));
  town.instance("e", 4);
  EXPECT_EQ(town.place(), "bound a:2 c:2 e:4");
  town.pass(seconds(600));
  town.finish();
  town.pass(seconds(60));
  EXPECT_EQ(town.phase(), Phase::kFinished);
  EXPECT_EQ(town.place(), "released");
  for (const char* node : {"a", "c", "e"}) town.stop(node);
  town.pass(seconds(7200));
  EXPECT_EQ(town.pods_bound(), 14U);
  EXPECT_EQ(town.bound_twice(), 0);
  town.check_bill();
}

TEST(ElasticGang, StartsWithMinimumScalesLosesMembersAndIsBilledForUse) {
  Town town;
  live(town, false);
}

TEST(ElasticGang, PlacementRestartContinues) {
  Town town;
  live(town, true);
}

}  // namespace elastic_test
}  // namespace qm
