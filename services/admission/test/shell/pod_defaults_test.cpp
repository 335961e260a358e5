// LimitRanges and RuntimeClasses: quota counts the requests that pods will have.
#include "qm/admission/watch/pod_defaults.hpp"

#include "job_server.hpp"
#include "qm/admission/translate/translate.hpp"
#include "qm/admission/translate/workload_objects.hpp"
#include "qm/config/manifest.hpp"
#include "qm/testing/testing.hpp"

#include <gtest/gtest.h>

namespace qm::admission {
namespace pod_defaults_test {

Json json(const std::string& text) {
  auto read = Json::parse(text);
  EXPECT_TRUE(read) << text;
  return read ? *read : Json();
}

Limits limits(const std::string& items) {
  return limits_of({json(R"({"kind":"LimitRange","spec":{"limits":[)" + items + "]}}")});
}

constexpr const char* kPod =
    R"({"containers":[{"name":"a"},{"name":"b","resources":{"requests":{"cpu":"4"},"limits":{"memory":"8Gi"}}}]})";

TEST(PodDefaults, ContainersWithoutRequestsGetDefaults) {
  auto pod = json(kPod);
  add_defaults(pod, limits(R"({"type":"Container","default":{"cpu":"2","memory":"2Gi"},
                              "defaultRequest":{"cpu":"1","nvidia.com/gpu":"1"}})"));
  const auto shape = config::shape_from_pod_spec(pod);
  ASSERT_TRUE(shape) << shape.error().to_string();
  EXPECT_EQ(shape->cpu_milli, 5000) << "1 by default and 4 as written";
  EXPECT_EQ(shape->memory_bytes, std::int64_t{10} << 30) << "limits are used as requests";
  EXPECT_EQ(shape->gpu.whole, 2);
}

PodShape shape_with(std::string_view spec, const Limits& limits) {
  auto pod = json(std::string(spec));
  add_defaults(pod, limits);
  const auto shape = config::shape_from_pod_spec(pod);
  EXPECT_TRUE(shape) << spec;
  return shape ? *shape : PodShape();
}

TEST(PodDefaults, LimitsBecomeRequestsBeforeLimitRangeApplies) {
  const auto range = limits(R"({"type":"Container","default":{"cpu":"4","memory":"4Gi"},
                                "defaultRequest":{"cpu":"1","memory":"1Gi"}})");
  const auto shape = shape_with(R"({"containers":[{"resources":{"limits":{"cpu":"8"}}}]})", range);
  EXPECT_EQ(shape.cpu_milli, 8000) << "the container's limit, not the default request of 1";
  EXPECT_EQ(shape.memory_bytes, std::int64_t{1} << 30);
  const auto as_a_whole =
      shape_with(R"({"resources":{"limits":{"cpu":"20","memory":"64Gi"}},"containers":[{},{}]})", range);
  EXPECT_EQ(as_a_whole.cpu_milli, 20'000) << "the pod's limit, not the default requests of two containers";
  EXPECT_EQ(as_a_whole.memory_bytes, std::int64_t{64} << 30);
}

TEST(PodDefaults, MaximumOfContainerIsDefaultToo) {
  const auto range = limits(R"({"type":"Container","max":{"cpu":"8"},"min":{"cpu":"1","memory":"1Gi"}})");
  const auto& item = range.by_type.at("Container");
  EXPECT_EQ(item.standard.at("cpu"), Quantity::of(8));
  EXPECT_EQ(item.standard_request.at("cpu"), Quantity::of(8)) << "the default limit comes before the least";
  EXPECT_EQ(item.standard_request.at("memory").to_string(), "1Gi");
  EXPECT_EQ(shape_with(R"({"containers":[{}]})", range).cpu_milli, 8000);
  EXPECT_TRUE(limits(R"({"type":"Pod","max":{"cpu":"8"}})").by_type.at("Pod").standard.empty());
}

TEST(PodDefaults, TotalOfPodIsChecked) {
  const auto pod = json(
      R"({"overhead":{"cpu":"1"},"resources":{"limits":{"cpu":"20"}},"containers":[{"resources":{"limits":{"memory":"1Gi"}}}]})");
  EXPECT_TRUE(violations(pod, limits(R"({"type":"Pod","max":{"cpu":"20"}})"), "spec").empty())
      << "LimitRanger does not count overhead";
  EXPECT_EQ(violations(pod, limits(R"({"type":"Pod","max":{"cpu":"19"}})"), "spec").size(), 1U);
}

TEST(PodDefaults, FirstDefaultAndTightestBoundApply) {
  const auto both = limits_of(
      {json(R"({"spec":{"limits":[{"type":"Container","default":{"cpu":"1"},"max":{"cpu":"8"},"min":{"cpu":"1"}}]}})"),
       json(
           R"({"spec":{"limits":[{"type":"Container","default":{"cpu":"2"},"max":{"cpu":"4"},"min":{"cpu":"2"}}]}})")});
  const auto& item = both.by_type.at("Container");
  EXPECT_EQ(item.standard.at("cpu").milli(), 1000);
  EXPECT_EQ(item.max.at("cpu").milli(), 4000);
  EXPECT_EQ(item.min.at("cpu").milli(), 2000);
}

TEST(PodDefaults, RequestAboveMaximumIsNamed) {
  const auto wrong = violations(json(kPod), limits(R"({"type":"Container","max":{"cpu":"2","memory":"4Gi"}})"), "spec");
  ASSERT_EQ(wrong.size(), 1U);
  EXPECT_EQ(wrong[0],
            "spec.containers[1]: Invalid value: [\"cpu\",\"memory\"]: requests must not be above the limitRange max");
}

TEST(PodDefaults, RequestBelowMinimumIsNamed) {
  const auto wrong = violations(json(kPod), limits(R"({"type":"Container","min":{"cpu":"1"}})"), "spec");
  ASSERT_EQ(wrong.size(), 1U);
  EXPECT_EQ(wrong[0], "spec.containers[0]: Invalid value: [\"cpu\"]: requests must not be below the limitRange min");
}

TEST(PodDefaults, BoundsOfPodAreChecked) {
  const auto pod =
      json(R"({"initContainers":[{"resources":{"requests":{"cpu":"9"}}}],)"
           R"("containers":[{"resources":{"requests":{"cpu":"3"}}},{"resources":{"requests":{"cpu":"4"}}}]})");
  EXPECT_TRUE(violations(pod, limits(R"({"type":"Pod","max":{"cpu":"9"},"min":{"cpu":"9"}})"), "spec").empty());
  EXPECT_EQ(violations(pod, limits(R"({"type":"Pod","max":{"cpu":"8"}})"), "spec").at(0),
            "spec: Invalid value: [\"cpu\"]: requests must not be above the limitRange max");
  EXPECT_EQ(violations(pod, limits(R"({"type":"Pod","min":{"cpu":"10"}})"), "spec").size(), 1U);
}

TEST(PodDefaults, RatioOfLimitToRequestIsBounded) {
  const auto bound = limits(R"({"type":"Container","maxLimitRequestRatio":{"cpu":"2"}})");
  const auto with = [](const char* resources) {
    return json(fmt::format(R"({{"containers":[{{"resources":{}}}]}})", resources));
  };
  EXPECT_TRUE(violations(with(R"({"requests":{"cpu":"1"},"limits":{"cpu":"2"}})"), bound, "spec").empty());
  EXPECT_EQ(violations(with(R"({"requests":{"cpu":"1"},"limits":{"cpu":"3"}})"), bound, "spec").at(0),
            "spec.containers[0]: cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000");
  EXPECT_EQ(
      violations(with(R"({"requests":{"cpu":"1"}})"), bound, "spec").at(0),
      "spec.containers[0]: cpu max limit to request ratio per Container is 2, but no request or limit is specified");
}

// ---- RuntimeClasses ----

constexpr const char* kScheduling =
    R"({"nodeSelector":{"runtime":"gvisor","zone":"a"},"tolerations":[{"key":"gvisor","operator":"Exists"}]})";

Json job_with(const char* class_name, const char* selector) {
  Json job = testing::make_job("team", "train", "q", 1, 2);
  job.set("spec").set("template").set("spec").set("runtimeClassName", class_name).set("nodeSelector", json(selector));
  return job;
}

TEST(RuntimeClasses, SchedulingIsPartOfTemplates) {
  testing::JobServer server;
  server.serve("node.k8s.io", "v1", "runtimeclasses");
  Json made =
      json(R"({"apiVersion":"node.k8s.io/v1","kind":"RuntimeClass","metadata":{"name":"gvisor"},"handler":"runsc"})");
  made.set("scheduling", json(kScheduling));
  server.put(made);
  kube::Client client(server.client());
  PodDefaults defaults(client);
  defaults.start();
  ASSERT_TRUE(qm::testing::wait_until([&] { return defaults.synced(); }));

  Json job = job_with("gvisor", R"({"disk":"ssd"})");
  EXPECT_EQ(defaults.apply(job, *config::workload_kind("Job")), "");
  const auto seen = parse_job(job);
  ASSERT_TRUE(seen) << seen.error().to_string();
  const auto& shape = seen->spec.pod_sets.at(0).shape;
  EXPECT_EQ(shape.node_selector, (Labels{{"disk", "ssd"}, {"runtime", "gvisor"}, {"zone", "a"}}));
  EXPECT_EQ(shape.tolerations, (std::vector<Toleration>{{"gvisor", "Exists", "", ""}}));

  // Additions of an attempt to the template are removed first.
  Json again = job;
  again.set("spec").set("template").set("spec").set("nodeSelector").set("runtime", "gvisor");
  again.set("metadata")
      .set("annotations")
      .set(kAdded, R"({"main":{"nodeSelector":{"runtime":"gvisor"}},"nodeSelectors":true})");
  const auto running = parse_job(again);
  ASSERT_TRUE(running);
  EXPECT_EQ(running->spec.pod_sets, seen->spec.pod_sets);

  Json other = job_with("runc", "{}");
  EXPECT_EQ(defaults.apply(other, *config::workload_kind("Job")), "");
  EXPECT_TRUE(parse_job(other)->spec.pod_sets.at(0).shape.node_selector.empty());

  // The API server refuses such pods.
  Json against = job_with("gvisor", R"({"zone":"b"})");
  EXPECT_EQ(defaults.apply(against, *config::workload_kind("Job")), "");
  const auto refused = parse_job(against);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().field, "spec.template.spec.nodeSelector[zone]");
  EXPECT_EQ(
      rejected_job(against, refused.error())->rejected,
      "spec.template.spec.nodeSelector[zone] is b, and scheduling.nodeSelector[zone] of RuntimeClass gvisor is a: "
      "the API server refuses such pods; remove zone from nodeSelector, or name another runtimeClassName");
  defaults.stop();
  server.close_watches();
}

TEST(RuntimeClasses, ApplyToWorkloadObjects) {
  Json object =
      json(R"({"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"Workload","metadata":{"name":"w","namespace":"team",
      "uid":"u"},"spec":{"queueName":"q","podSets":[{"name":"main","count":1,"template":{"spec":{"runtimeClassName":"gvisor",
      "nodeSelector":{"disk":"ssd"},"containers":[{"name":"a","resources":{"requests":{"cpu":"1"}}}]}}}]}})");
  object.set(kRuntimeClasses).set("gvisor", json(kScheduling));
  const auto seen = parse_workload_object(object);
  ASSERT_TRUE(seen) << seen.error().to_string();
  EXPECT_EQ(seen->spec.pod_sets.at(0).shape.node_selector.at("runtime"), "gvisor");
  object.set("spec")
      .set("podSets")
      .items_mut()[0]
      .set("template")
      .set("spec")
      .set("nodeSelector", json(R"({"zone":"b"})"));
  const auto refused = parse_workload_object(object);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().field, "spec.podSets[0].template.spec.nodeSelector[zone]");
}

}  // namespace pod_defaults_test
}  // namespace qm::admission
