// MIG layout orders from manifests through the shell: what is parsed, returned, stored and executed.
// S-119 S-120 S-124 S-125 S-128 S-131 S-134 S-141
#include "little_kube.hpp"
#include "qm/config/manifest.hpp"
#include "qm/placement/api.hpp"
#include "qm/placement/shell.hpp"
#include "qm/testing/manifests.hpp"
#include "src/shell/layouts_yaml.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace qm::placement {
namespace layouts_test {

namespace pb = quartermaster::v1;
using service::Input;
using service::Source;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kH100 = "NVIDIA-H100-80GB-HBM3", kA100 = "NVIDIA-A100-SXM4-40GB";

/// A shell that is stepped by hand, with its rows stored as a store would.
class LayoutShell : public ::testing::Test {
 protected:
  LayoutShell() { start_over(); }
  void start_over() {
    shell_ = std::make_unique<Shell>(std::make_unique<Engine>(), Codec());
    rows_.clear();
    watch("node.synced", Json::array());
    watch("pod.synced", Json::array());
  }
  service::Effects step(Input input) {
    service::Effects effects;
    std::vector<std::pair<std::size_t, Error>> poison;
    shell_->step(std::vector<Input>{std::move(input)}, from_micros(1'000'000'000'000), effects, poison);
    for (const auto& [index, error] : poison) ADD_FAILURE() << error.to_string();
    shell_->commit();
    for (const auto& row : effects.state) {
      if (row.value) {
        rows_[{row.kind, row.key}] = *row.value;
      } else {
        rows_.erase({row.kind, row.key});
      }
    }
    return effects;
  }
  service::Effects watch(const std::string& name, const Json& object) {
    Input input;
    input.source = Source::kWatch;
    input.name = name;
    input.bytes = object.dump();
    return step(std::move(input));
  }
  service::Effects node(const std::string& name, const std::string& product, int gpus, const Labels& labels = {},
                        const Json& more = Json::object(), int whole = -1) {
    Json made = testing::make_node(name, whole < 0 ? gpus : whole);
    Json& out = made.set("metadata").set("labels");
    out.set("nvidia.com/gpu.product", product);
    out.set("nvidia.com/gpu.count", std::to_string(gpus));
    for (const auto& [key, value] : labels) out.set(key, value);
    for (const auto& [resource, amount] : more.members()) made.set("status").set("allocatable").set(resource, amount);
    return watch("node", made);
  }
  Result<pb::OrderLayoutsResponse> order(const std::string& manifest, bool dry_run = false) {
    pb::OrderLayoutsRequest request;
    request.set_manifest(manifest);
    request.set_source("layouts.yaml");
    request.set_dry_run(dry_run);
    Input input;
    input.source = Source::kRequest;
    input.name = "OrderLayouts";
    input.bytes = request.SerializeAsString();
    effects_ = step(std::move(input));
    EXPECT_EQ(effects_.answers.size(), 1U);
    if (effects_.answers.empty()) return fail(Code::kInternal, "no answer");
    if (!effects_.answers[0].reply) return fail(effects_.answers[0].reply.error());
    pb::OrderLayoutsResponse out;
    out.ParseFromString(*effects_.answers[0].reply);
    return out;
  }
  [[nodiscard]] const Engine& engine() const { return shell_->engine(); }
  pb::NodeLayout layout(const std::string& name) {
    pb::ListLayoutsRequest request;
    request.set_node(name);
    const auto answer = list_layouts(engine(), request);
    EXPECT_TRUE(answer) << (answer ? "" : answer.error().to_string());
    return answer ? answer->nodes(0) : pb::NodeLayout();
  }
  static std::map<std::string, std::string> ordered(const pb::OrderLayoutsResponse& answer) {
    std::map<std::string, std::string> out;
    for (const auto& one : answer.orders()) out[one.node()] = one.layout();
    return out;
  }

  std::unique_ptr<Shell> shell_;
  std::map<std::pair<std::string, std::string>, std::string> rows_;
  service::Effects effects_;
};

// S-124: the named devices get their instances, and the others do not change.
TEST_F(LayoutShell, MigPartedConfigDefinesLayouts) {
  struct Case {
    std::string file, layout, resource;
    std::set<int> devices;
    int each;
  };
  for (const auto& manifests : qm::testing::manifest_folders()) {
    SCOPED_TRACE(manifests.name());
    const auto c =
        manifests.pick(Case{"mig-parted-odd-devices.yaml", "odd-devices", "nvidia.com/mig-2g.10gb", {1, 3, 5}, 3},
                       Case{"003-mig-parted-config.yaml", "all-1g.5gb", "nvidia.com/mig-1g.5gb", {0, 1, 2, 3}, 7});
    const int cut = static_cast<int>(c.devices.size()), instances = cut * c.each;
    start_over();
    node("a", kA100, 8);
    const auto answer = order(
        qm::testing::read_file(manifests.dir + c.file) +
        fmt::format("\n---\napiVersion: v1\nkind: Node\nmetadata: {{name: a, labels: {{nvidia.com/mig.config: {}}}}}\n",
                    c.layout));
    ASSERT_TRUE(answer) << answer.error().to_string();
    EXPECT_THAT(answer->layouts(), ElementsAre(c.layout));
    ASSERT_EQ(answer->orders_size(), 1);
    EXPECT_EQ(answer->orders(0).capacity().at(c.resource), instances);
    EXPECT_EQ(answer->orders(0).capacity().at("nvidia.com/gpu"), 8 - cut);
    // As the node is afterwards.
    node("a", kA100, 8, {{"nvidia.com/mig.config", c.layout}, {"nvidia.com/mig.config.state", "success"}},
         Json::object({{c.resource, std::to_string(instances)}}), 8 - cut);
    const auto seen = layout("a");
    ASSERT_EQ(seen.gpus_size(), 8);
    for (int gpu = 0; gpu < 8; ++gpu) {
      EXPECT_EQ(seen.gpus(gpu).mig_enabled(), c.devices.contains(gpu)) << gpu;
      if (c.devices.contains(gpu)) {
        EXPECT_EQ(seen.gpus(gpu).instances(0).count(), c.each) << gpu;
      }
    }
  }
}

// S-125: the operator's default reaches every MIG-capable node.
TEST_F(LayoutShell, GpuOperatorLayoutAppliesToEveryMigNode) {
  struct Case {
    std::string file, layout, resource;
    int each;  ///< instances of a GPU
  };
  for (const auto& manifests : qm::testing::manifest_folders()) {
    SCOPED_TRACE(manifests.name());
    const auto c =
        manifests.pick(Case{"gpu-operator-values-mig.yaml", "all-3g.40gb", "nvidia.com/mig-3g.40gb", 2},
                       Case{"001-gpu-operator-mig-single-values.yaml", "all-1g.10gb", "nvidia.com/mig-1g.10gb", 7});
    start_over();
    node("h", kH100, 8);
    node("k", kH100, 8, {{"nvidia.com/mig.config", "all-disabled"}, {"nvidia.com/mig.config.state", "success"}});
    node("s", kH100, 8, {{"nvidia.com/mig.strategy", "single"}});
    node("t", "Tesla-T4", 4);
    const auto answer = order(qm::testing::read_file(manifests.dir + c.file));
    ASSERT_TRUE(answer) << answer.error().to_string();
    EXPECT_EQ(ordered(*answer),
              (std::map<std::string, std::string>{{"h", c.layout}, {"k", c.layout}, {"s", c.layout}}));
    EXPECT_EQ(answer->orders(0).capacity().at(c.resource), 8 * c.each);
    EXPECT_EQ(answer->orders(2).capacity().at("nvidia.com/gpu"), 8 * c.each)
        << "with the strategy single instances count as GPUs";
    node("later", kH100, 1);
    EXPECT_EQ(layout("later").order().layout(), c.layout);
    pb::ListLayoutsRequest all;
    EXPECT_EQ(list_layouts(engine(), all)->total(), 4) << "a T4 has no layout";
  }
}

// S-131: mig-manager's default is for nodes without the label.
TEST_F(LayoutShell, MigManagerDefaultAppliesWithoutLabel) {
  struct Case {
    std::string file, layout, resource;
    int each;  ///< instances of a GPU
  };
  for (const auto& manifests : qm::testing::manifest_folders()) {
    SCOPED_TRACE(manifests.name());
    const auto c =
        manifests.pick(Case{"gpu-operator-values-mig-manager.yaml", "all-2g.20gb", "nvidia.com/mig-2g.20gb", 3},
                       Case{"002-gpu-operator-mig-manager-values.yaml", "all-1g.10gb", "nvidia.com/mig-1g.10gb", 7});
    start_over();
    node("bare", kH100, 1);
    node("labelled", kH100, 1, {{"nvidia.com/mig.config", "all-disabled"}, {"nvidia.com/mig.config.state", "success"}});
    const auto answer = order(qm::testing::read_file(manifests.dir + c.file));
    ASSERT_TRUE(answer) << answer.error().to_string();
    EXPECT_EQ(ordered(*answer), (std::map<std::string, std::string>{{"bare", c.layout}}));
    EXPECT_EQ(answer->orders(0).capacity().at(c.resource), c.each);
  }
}

// S-141: refused at apply, with the cause and a remedy; nothing of the manifest is applied then.
TEST_F(LayoutShell, PoolWithoutMigIsRefused) {
  node("h", kH100, 1);
  for (const char* product : {"Tesla-T4", "NVIDIA-A10G", "NVIDIA-L4", "Tesla-V100-SXM2-16GB"}) {
    node("pool-0", product, 4);
    const auto refused = order(
        "kind: Node\napiVersion: v1\nmetadata: {name: h, labels: {nvidia.com/mig.config: all-1g.10gb}}\n---\n"
        "kind: Node\napiVersion: v1\nmetadata: {name: pool-0, labels: {nvidia.com/mig.config: all-1g.10gb}}\n");
    ASSERT_FALSE(refused) << product;
    EXPECT_EQ(refused.error().code, Code::kInvalid);
    EXPECT_THAT(refused.error().message, HasSubstr(std::string(product) + " does not support MIG"));
    EXPECT_THAT(refused.error().remedy, HasSubstr("MPS or time-slicing"));
    EXPECT_FALSE(layout("h").has_order()) << "all of it or nothing";
  }
}

// S-128: the capacity that the node advertises matches its layout, or a mismatch is reported.
TEST_F(LayoutShell, CapacityIsComparedWithTheLayout) {
  struct Case {
    std::string file, at, layout, resource;
    int memory_gb, sms;
    std::string fewer;
  };
  for (const auto& manifests : qm::testing::manifest_folders()) {
    SCOPED_TRACE(manifests.name());
    const auto c = manifests.pick(
        Case{"node-mig-capacity.yaml", "status.capacity", "all-2g.20gb", "nvidia.com/mig-2g.20gb", 20, 32, "2"},
        Case{"001-node-mig-capacity.yaml", "Capacity", "all-1g.10gb", "nvidia.com/mig-1g.10gb", 10, 16, "6"});
    start_over();
    const auto loaded = config::load_path(manifests.dir + c.file);
    ASSERT_EQ(loaded.objects.size(), 1U);
    const Json& capacity = loaded.objects[0].document.content.path(c.at);
    Json devices = Json::object({{c.resource, capacity[c.resource]}});
    const Labels labels{{"nvidia.com/mig.config", c.layout}, {"nvidia.com/mig.config.state", "success"}};
    node("a", kH100, 1, labels, devices, 0);
    const auto seen = layout("a");
    EXPECT_EQ(seen.planned().at(c.resource), seen.advertised().at(c.resource));
    EXPECT_EQ(seen.planned().size(), 1U);
    ASSERT_EQ(seen.gpus_size(), 1);
    EXPECT_EQ(seen.gpus(0).instances(0).memory_gb(), c.memory_gb) << "S-119: instances with their memory and SMs";
    EXPECT_EQ(seen.gpus(0).instances(0).sms(), c.sms);
    devices.set(c.resource, c.fewer);
    const auto effects = node("a", kH100, 1, labels, devices, 0);
    EXPECT_TRUE(effects.wake_at) << "it is looked at again, and raised if it stays";
  }
}

// S-120: each instance is a device of its own, and its idle memory is reported by instance.
TEST_F(LayoutShell, IdleMemoryIsReportedPerInstance) {
  node(
      "a", kH100, 2, {{"nvidia.com/mig.config", "all-balanced"}, {"nvidia.com/mig.config.state", "success"}},
      Json::object({{"nvidia.com/mig-1g.10gb", "4"}, {"nvidia.com/mig-2g.20gb", "2"}, {"nvidia.com/mig-3g.40gb", "2"}}),
      0);
  const auto idle_gb = [&] {
    std::map<std::string, int> out;
    const auto seen = layout("a");
    for (const auto& gpu : seen.gpus()) {
      for (const auto& i : gpu.instances()) out[i.profile()] += i.idle() * i.memory_gb();
    }
    return out;
  };
  EXPECT_EQ(idle_gb(), (std::map<std::string, int>{{"1g.10gb", 40}, {"2g.20gb", 40}, {"3g.40gb", 80}}));
  for (const char* tenant : {"red", "blue"}) {
    Json pod = testing::make_pod(tenant, "w", 1, 0, 0);
    pod.set("metadata").set("namespace", tenant);
    pod.set("spec").set("nodeName", "a").set("schedulerName", "default-scheduler");
    pod.set("spec")
        .set("containers")
        .items_mut()[0]
        .set("resources", Json::object({{"limits", Json::object({{"nvidia.com/mig-1g.10gb", 1}})}}));
    watch("pod", pod);
  }
  EXPECT_EQ(idle_gb(), (std::map<std::string, int>{{"1g.10gb", 20}, {"2g.20gb", 40}, {"3g.40gb", 80}}));
}

// S-134: each of n pods that time-slice a GPU has an n-th of it, a quarter if there are four.
TEST_F(LayoutShell, TimeSlicedPodsHaveEqualShares) {
  node("a", "NVIDIA-A10G", 1, {{"nvidia.com/gpu.replicas", "4"}}, Json::object(), 4);
  const auto shares = [&] {
    std::vector<int> out;
    const auto nodes = list_nodes(engine(), {});
    for (const auto& device : nodes->nodes(0).devices()) out.push_back(device.share_milli());
    return out;
  };
  EXPECT_THAT(shares(), ElementsAre(0, 0, 0, 0));
  const int expected[] = {1000, 500, 333, 250};
  for (int pods = 1; pods <= 4; ++pods) {
    Json pod = testing::make_pod(fmt::format("p{}", pods), "w", 1, pods, 1);
    pod.set("spec").set("nodeName", "a").set("schedulerName", "default-scheduler");
    watch("pod", pod);
    const int each = expected[pods - 1];
    EXPECT_THAT(shares(), ElementsAre(each, each, each, each)) << pods;
  }
}

TEST_F(LayoutShell, RowsRoundTripAndAreOptional) {
  node("a", kA100, 8);
  ASSERT_TRUE(
      order("version: v1\nmig-configs:\n  mine:\n  - {devices: all, mig-enabled: true, mig-devices: {2g.10gb: 3}}\n"
            "---\nmigManager: {config: {default: mine}}\n"));
  const auto before = engine().digest();
  std::vector<store::StateRow> rows;
  for (const auto& [key, value] : rows_) rows.push_back({key.first, key.second, value});
  Shell again{std::make_unique<Engine>(), Codec()};
  ASSERT_TRUE(again.load(rows));
  EXPECT_EQ(again.engine().digest(), before);
  EXPECT_EQ(again.engine().tables().meta.find(0)->layout.layout, "mine");
  // The previous release wrote no such rows.
  std::erase_if(rows, [](const store::StateRow& row) { return row.kind == "mig_repartition" || row.kind == "layout"; });
  Shell older{std::make_unique<Engine>(), Codec()};
  ASSERT_TRUE(older.load(rows));
  EXPECT_TRUE(older.engine().tables().repartitions.rows().empty());
}

TEST_F(LayoutShell, OrderBecomesIntents) {
  node("a", kH100, 1);
  const auto dry =
      order("kind: Node\napiVersion: v1\nmetadata: {name: a, labels: {nvidia.com/mig.config: all-1g.10gb}}\n", true);
  ASSERT_TRUE(dry);
  EXPECT_TRUE(effects_.intents.empty());
  EXPECT_TRUE(effects_.state.empty());
  ASSERT_TRUE(order("kind: Node\napiVersion: v1\nmetadata: {name: a, labels: {nvidia.com/mig.config: all-1g.10gb}}\n"));
  ASSERT_EQ(effects_.intents.size(), 1U);
  EXPECT_EQ(effects_.intents[0].kind, "node.cordon");

  testing::LittleKube kube;
  kube::Client client{{kube.origin()}};
  KubeExecutor executor{client};
  Json live = testing::make_node("a", 1);
  live.set("metadata").set("labels").set("nvidia.com/mig.config.state", "success");
  kube.put(testing::node_path("a"), live);
  ASSERT_TRUE(executor.execute(effects_.intents[0]));
  EXPECT_TRUE(kube.get(testing::node_path("a")).path("spec.unschedulable").boolean());
  Json cordoned = testing::make_node("a", 1);
  cordoned.set("metadata").set("labels").set("nvidia.com/gpu.product", kH100).set("nvidia.com/gpu.count", "1");
  cordoned.set("metadata").set("annotations", Json::object({{"quartermaster.dev/cordoned-by", "layout"}}));
  cordoned.set("spec").set("unschedulable", true);
  const auto labelled = watch("node", cordoned);
  ASSERT_EQ(labelled.intents.size(), 1U);
  EXPECT_EQ(labelled.intents[0].kind, "node.layout");
  kube.fail_next("PATCH", 409, "Conflict");
  EXPECT_TRUE(executor.execute(labelled.intents[0]).error().retryable());
  ASSERT_TRUE(executor.execute(labelled.intents[0]));
  const Json after = kube.get(testing::node_path("a"));
  EXPECT_EQ(kube::label(after, "nvidia.com/mig.config"), "all-1g.10gb");
  EXPECT_EQ(kube::label(after, "nvidia.com/mig.config.state"), "") << "the state of the former layout is removed";
  const int patches = kube.calls("PATCH");
  ASSERT_TRUE(executor.execute(labelled.intents[0])) << "again without harm";
  EXPECT_EQ(kube.calls("PATCH"), patches);
  kube.erase(testing::node_path("a"));
  EXPECT_TRUE(executor.execute(labelled.intents[0])) << "a node that is gone needs no layout";
}

TEST(LayoutManifests, ErrorsNameTheField) {
  const auto refused = [](const std::string& text) {
    const auto read = layouts_from_manifest(text, "x.yaml");
    return read ? std::string("it was read") : read.error().to_string();
  };
  EXPECT_THAT(refused("kind: Node\napiVersion: v1\nmetadata: {name: a}\n"), HasSubstr("names no layout"));
  EXPECT_THAT(refused("kind: Pod\napiVersion: v1\nmetadata: {name: a}\n"), HasSubstr("has no MIG layouts"));
  EXPECT_THAT(refused("mig: {strategy: mixed}\n"), HasSubstr("names no layout"));
  EXPECT_THAT(refused("mig: {config: a}\n---\nmigManager: {config: {default: b}}\n"),
              HasSubstr("two different defaults"));
  EXPECT_THAT(refused("mig: {config: 7}\n"), HasSubstr("mig.config"));
  EXPECT_THAT(refused("kind: ConfigMap\napiVersion: v1\nmetadata: {name: a}\n"), HasSubstr("no list of layouts"));
  const auto part = [&](const std::string& text) { return refused("mig-configs:\n  x:\n  - " + text + "\n"); };
  EXPECT_THAT(part("{mig-enabled: true}"), HasSubstr("names no devices"));
  EXPECT_THAT(part("{devices: [-1], mig-enabled: true}"), HasSubstr("-1 is not a device"));
  EXPECT_THAT(part("{devices: all}"), HasSubstr("not true or false"));
  EXPECT_THAT(part("{devices: all, mig-enabled: false, mig-devices: {1g.5gb: 7}}"), HasSubstr("without mig-enabled"));
  EXPECT_THAT(part("{devices: all, mig-enabled: true, mig-devices: {1g.5gb: many}}"), HasSubstr("not a number"));
  EXPECT_THAT(refused("a: [1"), HasSubstr("x.yaml"));
}

TEST(LayoutManifests, LayoutWithDeviceFilterIsSkippedWithAWarning) {
  const auto read = layouts_from_manifest(
      "mig-configs:\n  x:\n  - {device-filter: '0x20B010DE', devices: all, mig-enabled: true, mig-devices: {1g.5gb: 7}}\n"
      "  y:\n  - {devices: all, mig-enabled: false}\n",
      "");
  ASSERT_TRUE(read) << read.error().to_string();
  EXPECT_EQ(read->order.definitions.size(), 1U);
  ASSERT_EQ(read->warnings.size(), 1U);
  EXPECT_THAT(read->warnings[0], HasSubstr("layout x has a device-filter"));
}

}  // namespace layouts_test
}  // namespace qm::placement
