// MIG layouts against an API server: nodes are labeled, mig-manager answers, pods get instances. If the cluster has no
// mig-manager, the test simulates it. S-126 S-127 S-128
#include "adoption.hpp"
#include "qm/config/manifest.hpp"
#include "qm/testing/manifests.hpp"
#include "quartermaster/v1/placement_service.grpc.pb.h"

#include <grpcpp/grpcpp.h>

#include <map>
#include <mutex>
#include <set>

namespace qm::adoption {
namespace placement_layouts_kube_test {

namespace pb = quartermaster::v1;
using kube::resources::kNodes;
using kube::resources::kPods;

constexpr const char* kConfig = "nvidia.com/mig.config";
constexpr const char* kState = "nvidia.com/mig.config.state";

class PlacementLayouts : public Adoption {
 protected:
  void TearDown() override {
    placement_.reset();
    nodes_.reset();
    for (const auto& machine : machines_) terminate_instance(machine);
    Adoption::TearDown();
  }

  /// A node with one H100.
  std::string one_gpu(const std::string& stem) {
    watch_states();
    const std::string name = own(stem);
    if (!cluster().machines) {
      const auto room = Json::object({{"cpu", "128"}, {"memory", "1Ti"}, {"pods", "110"}, {"nvidia.com/gpu", "1"}});
      EXPECT_TRUE(client().create(
          kNodes, "",
          Json::object(
              {{"apiVersion", "v1"},
               {"kind", "Node"},
               {"metadata", Json::object({{"name", name},
                                          {"annotations", Json::object({{"kwok.x-k8s.io/node", "fake"}})},
                                          {"labels", Json::object({{"kubernetes.io/hostname", name},
                                                                   {kPool, own("pool")},
                                                                   {"nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3"},
                                                                   {"nvidia.com/gpu.count", "1"}})}})},
               {"status", Json::object({{"capacity", room}, {"allocatable", room}})}})));
      machines_.push_back({"", name});
      return name;
    }
    cloud::InstanceRequest request;
    request.client_token = name;
    request.image_id = "ami-00000000";
    request.instance_type = "p5.4xlarge";
    request.zone = "us-east-1a";
    request.tags = {{kPool, own("pool")}};
    const auto made = aws().run_instances(request);
    EXPECT_TRUE(made) << made.error().to_string();
    if (!made) return {};
    machines_.push_back({made->front().id, made->front().private_dns});
    return made->front().private_dns;
  }
  bool is_ready(const std::string& node) {
    const auto object = client().get(kNodes, {}, node);
    if (!object) return false;
    for (const Json& condition : object->path("status.conditions").items()) {
      if (condition["type"].string() == "Ready") return condition["status"].string() == "True";
    }
    return false;
  }
  Json node(const std::string& name) { return client().get(kNodes, {}, name).value_or(Json()); }
  std::string label(const std::string& name, const char* key) { return kube::label(node(name), key); }
  /// The GPU resources that a node advertises.
  std::map<std::string, std::string> devices(const Json& room) {
    std::map<std::string, std::string> out;
    for (const auto& [resource, amount] : room.members()) {
      const std::string text = amount.is_int() ? std::to_string(amount.integer()) : amount.string();
      if (resource.starts_with("nvidia.com/") && text != "0") out[resource] = text;
    }
    return out;
  }
  /// Records every state from a watch, because polling can miss one.
  void watch_states() {
    if (nodes_) return;
    const auto on_change = [this](const Json& object, bool) {
      const std::scoped_lock lock(mutex_);
      states_[kube::name_of(object)].insert(kube::label(object, kState));
    };
    nodes_ = std::make_unique<kube::Informer>(client(), kNodes, "", kube::Informer::Callbacks{on_change, [] {}});
    nodes_->start();
    EXPECT_TRUE(testing::wait_until([&] { return nodes_->synced(); }));
  }
  bool was_pending(const std::string& name) {
    return comes([&] {
      const std::scoped_lock lock(mutex_);
      return states_[name].contains("pending");
    });
  }
  void relabel(const std::string& name, const std::string& layout) {
    const auto done = client().merge_patch(
        kNodes, {}, name, Json::object({{"metadata", Json::object({{"labels", Json::object({{kConfig, layout}})}})}}));
    EXPECT_TRUE(done) << done.error().to_string();
  }

  /// Simulates mig-manager if the cluster has none: pending at one step, repartitioned at the next.
  void others() override {
    for (const auto& machine : machines_) {
      const Json object = cluster().machines ? Json() : node(machine.node);
      const std::string layout = kube::label(object, kConfig);
      if (object.is_null() || layout.empty() || applied_[machine.node] == layout) continue;
      const bool begun = kube::label(object, kState) == "pending" && working_[machine.node] == layout;
      working_[machine.node] = layout;
      if (begun) {
        const bool whole = layout == "all-disabled";
        const bool twos = layout == "all-2g.20gb";
        const auto room = Json::object({{"nvidia.com/gpu", whole ? "1" : "0"},
                                        {"nvidia.com/mig-1g.10gb", whole || twos ? Json() : Json("7")},
                                        {"nvidia.com/mig-2g.20gb", twos ? Json("3") : Json()}});
        EXPECT_TRUE(client().merge_patch(
            kNodes, {}, machine.node,
            Json::object({{"status", Json::object({{"capacity", room}, {"allocatable", room}})}}), "status"));
        applied_[machine.node] = layout;
      }
      EXPECT_TRUE(client().merge_patch(
          kNodes, {}, machine.node,
          Json::object(
              {{"metadata", Json::object({{"labels", Json::object({{kState, begun ? "success" : "pending"}})}})}})));
    }
  }

  void start(const std::vector<std::string>& more = {}) {
    std::vector<std::string> sets{"quota=none"};
    sets.insert(sets.end(), more.begin(), more.end());
    placement_ = service("placement", sets);
    stub_ = pb::Placement::NewStub(grpc::CreateChannel(placement_->grpc(), grpc::InsecureChannelCredentials()));
  }
  grpc::Status order(const std::string& name, const std::string& layout, pb::OrderLayoutsResponse& answer) {
    pb::OrderLayoutsRequest request;
    request.set_manifest(
        fmt::format("apiVersion: v1\nkind: Node\nmetadata: {{name: {}, labels: {{{}: {}}}}}\n", name, kConfig, layout));
    grpc::ClientContext context;
    return stub_->OrderLayouts(&context, request, &answer);
  }
  pb::NodeLayout layout(const std::string& name) {
    pb::ListLayoutsRequest request;
    request.set_node(name);
    pb::ListLayoutsResponse answer;
    grpc::ClientContext context;
    return stub_->ListLayouts(&context, request, &answer).ok() ? answer.nodes(0) : pb::NodeLayout();
  }
  /// Defines the only allowed layout.
  grpc::Status offer_sevens(pb::OrderLayoutsResponse& answer) {
    pb::OrderLayoutsRequest request;
    request.set_manifest(
        "version: v1\nmig-configs:\n  all-1g.10gb:\n  - {devices: all, mig-enabled: true, mig-devices: {1g.10gb: 7}}\n");
    grpc::ClientContext context;
    return stub_->OrderLayouts(&context, request, &answer);
  }
  Json instance_pod(const std::string& name, const std::string& on, const std::string& profile = "1g.10gb") {
    auto made = pod(name, 0, 100'000, "quartermaster");
    made.set("spec").set("nodeSelector", Json::object({{"kubernetes.io/hostname", on}}));
    made.set("spec")
        .set("containers")
        .items_mut()[0]
        .set("resources")
        .set("limits", Json::object({{"nvidia.com/mig-" + profile, "1"}}));
    made.set("spec").set("containers").items_mut()[0].set("resources").erase("requests");
    return made;
  }
  /// A pod that holds the node's GPU.
  void hold(const std::string& name) {
    auto holder = pod("holder", 1, 100'000, "quartermaster");
    holder.set("spec").set("nodeSelector", Json::object({{"kubernetes.io/hostname", name}}));
    create(kPods, std::move(holder));
    ASSERT_TRUE(comes([&] { return get(kPods, "holder").path("status.phase").string() == "Running"; }))
        << placement_->log();
  }
  std::string node_of(const std::string& pod) { return get(kPods, pod).path("spec.nodeName").string(); }

  std::unique_ptr<Service> placement_;
  std::unique_ptr<pb::Placement::Stub> stub_;
  std::vector<Machine> machines_;
  std::mutex mutex_;
  std::map<std::string, std::set<std::string>> states_;  ///< all values of a node's state label, by node
  std::unique_ptr<kube::Informer> nodes_;
  std::map<std::string, std::string> working_, applied_;
};

// S-126 S-128: following their labels, one node is partitioned into instances and the other returns to whole GPUs.
TEST_F(PlacementLayouts, ALabelLeadsToInstancesAndBackToWholeGpus) {
  struct Case {
    std::string labels, capacity, at, profile;
    int instances, memory_gb;
  };
  for (const auto& manifests : testing::manifest_folders()) {
    SCOPED_TRACE(manifests.name());
    const auto c = manifests.pick(
        Case{"nodes-mig-labels.yaml", "node-mig-capacity.yaml", "status.capacity", "2g.20gb", 3, 20},
        Case{"001-node-mig-config-labels.yaml", "001-node-mig-capacity.yaml", "Capacity", "1g.10gb", 7, 10});
    const std::string resource = "nvidia.com/mig-" + c.profile;
    const auto loaded = config::load_path(manifests.dir + c.labels);
    ASSERT_EQ(loaded.objects.size(), 2U);
    const auto capacity = config::load_path(manifests.dir + c.capacity);
    ASSERT_EQ(capacity.objects.size(), 1U);
    const auto expected = devices(capacity.objects[0].document.content.path(c.at));
    EXPECT_EQ(expected, (std::map<std::string, std::string>{{resource, std::to_string(c.instances)}}));
    const std::string first = one_gpu(manifests.name() + "-1"), second = one_gpu(manifests.name() + "-2");
    ASSERT_TRUE(comes([&] { return is_ready(first) && is_ready(second); }));
    if (!placement_) start();
    relabel(first, kube::label(loaded.objects[0].document.content, kConfig));
    relabel(second, kube::label(loaded.objects[1].document.content, kConfig));
    ASSERT_TRUE(comes([&] { return label(first, kState) == "success" && label(second, kState) == "success"; }));
    EXPECT_TRUE(was_pending(first));
    EXPECT_EQ(devices(node(first).path("status.allocatable")), expected);
    EXPECT_EQ(devices(node(second).path("status.allocatable")),
              (std::map<std::string, std::string>{{"nvidia.com/gpu", "1"}}));
    ASSERT_TRUE(comes([&] { return layout(first).advertised().contains(resource); })) << placement_->log();
    const auto seen = layout(first);
    EXPECT_EQ(seen.planned().at(resource), c.instances);
    EXPECT_EQ(seen.finding(), "");
    ASSERT_EQ(seen.gpus_size(), 1);
    EXPECT_EQ(seen.gpus(0).instances(0).profile(), c.profile);
    EXPECT_EQ(seen.gpus(0).instances(0).count(), c.instances);
    EXPECT_EQ(seen.gpus(0).instances(0).memory_gb(), c.memory_gb);
    EXPECT_EQ(layout(second).planned().at("nvidia.com/gpu"), 1);

    const auto named = [&](int i) { return fmt::format("{}-{}", manifests.name(), i); };
    for (int i = 0; i <= c.instances; ++i) create(kPods, instance_pod(named(i), first, c.profile));
    const auto placed = [&] {
      int n = 0;
      for (int i = 0; i <= c.instances; ++i) n += node_of(named(i)) == first ? 1 : 0;
      return n;
    };
    ASSERT_TRUE(comes([&] { return placed() == c.instances; })) << placement_->log();
    ASSERT_TRUE(comes([&] { return layout(first).gpus(0).instances(0).idle() == 0; }));
    EXPECT_EQ(placed(), c.instances) << "the GPU has no more instances";
  }
}

// An order of a user: cordon, label, compare with the resources that the node advertises, uncordon.
TEST_F(PlacementLayouts, AnOrderCutsAnIdleNode) {
  const std::string name = one_gpu("idle");
  ASSERT_TRUE(comes([&] { return is_ready(name); }));
  start();
  pb::OrderLayoutsResponse answer;
  ASSERT_TRUE(comes([&] { return order(name, "all-1g.10gb", answer).ok(); })) << placement_->log();
  ASSERT_EQ(answer.orders_size(), 1);
  EXPECT_EQ(answer.orders(0).capacity().at("nvidia.com/mig-1g.10gb"), 7);
  ASSERT_TRUE(comes([&] { return layout(name).order().phase() == "done"; }))
      << layout(name).ShortDebugString() << placement_->log();
  EXPECT_TRUE(was_pending(name));
  ASSERT_TRUE(comes([&] { return !node(name).path("spec.unschedulable").boolean(); }));
  EXPECT_EQ(label(name, kConfig), "all-1g.10gb");
  EXPECT_EQ(order(name, "all-9g.90gb", answer).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

// Without an order: pods are pending for instances, and the idle GPU is repartitioned for them in the same steps; the
// busy GPU is not changed.
TEST_F(PlacementLayouts, AnIdleGpuIsRepartitionedForAPendingMigRequest) {
  const std::string busy = one_gpu("held"), idle = one_gpu("wished");
  ASSERT_TRUE(comes([&] { return is_ready(busy) && is_ready(idle); }));
  start({"mig-repartition=" + own("pool"), "mig-repartition-after=2s"});
  hold(busy);
  pb::OrderLayoutsResponse answer;
  ASSERT_TRUE(comes([&] { return offer_sevens(answer).ok(); })) << placement_->log();
  EXPECT_EQ(answer.orders_size(), 0);
  create(kPods, instance_pod("waits", idle));
  create(kPods, instance_pod("waits-there", busy));
  ASSERT_TRUE(comes([&] { return node_of("waits") == idle; }, std::chrono::seconds(120)))
      << layout(idle).ShortDebugString() << placement_->log();
  const auto seen = layout(idle);
  EXPECT_EQ(seen.order().phase(), "done");
  EXPECT_EQ(seen.order().request_uid(), get(kPods, "waits").path("metadata.uid").string());
  EXPECT_EQ(label(idle, kConfig), "all-1g.10gb");
  EXPECT_TRUE(was_pending(idle));
  ASSERT_TRUE(comes([&] { return !node(idle).path("spec.unschedulable").boolean(); }));
  EXPECT_EQ(devices(node(idle).path("status.allocatable")),
            (std::map<std::string, std::string>{{"nvidia.com/mig-1g.10gb", "7"}}));
  EXPECT_EQ(node_of("waits-there"), "");
  EXPECT_EQ(label(busy, kConfig), "");
}

// S-127: outside its window the layout of a busy node is queued.
TEST_F(PlacementLayouts, ABusyNodeWaitsForItsWindow) {
  const std::string name = one_gpu("busy");
  ASSERT_TRUE(comes([&] { return is_ready(name); }));
  const auto now = std::chrono::floor<std::chrono::hours>(std::chrono::system_clock::now().time_since_epoch()).count();
  const char* names[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  start({fmt::format("mig-window={} 02:00-03:00", names[(now / 24 + 4 + 3) % 7])});  // in three days
  hold(name);
  pb::OrderLayoutsResponse answer;
  ASSERT_TRUE(comes([&] { return order(name, "all-1g.10gb", answer).ok(); })) << placement_->log();
  EXPECT_EQ(answer.orders(0).phase(), "waiting");
  EXPECT_GT(answer.orders(0).from_us(), 0) << "the next window";
  EXPECT_EQ(label(name, kConfig), "");
  EXPECT_FALSE(node(name).path("spec.unschedulable").boolean());
}

// S-127: in the window the node is drained, repartitioned and uncordoned.
TEST_F(PlacementLayouts, InItsWindowABusyNodeIsDrainedRepartitionedAndUncordoned) {
  const std::string name = one_gpu("open");
  ASSERT_TRUE(comes([&] { return is_ready(name); }));
  start({"mig-window=00:00-00:00"});  // every day, all day
  hold(name);
  pb::OrderLayoutsResponse answer;
  ASSERT_TRUE(comes([&] { return order(name, "all-1g.10gb", answer).ok(); })) << placement_->log();
  ASSERT_TRUE(comes([&] { return layout(name).order().phase() == "done"; }, std::chrono::seconds(120)))
      << layout(name).ShortDebugString() << placement_->log();
  EXPECT_TRUE(get(kPods, "holder").is_null()) << "its pod has gone";
  ASSERT_TRUE(comes([&] { return !node(name).path("spec.unschedulable").boolean(); }));
  EXPECT_EQ(devices(node(name).path("status.allocatable")),
            (std::map<std::string, std::string>{{"nvidia.com/mig-1g.10gb", "7"}}));
}

}  // namespace placement_layouts_kube_test
}  // namespace qm::adoption
