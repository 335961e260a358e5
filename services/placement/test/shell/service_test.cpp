// The whole service over a store and bus in memory: watches against an API server, binds, gRPC, metrics.
#include "little_kube.hpp"
#include "qm/placement/api.hpp"
#include "qm/placement/shell.hpp"
#include "qm/testing/testing.hpp"
#include "quartermaster/v1/placement_service.grpc.pb.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>

namespace qm::placement {
namespace service_test {

namespace pb = quartermaster::v1;
using qm::testing::wait_until;
using testing::make_node;
using testing::make_pod;
using testing::node_path;
using testing::pod_path;

std::string fresh_bus() {
  static std::atomic<int> serial = 0;
  return fmt::format("memory:placement-{}", ++serial);
}

struct Service {
  testing::LittleKube& kube;
  ManualClock clock{from_micros(1'000'000'000)};
  kube::Client client{{kube.origin()}};
  KubeExecutor executor{client};
  metrics::Registry registry;
  std::shared_ptr<bus::Bus> bus;
  std::unique_ptr<service::Host> host;
  std::unique_ptr<Watcher> watcher;
  std::unique_ptr<GapMeter> gap;
  std::unique_ptr<grpc::Service> api;
  std::unique_ptr<rpc::Server> server;
  std::unique_ptr<pb::Placement::Stub> stub;
  std::uint64_t version = 0;

  explicit Service(testing::LittleKube& k, std::shared_ptr<store::MemoryDisk> disk = store::make_memory_disk(),
                   const std::string& bus_name = fresh_bus(), std::size_t mailbox = 16384)
      : kube(k), bus(*bus::make_bus(bus_name)) {
    auto options = host_options("default");
    options.digest_each_batch = true;
    options.mailbox = mailbox;
    host = std::make_unique<service::Host>(
        options, std::make_unique<Shell>(std::make_unique<Engine>(), Codec(std::make_shared<Meters>(registry))),
        store::open_memory(std::move(disk)), bus, clock, &executor);
    EXPECT_TRUE(host->open());
    EXPECT_TRUE(host->submit(watch_started()));
    host->start();
    watcher = std::make_unique<Watcher>(client, *host);
    watcher->start();
    export_metrics(registry, *host);
    gap = std::make_unique<GapMeter>(*host, clock);
    gap->export_metrics(registry);
    api = make_api(*host, gap.get());
    server = std::make_unique<rpc::Server>(rpc::ServerOptions{}, std::vector<grpc::Service*>{api.get()});
    EXPECT_TRUE(server->start());
    stub = pb::Placement::NewStub(
        grpc::CreateChannel(fmt::format("127.0.0.1:{}", server->port()), grpc::InsecureChannelCredentials()));
  }
  ~Service() {
    server->stop();
    watcher->stop();
    host->stop();
  }
  void publish_quota(const std::string& uid, int attempt, pb::WorkloadPhase phase, int pods, int gpus,
                     const std::string& rules = "") {
    pb::WorkloadEvent event;
    auto* spec = event.mutable_spec();
    spec->set_uid(uid);
    spec->set_namespace_("team");
    spec->set_name(uid);
    auto* set = spec->add_pod_sets();
    set->set_name("main");
    set->set_count(pods);
    set->set_rules(rules);
    set->mutable_shape()->set_cpu_milli(2000);
    set->mutable_shape()->mutable_gpu()->set_whole(gpus);
    set->mutable_shape()->add_tolerations()->set_operator_("Exists");
    event.set_attempt(attempt);
    event.set_phase(phase);
    pb::Envelope envelope;
    envelope.set_topic("qm.workload");
    envelope.set_key(uid);
    envelope.set_key_version(++version);
    envelope.set_payload(event.SerializeAsString());
    auto producer = *bus->producer("admission");
    ASSERT_TRUE(producer->publish(std::vector<bus::Record>{{"qm.workload", uid, envelope.SerializeAsString()}},
                                  std::chrono::seconds(5)));
  }
  template <class Request, class Response>
  grpc::Status call(grpc::Status (pb::Placement::Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                    const Request& request, Response& response) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
    return (stub.get()->*method)(&context, request, &response);
  }
  pb::AssignmentState state(const std::string& uid) {
    pb::GetAssignmentRequest request;
    request.set_uid(uid);
    pb::Assignment response;
    return call(&pb::Placement::Stub::Get, request, response).ok() ? response.state().state()
                                                                   : pb::ASSIGNMENT_STATE_UNSPECIFIED;
  }
  bool comes_to(const std::string& uid, pb::AssignmentState wanted) {
    return wait_until([&] { return state(uid) == wanted; });
  }
};

// S-167: the memory of each node's GPUs is exported in GB, and a gang fits only GPUs with the memory that it requires.
TEST(Service, GpuMemoryIsExportedAndFitted) {
  testing::LittleKube kube;
  const auto node_with = [](const std::string& name, const char* product, const char* mib) {
    Json node = make_node(name, 8);
    Json labels = node["metadata"]["labels"];
    labels.set(words::kGpuProduct, product);
    if (*mib != '\0') labels.set("nvidia.com/gpu.memory", mib);
    node.set("metadata").set("labels", std::move(labels));
    return node;
  };
  kube.put(node_path("a"), node_with("a", "NVIDIA-A100-SXM4-40GB", "40960"));
  kube.put(node_path("b"), node_with("b", "NVIDIA-A100-SXM4-80GB", "81920"));
  kube.put(node_path("c"), node_with("c", "NVIDIA-H100-80GB-HBM3", ""));
  Service service(kube);
  const auto more_than = [](const std::string& mib) {
    return fmt::format(R"({{"spec":{{"tolerations":[{{"operator":"Exists"}}],"affinity":{{"nodeAffinity":
        {{"requiredDuringSchedulingIgnoredDuringExecution":{{"nodeSelectorTerms":[{{"matchExpressions":
          [{{"key":"nvidia.com/gpu.memory","operator":"Gt","values":["{}"]}}]}}]}}}}}}}}}})",
                       mib);
  };
  const auto node_of = [&](const std::string& uid) {
    pb::GetAssignmentRequest request;
    request.set_uid(uid);
    pb::Assignment response;
    EXPECT_TRUE(service.call(&pb::Placement::Stub::Get, request, response).ok());
    return response.state().members_size() == 1 ? response.state().members(0).node() : std::string();
  };
  service.publish_quota("large", 1, pb::QUOTA_RESERVED, 1, 4, more_than("61440"));
  ASSERT_TRUE(service.comes_to("large", pb::RESERVED));
  EXPECT_EQ(node_of("large"), "b") << "40 GB are too few, and the memory of c is not known";
  service.publish_quota("larger", 1, pb::QUOTA_RESERVED, 1, 8, more_than("61440"));
  EXPECT_TRUE(service.comes_to("larger", pb::SHORT)) << "four GPUs of b are free, all of a";
  service.publish_quota("largest", 1, pb::QUOTA_RESERVED, 1, 1, more_than("81920"));
  EXPECT_TRUE(service.comes_to("largest", pb::SHORT));
  service.publish_quota("small", 1, pb::QUOTA_RESERVED, 1, 8, more_than("20480"));
  ASSERT_TRUE(service.comes_to("small", pb::RESERVED));
  EXPECT_EQ(node_of("small"), "a");

  const std::string name = "qm_placement_node_gpu_memory_gb{node=";
  const auto text = service.registry.text();
  EXPECT_NE(text.find(name + "\"a\",model=\"NVIDIA-A100-SXM4-40GB\"} 320\n"), std::string::npos) << text;
  EXPECT_NE(text.find(name + "\"b\",model=\"NVIDIA-A100-SXM4-80GB\"} 640\n"), std::string::npos) << text;
  EXPECT_EQ(text.find(name + "\"c\""), std::string::npos) << "zero would be a value";
  kube.erase(node_path("b"));
  EXPECT_TRUE(wait_until([&] { return service.registry.text().find(name + "\"b\"") == std::string::npos; }));
}

TEST(Service, RunsAGangFromQuotaToRelease) {
  testing::LittleKube kube;
  kube.put(node_path("a"), make_node("a", 8));
  kube.put(node_path("b"), make_node("b", 8));
  Service service(kube);
  service.publish_quota("w", 1, pb::QUOTA_RESERVED, 2, 8);
  ASSERT_TRUE(service.comes_to("w", pb::RESERVED));
  service.publish_quota("w", 1, pb::ADMITTED, 2, 8);
  kube.put(pod_path("w-0"), make_pod("w-0", "w", 1, 0, 8));
  kube.put(pod_path("w-1"), make_pod("w-1", "w", 1, 1, 8));
  ASSERT_TRUE(service.comes_to("w", pb::BOUND));
  EXPECT_EQ(kube.get(pod_path("w-0")).path("spec.nodeName").string(), "a");
  EXPECT_EQ(kube.get(pod_path("w-1")).path("spec.nodeName").string(), "b");
  EXPECT_EQ(kube::annotation(kube.get(pod_path("w-1")), words::kDevices), "0,1,2,3,4,5,6,7");

  // Another workload does not fit, and both the API and the events give the reason.
  service.publish_quota("v", 1, pb::QUOTA_RESERVED, 1, 8);
  ASSERT_TRUE(service.comes_to("v", pb::SHORT));
  pb::DryRunRequest dry;
  auto* set = dry.add_pod_sets();
  set->set_count(1);
  set->mutable_shape()->mutable_gpu()->set_whole(1);
  set->mutable_shape()->add_tolerations()->set_operator_("Exists");
  pb::DryRunResponse answer;
  ASSERT_TRUE(service.call(&pb::Placement::Stub::DryRun, dry, answer).ok());
  EXPECT_FALSE(answer.fits());
  EXPECT_NE(answer.reason().find("2 eligible nodes have 0 free GPUs"), std::string::npos) << answer.reason();
  dry.clear_pod_sets();
  const auto refused = service.call(&pb::Placement::Stub::DryRun, dry, answer);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(rpc::from_grpc(refused, "DryRun").field, "pod_sets");

  const auto text = service.registry.text();
  EXPECT_NE(text.find("qm_placement_gpus_used 16"), std::string::npos) << text;
  EXPECT_NE(text.find("qm_placement_nodes{state=\"ready\"} 2"), std::string::npos) << text;
  EXPECT_NE(text.find("qm_placement_demand 1"), std::string::npos) << text;
  EXPECT_NE(text.find("qm_placement_bind_seconds_count 1"), std::string::npos) << text;

  // No scheduler could do better: two nodes of eight GPUs, both full. One more node is worth what v requests.
  pb::Gap gap;
  EXPECT_EQ(service.call(&pb::Placement::Stub::GetGap, pb::GetGapRequest(), gap).error_code(),
            grpc::StatusCode::UNAVAILABLE)
      << "not computed yet";
  EXPECT_EQ(service.registry.text().find("qm_placement_gpus_bound"), std::string::npos);
  ASSERT_EQ(service.gap->look(), GapMeter::Look::kComputed);
  EXPECT_EQ(service.gap->look(), GapMeter::Look::kUnchanged);
  ASSERT_TRUE(service.call(&pb::Placement::Stub::GetGap, pb::GetGapRequest(), gap).ok());
  EXPECT_EQ(gap.at_us(), micros(service.clock.now()));
  EXPECT_EQ(gap.capacity_milli(), 16'000);
  EXPECT_EQ(gap.requested_milli(), 24'000);
  EXPECT_EQ(gap.allocated_milli(), 16'000);
  EXPECT_EQ(gap.bound_milli(), 16'000);
  EXPECT_EQ(gap.keeping_milli(), 16'000);
  EXPECT_TRUE(gap.close());
  ASSERT_EQ(gap.prices_size(), 1);
  EXPECT_EQ(gap.prices(0).gpus(), 8);
  EXPECT_EQ(gap.prices(0).nodes(), 2);
  EXPECT_EQ(gap.prices(0).price_milli(), 8'000);
  const auto after = service.registry.text();
  EXPECT_NE(after.find("qm_placement_gpus_allocated 16"), std::string::npos) << after;
  EXPECT_NE(after.find("qm_placement_gpus_bound{who=\"any\"} 16"), std::string::npos) << after;
  EXPECT_NE(after.find("qm_placement_gpus_gap{who=\"keeping\"} 0"), std::string::npos) << after;
  EXPECT_NE(after.find("qm_placement_scarcity_price{"), std::string::npos) << after;

  // One node is deleted: the eviction of the whole gang is requested; the other pod is deleted, and
  // v is placed instead.
  kube.erase(node_path("a"));
  ASSERT_TRUE(wait_until([&] {
    const auto rows = service.host->snapshot("qm.placement", "", 10, "evict/w/1");
    return rows && rows->size() == 1;
  }));
  service.publish_quota("w", 1, pb::EVICTING, 2, 8);
  ASSERT_TRUE(service.comes_to("w", pb::RELEASED));
  ASSERT_TRUE(service.comes_to("v", pb::RESERVED));
  EXPECT_TRUE(kube.get(pod_path("w-1")).is_null());

  pb::ListNodesResponse nodes;
  ASSERT_TRUE(service.call(&pb::Placement::Stub::ListNodes, pb::ListNodesRequest(), nodes).ok());
  ASSERT_EQ(nodes.nodes_size(), 1);
  EXPECT_EQ(nodes.nodes(0).devices(0).pods(0), "v/1");
  pb::ListAssignmentsResponse list;
  ASSERT_TRUE(service.call(&pb::Placement::Stub::List, pb::ListAssignmentsRequest(), list).ok());
  EXPECT_EQ(list.total(), 2);

  pb::SnapshotRequest snapshot;
  snapshot.set_topic("qm.placement");
  snapshot.set_page_size(1);
  std::map<std::string, std::uint64_t> keys;
  for (;;) {
    pb::SnapshotResponse page;
    ASSERT_TRUE(service.call(&pb::Placement::Stub::Snapshot, snapshot, page).ok());
    for (const auto& entry : page.entries()) keys[entry.key()] = entry.key_version();
    if (page.next_page_token().empty()) break;
    snapshot.set_page_token(page.next_page_token());
  }
  EXPECT_TRUE(keys.contains("demand"));
  EXPECT_TRUE(keys.contains("w/1"));
  pb::GetAssignmentRequest get;
  get.set_uid("w");
  pb::Assignment assignment;
  ASSERT_TRUE(service.call(&pb::Placement::Stub::Get, get, assignment).ok());
  EXPECT_EQ(assignment.version(), keys["w/1"]) << "the version of the API is that of the topic";
  get.set_uid("unknown");
  EXPECT_EQ(service.call(&pb::Placement::Stub::Get, get, assignment).error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST(Service, CordonsADrainingNode) {
  testing::LittleKube kube;
  kube.put(node_path("a"), make_node("a", 8));
  Service service(kube);
  pb::CapacityEvent event;
  event.mutable_drain()->set_node("a");
  event.mutable_drain()->set_reason("SpotInterruption");
  pb::Envelope envelope;
  envelope.set_topic("qm.capacity");
  envelope.set_key("drain/a");
  envelope.set_key_version(1);
  envelope.set_payload(event.SerializeAsString());
  auto producer = *service.bus->producer("autoscaler");
  ASSERT_TRUE(producer->publish(std::vector<bus::Record>{{"qm.capacity", "drain/a", envelope.SerializeAsString()}},
                                std::chrono::seconds(5)));
  EXPECT_TRUE(wait_until([&] { return kube.get(node_path("a")).path("spec.unschedulable").boolean(); }));
  EXPECT_TRUE(wait_until([&] {
    pb::ListNodesRequest request;
    request.set_state("cordoned");
    pb::ListNodesResponse nodes;
    return service.call(&pb::Placement::Stub::ListNodes, request, nodes).ok() && nodes.total() == 1;
  }));
}

// Claims, classes and CSINodes are watched: a pod with a volume of its own is placed where one more volume
// may be attached, its claim gets the selected node, and the next pod is pending until the limit is raised.
TEST(Service, PodWithEphemeralVolumeRespectsAttachLimits) {
  testing::LittleKube kube;
  kube.storage = true;
  const std::string limits = "/apis/storage.k8s.io/v1/csinodes/";
  const auto csi_node = [](const std::string& name, int count) {
    return *Json::parse(fmt::format(R"({{"kind":"CSINode","metadata":{{"name":"{}"}},
      "spec":{{"drivers":[{{"name":"ebs.csi.aws.com","allocatable":{{"count":{}}}}}]}}}})",
                                    name, count));
  };
  for (const auto& [name, count] : {std::pair("a", 0), std::pair("b", 1)}) {
    kube.put(node_path(name), make_node(name, 8));
    kube.put(limits + name, csi_node(name, count));
  }
  kube.put("/apis/storage.k8s.io/v1/storageclasses/fast",
           *Json::parse(R"({"kind":"StorageClass","metadata":{"name":"fast"},"provisioner":"ebs.csi.aws.com",
      "volumeBindingMode":"WaitForFirstConsumer"})"));
  const std::string claims = "/api/v1/namespaces/team/persistentvolumeclaims/";
  const Json volumes = *Json::parse(R"([{"name":"scratch","ephemeral":{"volumeClaimTemplate":{
      "spec":{"storageClassName":"fast","accessModes":["ReadWriteOnce"]}}}}])");
  const Json tolerations = *Json::parse(R"([{"operator":"Exists"}])");
  const auto rules = Json::object({{"spec", Json::object({{"volumes", volumes}, {"tolerations", tolerations}})}});
  const auto node_of = [&](const std::string& uid) {
    return kube.get(pod_path(uid + "-0")).path("spec.nodeName").string();
  };
  Service service(kube);
  ASSERT_TRUE(wait_until([&] { return kube.watches() == 6; })) << kube.watches();
  service.publish_quota("w", 1, pb::QUOTA_RESERVED, 1, 1, rules.dump());
  ASSERT_TRUE(service.comes_to("w", pb::RESERVED));
  service.publish_quota("v", 1, pb::QUOTA_RESERVED, 1, 1, rules.dump());
  ASSERT_TRUE(service.comes_to("v", pb::SHORT));
  service.publish_quota("w", 1, pb::ADMITTED, 1, 1, rules.dump());
  auto pod = make_pod("w-0", "w", 1, 0, 1);
  pod.set("spec").set("tolerations", tolerations).set("volumes", volumes);
  kube.put(pod_path("w-0"), pod);
  kube.put(claims + "w-0-scratch", *Json::parse(R"({"kind":"PersistentVolumeClaim","metadata":{"name":"w-0-scratch",
      "namespace":"team","uid":"c","ownerReferences":[{"kind":"Pod","name":"w-0","uid":"uid-w-0","controller":true}]},
      "spec":{"storageClassName":"fast","accessModes":["ReadWriteOnce"]}})"));
  ASSERT_TRUE(wait_until([&] { return node_of("w") == "b"; })) << node_of("w");
  EXPECT_EQ(kube::annotation(kube.get(claims + "w-0-scratch"), "volume.kubernetes.io/selected-node"), "b");
  EXPECT_EQ(service.state("v"), pb::SHORT);
  kube.put(limits + "a", csi_node("a", 1));
  EXPECT_TRUE(service.comes_to("v", pb::RESERVED));
}

TEST(Service, GapIsComputedByABackgroundThread) {
  testing::LittleKube kube;
  kube.put(node_path("a"), make_node("a", 8));
  Service service(kube);
  GapMeter meter(*service.host, service.clock, {std::chrono::milliseconds(10), std::chrono::seconds(10)});
  meter.start();
  EXPECT_TRUE(wait_until([&] { return meter.latest() != nullptr && meter.latest()->capacity == 8'000; }));
  service.publish_quota("w", 1, pb::QUOTA_RESERVED, 1, 4);
  EXPECT_TRUE(wait_until([&] { return meter.latest()->allocated == 4'000; })) << "it looks again and again";
  EXPECT_EQ(meter.latest()->bound, 4'000) << "no further commands arrive";
  meter.stop();
  const auto last = meter.latest();
  service.publish_quota("v", 1, pb::QUOTA_RESERVED, 1, 4);
  ASSERT_TRUE(service.comes_to("v", pb::RESERVED));
  EXPECT_EQ(meter.latest(), last);
}

TEST(Service, RestartKeepsAssignmentsAndDetectsDeletions) {
  testing::LittleKube kube;
  kube.put(node_path("a"), make_node("a", 8));
  const auto disk = store::make_memory_disk();
  const std::string bus = fresh_bus();
  {
    Service first(kube, disk, bus);
    first.publish_quota("w", 1, pb::QUOTA_RESERVED, 2, 4);
    ASSERT_TRUE(first.comes_to("w", pb::RESERVED));
    kube.put(pod_path("w-0"), make_pod("w-0", "w", 1, 0, 4));
    kube.put(pod_path("w-1"), make_pod("w-1", "w", 1, 1, 4));
    ASSERT_TRUE(first.comes_to("w", pb::BOUND));
  }
  kube.cut_watches();
  kube.erase(pod_path("w-1"), true);
  Service second(kube, disk, bus);
  second.version = 10;
  EXPECT_EQ(second.state("w"), pb::BOUND);
  ASSERT_TRUE(wait_until([&] { return second.watcher->synced(); }));
  second.publish_quota("v", 1, pb::QUOTA_RESERVED, 1, 4);
  ASSERT_TRUE(second.comes_to("v", pb::SHORT)) << "the devices of w are not free";
  second.publish_quota("w", 1, pb::FINISHED, 2, 4);
  // Rank 1 ended unobserved: its devices become free with the end of the job, those of rank 0 do not.
  ASSERT_TRUE(second.comes_to("v", pb::RESERVED));
  EXPECT_EQ(second.state("w"), pb::BOUND);
  auto done = kube.get(pod_path("w-0"));
  done.set("status").set("phase", "Succeeded");
  kube.put(pod_path("w-0"), done);
  EXPECT_TRUE(second.comes_to("w", pb::RELEASED));
}

TEST(Service, FullMailboxLosesNoWatchEvents) {
  testing::LittleKube kube;
  for (int i = 0; i < 64; ++i) kube.put(node_path(fmt::format("n{}", i)), make_node(fmt::format("n{}", i), 8));
  Service service(kube, store::make_memory_disk(), fresh_bus(), 2);
  EXPECT_TRUE(wait_until([&] {
    pb::ListNodesResponse nodes;
    return service.call(&pb::Placement::Stub::ListNodes, pb::ListNodesRequest(), nodes).ok() && nodes.total() == 64;
  }));
}

}  // namespace service_test
}  // namespace qm::placement
