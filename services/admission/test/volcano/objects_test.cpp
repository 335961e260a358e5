// Volcano's Queue and PodGroup, field by field.
#include "qm/admission/volcano/objects.hpp"

#include "qm/config/manifest.hpp"
#include "qm/testing/manifests.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace qm::admission::volcano {
namespace objects_test {

Json yaml(const std::string& text) {
  const auto loaded = config::load_text(text, "here.yaml");
  EXPECT_EQ(loaded.objects.size(), 1U) << text;
  return loaded.objects.empty() ? Json() : loaded.objects[0].document.content;
}

Json queue_with(const std::string& spec) {
  return yaml("apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: q}\nspec: {" + spec + "}\n");
}
Json group_with(const std::string& spec, const std::string& metadata = {}) {
  return yaml("apiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\nmetadata: {name: g" + metadata +
              "}\nspec: {" + spec + "}\n");
}

std::vector<std::string> fields_of(const std::vector<Remark>& remarks) {
  std::vector<std::string> out;
  for (const auto& remark : remarks) out.push_back(remark.field);
  return out;
}

using Fields = std::vector<std::string>;

TEST(VolcanoQueue, ParsesAllUsedFields) {
  const auto read = read_queue(queue_with(
      "weight: 50, capability: {cpu: 256, nvidia.com/gpu: 32, memory: 1Gi}, deserved: {cpu: 1500m}, "
      "guarantee: {resource: {cpu: 500m}}, reclaimable: false, priority: 7, parent: org, dequeueStrategy: fifo"));
  EXPECT_TRUE(read.refused.empty());
  EXPECT_TRUE(read.notes.empty());
  const auto& [rules, capability, guarantee, deserved] = read.value;
  EXPECT_EQ(rules.name, "q");
  EXPECT_EQ(rules.weight, 50);
  EXPECT_EQ(rules.priority, 7);
  EXPECT_EQ(rules.parent, "org");
  EXPECT_FALSE(rules.reclaimable);
  EXPECT_TRUE(rules.preemptable);
  EXPECT_TRUE(rules.strict);
  EXPECT_EQ(capability, (Named{{"cpu", 256'000}, {"nvidia.com/gpu", 32}, {"memory", 1 << 30}}));
  EXPECT_EQ(deserved, (Named{{"cpu", 1'500}}));
  EXPECT_EQ(guarantee, (Named{{"cpu", 500}}));
}

TEST(VolcanoQueue, DefaultsAreVolcanos) {
  const auto read = read_queue(queue_with(""));
  EXPECT_TRUE(read.refused.empty());
  EXPECT_EQ(read.value.rules.weight, 1);
  EXPECT_TRUE(read.value.rules.reclaimable);
  EXPECT_FALSE(read.value.rules.strict);
  EXPECT_EQ(read.value.rules.state, QueueState::kOpen);
}

TEST(VolcanoQueue, ParsesStates) {
  const auto state_of = [](const std::string& word) {
    auto object = queue_with("weight: 1");
    object.set("status", Json::object({{"state", word}}));
    return read_queue(object);
  };
  EXPECT_EQ(state_of("Open").value.rules.state, QueueState::kOpen);
  EXPECT_EQ(state_of("Closed").value.rules.state, QueueState::kClosed);
  EXPECT_EQ(state_of("Closing").value.rules.state, QueueState::kClosing);
  EXPECT_EQ(state_of("Unknown").value.rules.state, QueueState::kUnknown);
  EXPECT_EQ(fields_of(state_of("Ajar").refused), Fields{"status.state"});
}

TEST(VolcanoQueue, EachErrorNamesItsField) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"weight: 0", "spec.weight"},
      {"weight: heavy", "spec.weight"},
      {"weight: 3000000000", "spec.weight"},
      {"priority: -1", "spec.priority"},
      {"parent: 5", "spec.parent"},
      {"reclaimable: 'yes'", "spec.reclaimable"},
      {"capability: 8", "spec.capability"},
      {"capability: {cpu: many}", "spec.capability.cpu"},
      {"capability: {cpu: -1}", "spec.capability.cpu"},
      {"capability: {cpu: 1}, deserved: {cpu: 2}", "spec.deserved.cpu"},
      {"capability: {cpu: 1}, guarantee: {resource: {cpu: 2}}", "spec.guarantee.resource.cpu"},
      {"deserved: {cpu: 1}, guarantee: {resource: {cpu: 2}}", "spec.guarantee.resource.cpu"},
      {"dequeueStrategy: lifo", "spec.dequeueStrategy"},
      {"preemptable: 1", "spec.preemptable"},
      {"preemptionPolicy: worst", "spec.preemptionPolicy"},
      {"extendClusters: [{name: far}]", "spec.extendClusters"},
      {"affinity: {nodeGroupAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [x]}}",
       "spec.affinity.nodeGroupAffinity.requiredDuringSchedulingIgnoredDuringExecution"},
      {"affinity: {nodeGroupAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [x]}}",
       "spec.affinity.nodeGroupAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution"},
  };
  for (const auto& [spec, field] : cases) {
    const auto read = read_queue(queue_with(spec));
    EXPECT_EQ(fields_of(read.refused), Fields{field}) << spec;
    for (const auto& refusal : read.refused) EXPECT_GT(refusal.text.size(), 10U);
  }
  EXPECT_TRUE(read_queue(queue_with("capability: {cpu: 1}, deserved: {cpu: 1}, guarantee: {resource: {cpu: 1}}"))
                  .refused.empty())
      << "all three may be equal";
  EXPECT_EQ(fields_of(read_queue(Json::object({})).refused), Fields{"metadata.name"});
  EXPECT_EQ(read_queue(queue_with("weight: 0, priority: -1")).refused.size(), 2U) << "all errors are reported at once";
}

TEST(VolcanoQueue, IgnoredFieldsAreWarned) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"type: batch", "spec.type"},
      {"wieght: 3", "spec.wieght"},
      {"guarantee: {percentage: 5}", "spec.guarantee.percentage"},
      {"affinity: {nodes: [a]}", "spec.affinity.nodes"},
      {"affinity: {nodeGroupAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [x]}}",
       "spec.affinity.nodeGroupAffinity.preferredDuringSchedulingIgnoredDuringExecution"},
  };
  for (const auto& [spec, field] : cases) {
    const auto read = read_queue(queue_with(spec));
    EXPECT_TRUE(read.refused.empty()) << spec;
    EXPECT_EQ(fields_of(read.notes), Fields{field}) << spec;
  }
  auto object = queue_with("");
  object.set("metadata").set("annotations", Json::object({{"volcano.sh/hierarchy", "root/a"}}));
  EXPECT_EQ(fields_of(read_queue(object).notes), Fields{"metadata.annotations.volcano.sh/hierarchy"});
}

// S-103: a typical queue is accepted unchanged and keeps its fields; two of them are noted as unknown to Volcano.
TEST(VolcanoQueue, ReferenceQueueLoadsWithTwoWarnings) {
  struct Case {
    std::string file, policy;
    VictimPolicy victims;
    int weight;
    bool reclaimable, preemptable;
    Named capability;
  };
  for (const auto& manifests : qm::testing::manifest_folders()) {
    const auto c = manifests.pick(Case{"volcano-queue-imaging.yaml",
                                       "FIFO",
                                       VictimPolicy::kFifo,
                                       7,
                                       false,
                                       false,
                                       {{"cpu", 96'500}, {"memory", std::int64_t{768} << 30}, {"nvidia.com/gpu", 18}}},
                                  Case{"001-volcano-queue.yaml",
                                       "bestFit",
                                       VictimPolicy::kBestFit,
                                       50,
                                       true,
                                       true,
                                       {{"cpu", 256'000}, {"nvidia.com/gpu", 32}}});
    SCOPED_TRACE(c.file);
    const auto object = yaml(qm::testing::read_file(manifests.dir + c.file));
    const auto before = object.dump();
    const auto read = read_queue(object);
    EXPECT_TRUE(read.refused.empty());
    EXPECT_EQ(fields_of(read.notes), (Fields{"spec.preemptable", "spec.preemptionPolicy"}));
    EXPECT_EQ(object.dump(), before);
    EXPECT_EQ(object["spec"]["preemptionPolicy"].string(), c.policy);
    EXPECT_EQ(read.value.rules.weight, c.weight);
    EXPECT_EQ(read.value.rules.victims, c.victims);
    EXPECT_EQ(read.value.rules.reclaimable, c.reclaimable);
    EXPECT_EQ(read.value.rules.preemptable, c.preemptable);
    EXPECT_EQ(read.value.capability, c.capability);
  }
}

TEST(VolcanoGroup, ParsesReferenceGroup) {
  struct Case {
    std::string file, queue, priority_class;
    int least;
    Named resources;
  };
  for (const auto& manifests : qm::testing::manifest_folders()) {
    const auto c = manifests.pick(Case{"volcano-podgroup-registration.yaml",
                                       "imaging",
                                       "bulk",
                                       6,
                                       {{"cpu", 36'000}, {"memory", std::int64_t{192} << 30}, {"nvidia.com/gpu", 6}}},
                                  Case{"001-volcano-podgroup.yaml",
                                       "research-queue",
                                       "high-priority",
                                       8,
                                       {{"cpu", 64'000}, {"memory", std::int64_t{512} << 30}, {"nvidia.com/gpu", 8}}});
    SCOPED_TRACE(c.file);
    const auto read = read_group(yaml(qm::testing::read_file(manifests.dir + c.file)));
    EXPECT_TRUE(read.refused.empty());
    EXPECT_TRUE(read.notes.empty());
    EXPECT_EQ(read.value.min_member, c.least);
    EXPECT_EQ(read.value.queue, c.queue);
    EXPECT_EQ(read.value.priority_class, c.priority_class);
    EXPECT_EQ(read.value.min_resources, c.resources);
  }
}

TEST(VolcanoGroup, ParsesAllUsedFields) {
  const auto read =
      read_group(group_with("minMember: 4, minTaskMember: {master: 1, worker: 3}",
                            ", annotations: {sla-waiting-time: 1h2m3s}, labels: {volcano.sh/preemptable: 'false'}"));
  EXPECT_TRUE(read.refused.empty());
  EXPECT_EQ(read.value.queue, "default");
  EXPECT_EQ(read.value.min_task_member, (Gang::Pods{{"master", 1}, {"worker", 3}}));
  EXPECT_EQ(read.value.min_resources, std::nullopt);
  EXPECT_EQ(read.value.waiting_time, std::chrono::hours(1) + std::chrono::minutes(2) + std::chrono::seconds(3));
  EXPECT_FALSE(read.value.preemptable);
  EXPECT_TRUE(read_group(group_with("minMember: 1")).value.preemptable);
}

TEST(VolcanoGroup, EachErrorNamesItsField) {
  const std::vector<std::tuple<std::string, std::string, std::string>> cases{
      {"minMember: -1", "", "spec.minMember"},
      {"minTaskMember: {worker: x}", "", "spec.minTaskMember.worker"},
      {"minResources: {cpu: x}", "", "spec.minResources.cpu"},
      {"queue: 7", "", "spec.queue"},
      {"networkTopology: {highestTierAllowed: 2}", "", "spec.networkTopology"},
      {"subGroupPolicy: [{name: a}]", "", "spec.subGroupPolicy"},
      {"minMember: 1", ", annotations: {sla-waiting-time: soon}", "metadata.annotations.sla-waiting-time"},
      {"minMember: 1", ", annotations: {sla-waiting-time: 0s}", "metadata.annotations.sla-waiting-time"},
      {"minMember: 1", ", annotations: {volcano.sh/preemptable: maybe}", "metadata.annotations.volcano.sh/preemptable"},
  };
  for (const auto& [spec, metadata, field] : cases) {
    EXPECT_EQ(fields_of(read_group(group_with(spec, metadata)).refused), Fields{field}) << spec << metadata;
  }
}

TEST(VolcanoGroup, IgnoredFieldsAreWarned) {
  EXPECT_EQ(fields_of(read_group(group_with("networkTopology: {mode: soft}")).notes), Fields{"spec.networkTopology"});
  EXPECT_EQ(fields_of(read_group(group_with("minMembers: 3")).notes), Fields{"spec.minMembers"});
}

TEST(VolcanoObjects, StatusOfControllersIsIgnored) {
  auto queue = queue_with("weight: 1");
  queue.set("status", Json::object({{"state", "Open"}, {"running", 3}, {"reservation", Json::object({{"nodes", 1}})}}));
  auto group = group_with("minMember: 1");
  group.set("status", Json::object({{"phase", "Running"}, {"running", 3}}));
  const auto before = queue.dump() + group.dump();
  EXPECT_TRUE(read_queue(queue).notes.empty());
  EXPECT_TRUE(read_queue(queue).refused.empty());
  EXPECT_TRUE(read_group(group).notes.empty());
  EXPECT_TRUE(read_group(group).refused.empty());
  EXPECT_EQ(queue.dump() + group.dump(), before);
}

TEST(VolcanoObjects, NamesAreNumberedInOrder) {
  std::vector<QueueObject> queues;
  for (const auto* spec :
       {"capability: {nvidia.com/gpu: 32}, deserved: {cpu: 1}", "guarantee: {resource: {memory: 1}}"}) {
    queues.push_back(read_queue(queue_with(spec)).value);
  }
  queues[1].rules.name = "r";
  const auto planted = plant(queues, {{"nvidia.com/gpu", 96}, {"pods", 110}});
  ASSERT_TRUE(planted);
  EXPECT_EQ(planted->resources, (std::vector<std::string>{"cpu", "memory", "nvidia.com/gpu", "pods"}));
  EXPECT_EQ(planted->queues.total(), (Resources{0, 0, 96, 110}));
  EXPECT_EQ(planted->queues[1].capability, (Resources{kUnlimited, kUnlimited, 32, kUnlimited}));
  EXPECT_EQ(planted->queues[1].deserved, (Resources{1'000, 0, 0, 0}));
  EXPECT_EQ(planted->queues[2].guarantee, (Resources{0, 1, 0, 0}));
  EXPECT_EQ(planted->amounts({{"pods", 3}, {"fpga", 9}}), (Resources{0, 0, 0, 3}));
  GroupObject group;
  EXPECT_TRUE(planted->gang(group).min_resources.empty());
  queues.push_back(queues[0]);
  EXPECT_FALSE(plant(queues, {}));
}

}  // namespace objects_test
}  // namespace qm::admission::volcano
