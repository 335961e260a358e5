// The requests of pods, as Kubernetes' PodRequests and PodLimits compute them.
#include "qm/model/pod_resources.hpp"

#include <gtest/gtest.h>

namespace qm {
namespace pod_resources_test {

using Amounts = PodResources::Amounts;

std::string shown(const Amounts& amounts) {
  std::string out;
  for (const auto& [name, amount] : amounts) out += name + "=" + amount.to_string() + " ";
  return out;
}

PodResources pod(const std::string& spec) {
  const auto json = Json::parse(spec);
  EXPECT_TRUE(json) << spec;
  auto out = PodResources::read(json ? *json : Json());
  out.set_defaults();
  return out;
}

struct Case {
  const char *what, *spec, *requests, *limits;
};

TEST(PodResources, SumsAsKubernetes) {
  const Case cases[] = {
      {"a limit is the request where none is given",
       R"({"containers":[{"resources":{"requests":{"cpu":"1"},"limits":{"cpu":"3","memory":"1Gi"}}}]})",
       "cpu=1 memory=1Gi ", "cpu=3 memory=1Gi "},
      {"an init container runs with the sidecars before it",
       R"({"initContainers":[{"resources":{"requests":{"cpu":"4"}}},
            {"restartPolicy":"Always","resources":{"requests":{"cpu":"2"}}},
            {"resources":{"requests":{"cpu":"5"}}}],
           "containers":[{"resources":{"requests":{"cpu":"1"}}},{"resources":{"requests":{"cpu":"1"}}}]})",
       "cpu=7 ", ""},
      {"sidecars run with the containers",
       R"({"initContainers":[{"restartPolicy":"Always","resources":{"requests":{"cpu":"2"}}}],
           "containers":[{"resources":{"requests":{"cpu":"1"}}}]})",
       "cpu=3 ", ""},
      {"requests of the pod as a whole replace the sum, of cpu, memory and huge pages alone",
       R"({"resources":{"requests":{"cpu":"9","hugepages-2Mi":"4Mi","nvidia.com/gpu":"7"}},
           "containers":[{"resources":{"requests":{"cpu":"1","memory":"1Gi","nvidia.com/gpu":"1"}}}]})",
       "cpu=9 hugepages-2Mi=4Mi memory=1Gi nvidia.com/gpu=1 ", ""},
      {"limits of the pod as a whole are requests of what no container requests",
       R"({"resources":{"limits":{"cpu":"20"}},"containers":[{"resources":{"limits":{"nvidia.com/gpu":"1"}}}]})",
       "cpu=20 nvidia.com/gpu=1 ", "cpu=20 nvidia.com/gpu=1 "},
      {"and not of what a container requests",
       R"({"resources":{"limits":{"cpu":"20","memory":"8Gi"}},"containers":[{"resources":{"requests":{"cpu":"2"}}}]})",
       "cpu=2 memory=8Gi ", "cpu=20 memory=8Gi "},
      {"huge pages of containers are a limit of the pod",
       R"({"resources":{"limits":{"cpu":"2"}},"containers":[{"resources":{"limits":{"hugepages-2Mi":"4Mi"}}}]})",
       "cpu=2 hugepages-2Mi=4Mi ", "cpu=2 hugepages-2Mi=4Mi "},
      {"overhead is added to requests, and to limits that exist",
       R"({"overhead":{"cpu":"250m","memory":"64Mi"},"resources":{"requests":{"cpu":"2"}},
           "containers":[{"resources":{"requests":{"cpu":"1"},"limits":{"cpu":"3"}}}]})",
       "cpu=2250m memory=64Mi ", "cpu=3250m "},
      {"amounts are rounded up to milli-units one by one",
       R"({"containers":[{"resources":{"requests":{"cpu":"100u","memory":"0.0001"}}},{"resources":{"requests":{"cpu":"1500u"}}}]})",
       "cpu=3m memory=1m ", ""},
      {"invalid and negative quantities count nothing",
       R"({"containers":[{"resources":{"requests":{"cpu":"two","memory":"-1Gi"}}}]})", "memory=0 ", ""},
  };
  for (const auto& one : cases) {
    auto resources = pod(one.spec);
    EXPECT_EQ(shown(resources.total_requests()), one.requests) << one.what;
    EXPECT_EQ(shown(resources.total_limits()), one.limits) << one.what;
    resources.set_defaults();
    EXPECT_EQ(shown(resources.total_requests()), one.requests) << one.what << ", filled in twice";
  }
}

TEST(PodResources, HugeAmountsHaveASum) {
  const auto resources = pod(R"({"overhead":{"cpu":"1e29"},"containers":[
      {"resources":{"limits":{"cpu":"1e29"}}},{"resources":{"limits":{"cpu":"9223372036854775807Ei"}}}]})");
  EXPECT_EQ(resources.total_requests().at("cpu"), Quantity::of(std::int64_t{1} << 62));
  EXPECT_EQ(resources.total_limits().at("cpu"), Quantity::of(std::int64_t{1} << 62));
}

}  // namespace pod_resources_test
}  // namespace qm
