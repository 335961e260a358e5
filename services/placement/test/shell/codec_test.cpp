// Inputs are decoded to commands, decisions are encoded as messages, and rows are read back unchanged.
#include "little_kube.hpp"
#include "messages.hpp"
#include "qm/placement/api.hpp"
#include "qm/placement/shell.hpp"
#include "qm/testing/state.hpp"
#include "qm/wire/last_state.hpp"
#include "quartermaster/v1/events.pb.h"

#include <gtest/gtest.h>

namespace qm::placement {
namespace codec_test {

namespace pb = quartermaster::v1;
using namespace testing;
using service::Input;
using service::Source;

TEST(Decode, NodeObject) {
  auto json = make_node("a", 7);
  json.set("metadata")
      .set("annotations", Json::object({{"quartermaster.dev/cordoned-by", "drain"},
                                        {"quartermaster.dev/launched-for", "w,,x"},
                                        {"quartermaster.dev/numa",
                                         R"({"policy":"restricted","zones":[
                                                               {"cpu":"27500m","memory":"1Ti","gpus":[0,1]},
                                                               {"cpu":"28","gpus":[2]}]})"}}));
  json.set("spec").set("unschedulable", true);
  const auto seen = only<NodeUpdated>(watch_of("node", json));
  EXPECT_EQ(seen.node, NodeName("a"));
  const NodeFacts& f = seen.facts;
  EXPECT_EQ(f.provider_id, "aws:///us-east-1a/i-0a");
  EXPECT_EQ(f.instance_type, "p5.48xlarge");
  EXPECT_EQ(f.zone, "us-east-1a");
  EXPECT_EQ(f.capacity_type, "spot");
  EXPECT_EQ(f.model, "NVIDIA-H100-80GB-HBM3");
  EXPECT_EQ(f.cpu_milli, 190'000);
  EXPECT_EQ(f.memory_bytes, 2000LL << 30);
  EXPECT_EQ(f.gpus, 7);
  EXPECT_EQ(f.gpus_installed, 8);
  EXPECT_EQ(f.extended, (std::map<std::string, std::int64_t>{{"ephemeral-storage", 100LL << 30}}));
  EXPECT_EQ(f.taints, (std::vector<Taint>{{"nvidia.com/gpu", "true", "NoSchedule"}}));
  EXPECT_TRUE(f.ready);
  EXPECT_TRUE(f.unschedulable);
  EXPECT_EQ(f.cordoned_by, "drain");
  EXPECT_EQ(f.launched_for, (std::vector<WorkloadUid>{WorkloadUid("w"), WorkloadUid("x")}));
  const Numa numa{TopologyPolicy::kRestricted, {{27'500, std::int64_t{1} << 40, {0, 1}}, {28'000, 0, {2}}}};
  EXPECT_EQ(f.numa, numa);
  for (const char* odd : {"{", R"({"policy":"all"})", R"({"policy":"none","zones":[{"cpu":"many"}]})"}) {
    json.set("metadata").set("annotations").set("quartermaster.dev/numa", odd);
    EXPECT_EQ(node_from_json(json).numa, Numa{}) << odd;
  }

  EXPECT_TRUE(f.switches.empty());
  json.set("metadata").set("annotations").set("quartermaster.dev/pcie-switches", "[0,0,1]");
  EXPECT_EQ(node_from_json(json).switches, (std::vector<std::int32_t>{0, 0, 1}));
  for (const char* odd : {"[", "[]", "{}", "[0,-1]", R"(["a"])"}) {
    json.set("metadata").set("annotations").set("quartermaster.dev/pcie-switches", odd);
    EXPECT_TRUE(node_from_json(json).switches.empty()) << odd;
  }

  json.set("status").set("conditions", Json::array({Json::object({{"type", "Ready"}, {"status", "Unknown"}})}));
  json.set("status").set("allocatable").set("cpu", "many");
  const auto again = only<NodeUpdated>(watch_of("node", json));
  EXPECT_FALSE(again.facts.ready);
  EXPECT_EQ(again.facts.cpu_milli, 0);
  json.set("deleted", true);
  EXPECT_EQ(only<NodeDeleted>(watch_of("node", json)).node, NodeName("a"));
}

TEST(Decode, PodObject) {
  auto json = make_pod("p", "job-uid", 3, 5, 2);
  auto pod = only<PodUpdated>(watch_of("pod", json)).pod;
  EXPECT_EQ(pod.uid, "uid-p");
  EXPECT_EQ(pod.key(), "team/p");
  EXPECT_EQ(pod.owner, WorkloadUid("job-uid"));
  EXPECT_EQ(pod.attempt, 3);
  EXPECT_EQ(pod.index, 5);
  EXPECT_TRUE(pod.ours);
  EXPECT_FALSE(pod.daemon);
  EXPECT_TRUE(pod.node.empty());
  EXPECT_EQ(pod.phase, PodPhase::kPending);
  EXPECT_EQ(pod.shape.cpu_milli, 2000);
  EXPECT_EQ(pod.shape.gpu.whole, 2);

  json.set("metadata").set("labels", Json::object({{"kueue.x-k8s.io/podset", "workers"}}));
  json.set("metadata").set("deletionTimestamp", "2026-11-21T09:14:29Z");
  json.set("metadata").set("ownerReferences").items_mut()[0].set("kind", "DaemonSet");
  json.set("spec").set("nodeName", "a").set("schedulerName", "default-scheduler");
  json.set("status").set("phase", "Succeeded");
  pod = only<PodUpdated>(watch_of("pod", json)).pod;
  EXPECT_EQ(pod.pod_set, "workers");
  EXPECT_TRUE(pod.deleting);
  EXPECT_TRUE(pod.daemon);
  EXPECT_FALSE(pod.ours);
  EXPECT_EQ(pod.node, NodeName("a"));
  EXPECT_TRUE(pod.terminal());
  json.set("deleted", true);
  EXPECT_EQ(only<PodDeleted>(watch_of("pod", json)).uid, "uid-p");

  // Pods are recorded even if their requests cannot be parsed.
  json = Json::parse(R"({"metadata":{"uid":"u"},"spec":{"containers":[{"resources":{"requests":{"cpu":"lots"}}}]}})")
             .value();
  EXPECT_EQ(only<PodUpdated>(watch_of("pod", json)).pod.shape.cpu_milli, 0);
}

// S-112: Quartermaster binds a pod only if its schedulerName says so; pods of every other scheduler
// are left to that scheduler.
TEST(Decode, OnlyPodsOfOurSchedulerAreBound) {
  Engine engine;
  const auto step = [&](const Input& input) {
    const auto commands = Codec().decode(input);
    EXPECT_TRUE(commands) << (commands ? "" : commands.error().to_string());
    auto output = engine.step(*commands, from_micros(1'000'000));
    engine.commit();
    return output;
  };
  step(watch_of("node", make_node("a", 8)));
  step(watch_of("node.synced", Json::array({"a"})));
  step(watch_of("pod.synced", Json::array()));
  step(latest(workload_event("job-uid", 1, pb::QUOTA_RESERVED, 8, 1)));
  int index = 0;
  for (const std::string scheduler :
       {"default-scheduler", "volcano", "kai-scheduler", "slurm-bridge", "quartermaster"}) {
    auto json = make_pod(scheduler, "job-uid", 1, index++, 1);
    json.set("spec").set("schedulerName", scheduler);
    EXPECT_EQ(step(watch_of("pod", json)).intents.size(), scheduler == "quartermaster" ? 1U : 0U) << scheduler;
  }
}

TEST(Decode, CompleteListsAndTheStartOfTheWatches) {
  EXPECT_EQ(only<NodesSynced>(watch_of("node.synced", Json::array({"a", "b"}))).nodes.size(), 2U);
  EXPECT_EQ(only<PodsSynced>(watch_of("pod.synced", Json::array({"u"}))).uids, std::set<std::string>{"u"});
  (void)only<WatchStarted>(watch_started());
  (void)only<Tick>(Input{});
}

TEST(Decode, NodeReport) {
  pb::GpuEvent event;
  event.mutable_node_report()->set_node("a");
  (*event.mutable_node_report()->mutable_labels())["gpu.nvidia.com/nvlink-enabled"] = "true";
  event.mutable_node_report()->add_owned_prefixes("cache.quartermaster.dev/");
  auto input = input_of(Source::kBus, "qm.gpu", event.SerializeAsString());
  const auto latest = only<NodeReportUpdated>(input);
  EXPECT_EQ(latest.node, NodeName("a"));
  ASSERT_TRUE(latest.report);
  EXPECT_EQ(latest.report->labels, (Labels{{"gpu.nvidia.com/nvlink-enabled", "true"}}));
  EXPECT_EQ(latest.report->owned_prefixes, std::vector<std::string>{"cache.quartermaster.dev/"});
  input.tombstone = true;
  EXPECT_FALSE(only<NodeReportUpdated>(input).report);
}

// S-284
TEST(Decode, ClaimsVolumesAndClasses) {
  const auto json = [](const char* text) { return Json::parse(text).value(); };
  auto pvc = json(R"({"metadata":{"name":"data","namespace":"team"},
    "spec":{"accessModes":["ReadWriteMany"],"storageClassName":"csi-cephfs-sc","volumeName":"pv-1"}})");
  const auto claim_of = [](const Json& object) {
    const auto seen = only<StorageUpdated>(watch_of("claim", object));
    EXPECT_EQ(seen.key, "claim/team/data");
    return std::get<Claim>(seen.what);
  };
  EXPECT_EQ(claim_of(pvc), (Claim{"", "csi-cephfs-sc", "", false})) << "it requests a volume and has none yet";
  pvc.set("status").set("phase", "Bound");
  pvc.set("metadata").set("annotations").set("volume.kubernetes.io/selected-node", "a");
  EXPECT_EQ(claim_of(pvc), (Claim{"pv-1", "csi-cephfs-sc", "a", false}));
  for (const auto& [modes, one] : {std::pair(R"(["ReadWriteOnce"])", true), std::pair(R"(["ReadWriteOncePod"])", true),
                                   std::pair(R"(["ReadWriteOnce","ReadOnlyMany"])", false), std::pair("[]", false)}) {
    pvc.set("spec").set("accessModes", json(modes));
    EXPECT_EQ(claim_of(pvc).one_node, one) << modes;
  }
  const auto volume = only<StorageUpdated>(watch_of("volume", json(R"({"metadata":{"name":"pv-1",
    "labels":{"topology.kubernetes.io/zone":"us-east-1a"}}})")));
  EXPECT_EQ(volume.key, "volume/pv-1");
  EXPECT_NE(std::get<Volume>(volume.what).reach.find("us-east-1a"), std::string::npos);
  // A reach that cannot be parsed does not limit placement.
  EXPECT_EQ(std::get<Volume>(only<StorageUpdated>(watch_of("volume", json(R"({"metadata":{"name":"pv-2"},
    "spec":{"nodeAffinity":{"required":{"nodeSelectorTerms":[{"matchExpressions":[{"operator":"In"}]}]}}}})")))
                                 .what),
            Volume{});
  const auto made_by =
      only<StorageUpdated>(watch_of("class", json(R"({"metadata":{"name":"fast"},"provisioner":"ebs.csi.aws.com",
    "volumeBindingMode":"WaitForFirstConsumer"})")));
  EXPECT_EQ(made_by.key, "class/fast");
  EXPECT_EQ(std::get<StorageClass>(made_by.what), (StorageClass{true, true, "", "ebs.csi.aws.com", false}));
  const auto by_hand = only<StorageUpdated>(
      watch_of("class", json(R"({"metadata":{"name":"local"},"provisioner":"kubernetes.io/no-provisioner"})")));
  EXPECT_EQ(std::get<StorageClass>(by_hand.what), (StorageClass{false, false, ""}));
  auto gone = pvc;
  gone.set("deleted", true);
  EXPECT_EQ(only<StorageDeleted>(watch_of("claim", gone)).key, "claim/team/data");
  const auto synced = only<StorageSynced>(watch_of("claim.synced", Json::array({"claim/team/data"})));
  EXPECT_EQ(synced.kind, "claim");
  EXPECT_EQ(synced.keys, std::set<std::string>{"claim/team/data"});
  const auto nameless = Codec().decode(watch_of("volume", Json::object()));
  ASSERT_FALSE(nameless);
  EXPECT_EQ(nameless.error().code, Code::kInvalid);
}

TEST(Decode, WorkloadMissingFromASnapshot) {
  Input omitted;
  omitted.source = Source::kBus;
  omitted.name = "qm.workload";
  omitted.key = "w";
  omitted.bytes = *wire::last_state("qm.workload", "w", false);
  EXPECT_FALSE(Codec().decode(omitted)) << "attempts of events start at 1";
  omitted.tombstone = true;
  const auto command = only<WorkloadUpdated>(omitted);
  EXPECT_EQ(command.spec.uid, WorkloadUid("w"));
  EXPECT_EQ(command.attempt, 0);
  EXPECT_EQ(command.phase, WorkloadPhase::kCancelled);
}

TEST(Decode, WorkloadEvent) {
  auto event = workload_event("w", 2, pb::EVICTING, 4, 8);
  event.mutable_eviction()->set_reason("Preempted");
  event.mutable_eviction()->set_deadline_us(5'000'000);
  const auto command = only<WorkloadUpdated>(latest(event));
  EXPECT_EQ(command.spec.uid, WorkloadUid("w"));
  EXPECT_EQ(command.spec.team, Team("vision"));
  ASSERT_EQ(command.spec.pod_sets.size(), 1U);
  EXPECT_EQ(command.spec.pod_sets[0].shape.gpu.whole, 8);
  EXPECT_EQ(command.attempt, 2);
  EXPECT_EQ(command.phase, WorkloadPhase::kEvicting);
  EXPECT_EQ(command.order_reason, "Preempted");
  EXPECT_EQ(command.order_deadline, from_micros(5'000'000));
  EXPECT_FALSE(command.answer);

  auto waits = workload_event("w", 2, pb::QUOTA_RESERVED, 4, 8);
  waits.set_cluster_queue("a");
  waits.set_quota_tree("cohort/all");
  waits.mutable_may_preempt()->set_own_queue(true);
  waits.set_min_runtime_until_us(7);
  waits.set_saved_us(6);
  waits.set_ended_pods(2);
  waits.set_admitted_us(5);
  waits.mutable_proposal()->set_number(12);
  waits.mutable_proposal()->set_reason("MinimumRunTime");
  waits.mutable_proposal()->add_refused("v");
  const auto update = only<WorkloadUpdated>(latest(waits));
  EXPECT_EQ(update.quota_facts,
            (QuotaFacts{"a", "cohort/all", true, false, from_micros(5), from_micros(6), from_micros(7), 2}));
  ASSERT_TRUE(update.answer);
  EXPECT_EQ(update.answer->number, 12);
  EXPECT_FALSE(update.answer->accepted);
  EXPECT_EQ(update.answer->reason, "MinimumRunTime");
  EXPECT_EQ(update.answer->refused, std::vector<WorkloadUid>{WorkloadUid("v")});
}

TEST(Decode, VerdictsDrainsAndObservations) {
  const auto gpu = [](const pb::GpuEvent& event) {
    return input_of(Source::kBus, "qm.gpu", event.SerializeAsString());
  };
  pb::GpuEvent event;
  auto* verdict = event.mutable_health();
  verdict->set_node("a");
  verdict->set_action(pb::HEALTH_CORDON);
  verdict->set_reason("XID 79");
  EXPECT_EQ(only<HealthUpdated>(gpu(event)).mark, (HealthVerdict{true, -1, 0, "XID 79"})) << "no uuid means the node";
  verdict->set_gpu_uuid("GPU-1");
  verdict->set_gpu_index(3);
  EXPECT_EQ(only<HealthUpdated>(gpu(event)).mark, (HealthVerdict{true, 3, 0, "XID 79"}));
  verdict->set_action(pb::HEALTH_RESET_GPU);
  EXPECT_EQ(only<HealthUpdated>(gpu(event)).mark, (HealthVerdict{false, 3, 0, "XID 79"}));
  // Each GPU out of service, and which of them requires more than a reset.
  for (const int index : {3, 5}) {
    auto* fault = verdict->add_gpus();
    fault->set_gpu_index(index);
    fault->set_action(index == 5 ? pb::HEALTH_CORDON : pb::HEALTH_RESET_GPU);
    fault->set_reason(fmt::format("of {}", index));
    fault->set_at_us(index);
  }
  EXPECT_EQ(only<HealthUpdated>(gpu(event)).mark,
            (HealthVerdict{
                false, 3, 0, "XID 79", {{3, {false, "of 3", from_micros(3)}}, {5, {true, "of 5", from_micros(5)}}}}));
  verdict->clear_gpus();
  verdict->clear_gpu_uuid();
  EXPECT_EQ(only<HealthUpdated>(gpu(event)).mark, (HealthVerdict{true, -1, 0, "XID 79"})) << "which GPU is not known";
  verdict->set_action(pb::HEALTH_WATCH);
  EXPECT_FALSE(only<HealthUpdated>(gpu(event)).mark);

  auto* pod = event.mutable_devices()->add_pods();
  event.mutable_devices()->set_node("a");
  event.mutable_devices()->set_at_us(7);
  pod->set_namespace_("team");
  pod->set_pod("p");
  pod->add_devices()->set_index(2);
  const auto seen = only<DevicesObserved>(gpu(event)).seen;
  EXPECT_EQ(seen.at, from_micros(7));
  EXPECT_EQ(seen.pods.at("team/p").at(0).index, 2);
  event.mutable_usage()->set_node("a");
  EXPECT_TRUE(Codec().decode(gpu(event))->empty());

  pb::CapacityEvent capacity;
  capacity.mutable_drain()->set_node("a");
  capacity.mutable_drain()->set_reason("spot");
  auto input = input_of(Source::kBus, "qm.capacity", capacity.SerializeAsString());
  EXPECT_EQ(only<DrainUpdated>(input).mark->reason, "spot");
  input.tombstone = true;
  EXPECT_FALSE(only<DrainUpdated>(input).mark);
  capacity.mutable_drain()->set_lifted(true);
  EXPECT_FALSE(only<DrainUpdated>(input_of(Source::kBus, "qm.capacity", capacity.SerializeAsString())).mark);
  capacity.mutable_price()->set_zone("z");
  EXPECT_TRUE(Codec().decode(input_of(Source::kBus, "qm.capacity", capacity.SerializeAsString()))->empty());
}

TEST(Decode, RefusesInvalidMessages) {
  const auto code = [](const Input& input) {
    const auto commands = Codec().decode(input);
    return commands ? Code::kInternal : commands.error().code;
  };
  EXPECT_EQ(code(input_of(Source::kBus, "qm.workload", "\xff")), Code::kInvalid);
  EXPECT_EQ(code(input_of(Source::kBus, "qm.cost", "")), Code::kInvalid);
  EXPECT_EQ(code(latest(workload_event("", 1, pb::PENDING, 1, 1))), Code::kInvalid);
  EXPECT_EQ(code(latest(workload_event("w", 0, pb::PENDING, 1, 1))), Code::kInvalid);
  EXPECT_EQ(code(latest(workload_event("w", 1, pb::WORKLOAD_PHASE_UNSPECIFIED, 1, 1))), Code::kInvalid);
  EXPECT_EQ(code(watch_of("node", Json::object())), Code::kInvalid);
  EXPECT_EQ(code(watch_of("pod", Json::object())), Code::kInvalid);
  EXPECT_EQ(code(watch_of("service", Json::object())), Code::kInvalid);
  EXPECT_EQ(code(input_of(Source::kWatch, "node", "{")), Code::kInvalid);
  EXPECT_EQ(code(input_of(Source::kRequest, "Bind", "")), Code::kUnimplemented);
}

TEST(Rows, RoundTrip) {
  Stepped stepped;
  stepped.open();
  stepped.step({latest(workload_event("w", 1, pb::ADMITTED, 2, 4)),
                latest(workload_event("s", 1, pb::QUOTA_RESERVED, 9, 8)),
                watch_of("pod", make_pod("p", "w", 1, 0, 4))});
  auto bound = make_pod("p", "w", 1, 0, 4);
  bound.set("spec").set("nodeName", "a");
  pb::GpuEvent verdict;
  verdict.mutable_health()->set_node("a");
  verdict.mutable_health()->set_action(pb::HEALTH_CORDON);
  verdict.mutable_health()->set_gpu_uuid("GPU-0");
  pb::GpuEvent devices;
  devices.mutable_devices()->set_node("a");
  auto* given = devices.mutable_devices()->add_pods();
  given->set_namespace_("team");
  given->set_pod("p");
  for (const int index : {1, 2, 3, 4}) {
    given->add_devices()->set_index(index);
    given->mutable_devices()->rbegin()->set_uuid(fmt::format("GPU-{}", index));
  }
  pb::CapacityEvent drain;
  drain.mutable_drain()->set_node("b");
  stepped.now += std::chrono::seconds(5);
  stepped.step({watch_of("pod", bound), input_of(Source::kBus, "qm.gpu", verdict.SerializeAsString()),
                input_of(Source::kBus, "qm.gpu", devices.SerializeAsString()),
                input_of(Source::kBus, "qm.capacity", drain.SerializeAsString())});
  const auto named = [](const char* text) { return Json::parse(text).value(); };
  stepped.step({watch_of("claim", named(R"({"metadata":{"name":"c","namespace":"team"},"spec":{"volumeName":"v",
                  "accessModes":["ReadWriteOnce"],"storageClassName":"s"},"status":{"phase":"Bound"}})")),
                watch_of("volume", named(R"({"metadata":{"name":"v","labels":{"topology.kubernetes.io/zone":"a"}}})")),
                watch_of("class", named(R"({"metadata":{"name":"s"},"volumeBindingMode":"WaitForFirstConsumer"})")),
                watch_of("limits", named(R"({"metadata":{"name":"a"},"spec":{"drivers":[{"name":"d",
                  "allocatable":{"count":3}}]}})")),
                watch_of("class.synced", Json::array({"class/s"}))});
  pb::GpuEvent report;
  report.mutable_node_report()->set_node("a");
  (*report.mutable_node_report()->mutable_labels())["gpu.nvidia.com/nvlink-enabled"] = "true";
  stepped.step({input_of(Source::kBus, "qm.gpu", report.SerializeAsString())});
  std::set<std::string> kinds;
  for (const auto& [key, value] : stepped.rows) kinds.insert(key.first);
  EXPECT_EQ(kinds, (std::set<std::string>{"assignment", "mark", "meta", "mix", "node", "node_report", "observation",
                                          "pod", "storage", "workload"}));

  Shell fresh(std::make_unique<Engine>(), Codec());
  ASSERT_TRUE(fresh.load(stepped.stored()));
  EXPECT_EQ(fresh.digest(), stepped.shell.digest());
  fresh.engine().audit();
  ASSERT_TRUE(fresh.load(stepped.stored())) << "loading twice forgets the first";
  EXPECT_EQ(fresh.digest(), stepped.shell.digest());
  EXPECT_EQ(qm::testing::whole_state<service::StateDump>(fresh).dump(),
            qm::testing::whole_state<service::StateDump>(stepped.shell).dump());
  EXPECT_EQ(qm::testing::whole_state<service::StateDump>(fresh).path("unschedulable").at(0).string(), "s/1");
}

TEST(Rows, ReducedGangAndReasonRoundTrip) {
  Stepped stepped;
  stepped.open();
  auto event = workload_event("w", 1, pb::ADMITTED, 3, 8);
  event.mutable_spec()->mutable_pod_sets(0)->set_min_count(1);
  std::vector<Input> batch{latest(event)};
  for (int i = 0; i < 3; ++i) batch.push_back(watch_of("pod", make_pod(fmt::format("p{}", i), "w", 1, i, 8)));
  stepped.step(batch);
  batch.clear();
  for (int i = 0; i < 2; ++i) {
    auto pod = make_pod(fmt::format("p{}", i), "w", 1, i, 8);
    pod.set("spec").set("nodeName", i == 0 ? "a" : "b");
    batch.push_back(watch_of("pod", pod));
  }
  stepped.step(batch);
  pb::GetAssignmentRequest get;
  get.set_uid("w");
  EXPECT_EQ(get_assignment(stepped.shell.engine(), get)->state().state(), pb::BOUND);
  EXPECT_EQ(get_assignment(stepped.shell.engine(), get)->state().short_reason(), "runs with 2 of 3, needs 1");
  auto gone = make_node("b", 8);
  gone.set("deleted", true);
  stepped.step({watch_of("node", gone)});

  Shell fresh(std::make_unique<Engine>(), Codec());
  ASSERT_TRUE(fresh.load(stepped.stored()));
  EXPECT_EQ(fresh.digest(), stepped.shell.digest());
  fresh.engine().audit();
  EXPECT_EQ(get_assignment(fresh.engine(), get)->state().short_reason(), "runs with 1 of 3, needs 1");
  const auto& members = fresh.engine().tables().assignments.find({WorkloadUid("w"), 1})->members;
  ASSERT_EQ(members.size(), 2U);
  EXPECT_TRUE(members[1].lost);
  // Of the other two ranks one has a pod.
  const auto demand = fresh.engine().demand();
  ASSERT_EQ(demand.size(), 1U);
  EXPECT_TRUE(demand[0].runs);
  EXPECT_EQ(demand[0].pod_sets.at(0).count, 1);
}

TEST(Rows, InvalidRowsAreRefused) {
  Shell shell(std::make_unique<Engine>(), Codec());
  const std::vector<store::StateRow> rubbish{{"node", "a", "\xff\xff"}};
  EXPECT_EQ(shell.load(rubbish).error().code, Code::kInvalid);
  const std::vector<store::StateRow> unknown{{"castle", "a", ""}};
  EXPECT_NE(shell.load(unknown).error().message.find("castle"), std::string::npos);
}

TEST(Encode, EventsCarryWholeStatesAndIntentsHaveIds) {
  Stepped stepped;
  stepped.open();
  const auto effects = stepped.step({latest(workload_event("w", 2, pb::QUOTA_RESERVED, 2, 8)),
                                     latest(workload_event("s", 1, pb::QUOTA_RESERVED, 1, 8)),
                                     watch_of("pod", make_pod("p", "w", 2, 1, 8))});
  std::map<std::string, service::Publish> events;
  for (const auto& event : effects.events) events[event.topic + " " + event.key] = event;
  ASSERT_TRUE(events.contains("qm.placement s/1"));
  // s comes first: of equal priority and time, the smaller uid.
  pb::PlacementEvent event;
  ASSERT_TRUE(event.ParseFromString(events.at("qm.placement s/1").payload));
  EXPECT_EQ(event.assignment().state(), pb::RESERVED);
  EXPECT_EQ(event.assignment().reservation_id(), "s/1");
  EXPECT_EQ(event.assignment().team(), "vision");
  EXPECT_EQ(event.assignment().labels_size(), 1) << "labels that no bill uses are not published";
  EXPECT_EQ(event.assignment().labels().at("product"), "search");
  EXPECT_EQ(event.assignment().workload(), "job-s");
  EXPECT_EQ(event.assignment().members(0).devices_size(), 8);
  EXPECT_EQ(event.assignment().members(0).pod_set(), "main");
  EXPECT_GT(event.assignment().expires_us(), micros(stepped.now));
  ASSERT_TRUE(event.ParseFromString(events.at("qm.placement w/2").payload));
  EXPECT_EQ(event.assignment().state(), pb::SHORT);
  EXPECT_NE(event.assignment().short_reason(), "");
  ASSERT_TRUE(event.ParseFromString(events.at("qm.placement demand").payload));
  EXPECT_EQ(event.demand().items(0).uid(), "w");
  EXPECT_EQ(event.demand().items(0).attempt(), 2);
  pb::NodeEvent node;
  ASSERT_TRUE(node.ParseFromString(events.at("qm.node a").payload));
  EXPECT_EQ(node.pods(), 1);
  EXPECT_EQ(node.gpu_model(), "NVIDIA-H100-80GB-HBM3");
  EXPECT_TRUE(effects.intents.empty());
  ASSERT_TRUE(effects.wake_at);

  const auto later = stepped.step({watch_of("pod", make_pod("q", "s", 1, 0, 8))});
  ASSERT_EQ(later.intents.size(), 1U);
  EXPECT_EQ(later.intents[0].id, "placement/1");
  EXPECT_EQ(later.intents[0].kind, "pod.bind");
  EXPECT_EQ(later.intents[0].key, "pod/team/q");
  const auto payload = *Json::parse(later.intents[0].payload);
  EXPECT_EQ(payload["node"].string(), "a");
  EXPECT_EQ(payload["devices"].string(), "0,1,2,3,4,5,6,7");

  auto gone = make_node("a", 8);
  gone.set("deleted", true);
  const auto last = stepped.step({watch_of("node", gone)});
  bool tombstone = false, eviction = false;
  for (const auto& e : last.events) {
    tombstone = tombstone || (e.topic == "qm.node" && e.key == "a" && e.tombstone);
    if (e.key == "evict/s/1" && event.ParseFromString(e.payload)) eviction = event.eviction().pods_lost();
  }
  EXPECT_TRUE(tombstone);
  EXPECT_TRUE(eviction);
}

// ---- API responses ----

TEST(Api, TenantSeesOwnAssignmentsAndPods) {
  Stepped stepped;
  stepped.open();
  stepped.step({watch_of("node", make_node("a", 8)), latest(workload_event("v", 1, pb::QUOTA_RESERVED, 1, 8))});
  const Engine& engine = engine_of(stepped.shell);
  const auto& [id, row] = *engine.tables().assignments.begin();
  rpc::Caller owner, other;
  owner.namespaces.insert(row.ns.value());
  other.namespaces.insert("elsewhere");
  pb::GetAssignmentRequest get;
  get.set_uid("v");
  EXPECT_TRUE(get_assignment(engine, get, owner));
  EXPECT_EQ(get_assignment(engine, get, other).error().code, Code::kNotFound);
  get.set_attempt(1);
  EXPECT_EQ(get_assignment(engine, get, other).error().code, Code::kNotFound);
  EXPECT_EQ(list_assignments(engine, {}, owner)->total(), 1);
  EXPECT_EQ(list_assignments(engine, {}, other)->total(), 0);
  const auto pods = [&](const rpc::Caller& caller) {
    int n = 0;
    const auto nodes = list_nodes(engine, {}, caller);
    for (const auto& node : nodes->nodes()) {
      for (const auto& device : node.devices()) n += device.pods_size();
    }
    return std::pair(nodes->total(), n);
  };
  EXPECT_EQ(pods(other), pods(owner));  // the node only: no pod is known yet, and attempts are not shown
  EXPECT_EQ(pods(owner).second, 0);
  EXPECT_GT(pods(rpc::Caller::anyone()).second, 0);
}

TEST(Api, GetListAndDryRun) {
  Stepped stepped;
  stepped.open();
  stepped.step({latest(workload_event("v", 1, pb::QUOTA_RESERVED, 1, 8)),
                latest(workload_event("w", 3, pb::QUOTA_RESERVED, 1, 8)),
                latest(workload_event("x", 1, pb::QUOTA_RESERVED, 1, 8))});
  const Engine& engine = engine_of(stepped.shell);
  pb::GetAssignmentRequest get;
  EXPECT_EQ(get_assignment(engine, get).error().field, "uid");
  get.set_uid("w");
  EXPECT_EQ(get_assignment(engine, get)->state().attempt(), 3);
  EXPECT_EQ(get_assignment(engine, get)->version(), 1U);
  get.set_attempt(2);
  EXPECT_EQ(get_assignment(engine, get).error().code, Code::kNotFound);
  get.set_uid("ww");
  get.set_attempt(0);
  EXPECT_EQ(get_assignment(engine, get).error().code, Code::kNotFound);

  pb::ListAssignmentsRequest list;
  list.set_page_size(2);
  auto page = list_assignments(engine, list);
  ASSERT_TRUE(page);
  EXPECT_EQ(page->assignments_size(), 2);
  EXPECT_EQ(page->total(), 3);
  EXPECT_EQ(page->next_page_token(), "w/3");
  list.set_page_token(page->next_page_token());
  page = list_assignments(engine, list);
  ASSERT_EQ(page->assignments_size(), 1);
  EXPECT_EQ(page->assignments(0).state().uid(), "x");
  EXPECT_EQ(page->next_page_token(), "");
  list.Clear();
  list.set_node("b");
  EXPECT_EQ(list_assignments(engine, list)->assignments(0).state().uid(), "w");
  list.Clear();
  list.set_state(pb::SHORT);
  EXPECT_EQ(list_assignments(engine, list)->total(), 1);
  list.set_page_token("rubbish");
  EXPECT_EQ(list_assignments(engine, list).error().field, "page_token");
  list.set_page_token("");
  list.set_page_size(5001);
  EXPECT_EQ(list_assignments(engine, list).error().field, "page_size");

  pb::DryRunRequest dry;
  EXPECT_EQ(dry_run(engine, dry).error().field, "pod_sets");
  *dry.add_pod_sets() = workload_event("y", 1, pb::PENDING, 1, 1).spec().pod_sets(0);
  EXPECT_FALSE(dry_run(engine, dry)->fits());
  EXPECT_NE(dry_run(engine, dry)->reason().find("0 of 1 pods fit"), std::string::npos);
  const auto shortfall = dry_run(engine, dry)->shortfall();
  EXPECT_EQ(shortfall.pod_set(), dry.pod_sets(0).name());
  ASSERT_EQ(shortfall.conflict_size(), 1);
  EXPECT_EQ(shortfall.conflict(0), "1 GPU for each of 1 pods");
  // It fits without the pods that hold the GPUs; a request above the size of every node does not.
  dry.set_without_pods(true);
  EXPECT_TRUE(dry_run(engine, dry)->fits());
  EXPECT_EQ(dry_run(engine, dry)->shortfall().conflict_size(), 0);
  dry.mutable_pod_sets(0)->mutable_shape()->mutable_gpu()->set_whole(9);
  const auto never = dry_run(engine, dry);
  EXPECT_FALSE(never->fits());
  ASSERT_EQ(never->shortfall().conflict_size(), 1);
  EXPECT_EQ(never->shortfall().conflict(0), "9 GPUs for each of 1 pods");
  ASSERT_EQ(never->shortfall().remedies_size(), 1);
  EXPECT_EQ(never->shortfall().remedies(0), "with at most 8 GPUs a pod");
  // A request for more pods than the fleet has GPUs does not fit either.
  dry.mutable_pod_sets(0)->mutable_shape()->mutable_gpu()->set_whole(8);
  dry.mutable_pod_sets(0)->set_count(1000);
  EXPECT_FALSE(dry_run(engine, dry)->fits());
  dry.mutable_pod_sets(0)->set_count(1);
  dry.set_without_pods(false);
  dry.mutable_pod_sets(0)->mutable_shape()->mutable_gpu()->set_whole(0);
  EXPECT_TRUE(dry_run(engine, dry)->fits());
  EXPECT_EQ(dry_run(engine, dry)->members_size(), 1);
  dry.mutable_pod_sets(0)->mutable_shape()->mutable_gpu()->set_milli(1000);
  EXPECT_EQ(dry_run(engine, dry).error().field, "pod_sets[0].shape");
  dry.mutable_pod_sets(0)->set_count(0);
  EXPECT_EQ(dry_run(engine, dry).error().field, "pod_sets[0].count");
  dry.mutable_pod_sets(0)->set_count(100'001);
  dry.mutable_pod_sets(0)->mutable_shape()->mutable_gpu()->set_milli(0);
  EXPECT_EQ(dry_run(engine, dry).error().field, "pod_sets");
}

}  // namespace codec_test
}  // namespace qm::placement
