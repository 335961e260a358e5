// Hostile bodies: too large, too deep, too wide, or empty. Each is refused by a documented bound, and costs little
// more than its own size.
#include "qm/admission/webhook/review.hpp"
#include "qm/admission/webhook/server.hpp"
#include "qm/testing/testing.hpp"
#include "reviews.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace qm::admission::webhook {
namespace hostile_test {

constexpr std::size_t kMiB = 1 << 20;

/// Peak memory of the process since the last reset, in bytes; 0 where it is unknown.
std::size_t peak() {
  std::istringstream status(testing::read_file("/proc/self/status"));
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stoul(line.substr(6)) * 1024;
  }
  return 0;
}
/// Growth of the peak memory of the process by fn.
template <class Fn>
std::size_t grows_by(Fn&& fn) {
  std::ofstream("/proc/self/clear_refs") << "5";
  const auto before = peak();
  fn();
  return peak() - before;
}

http::Response answered(std::string body) {
  http::Request request;
  request.method = "POST";
  request.target = "/validate";
  request.body = std::move(body);
  return respond(request, {}, {});
}
std::string with_object(const std::string& object) {
  return R"({"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE",
      "kind":{"kind":"Pod"},"namespace":"team","object":)" +
         object + "}}";
}
std::string labels(std::size_t count) {
  std::string out = R"({"metadata":{"labels":{)";
  for (std::size_t i = 0; i < count; ++i) out += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":\"\"";
  return out + "}}}";
}

TEST(Hostile, MebibyteOfGarbageIsRefused) {
  std::string noise(kMiB, '\0');
  std::uint32_t state = 1;
  for (auto& c : noise) c = static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  for (const auto& body : {noise, std::string(kMiB, ' '), std::string(kMiB, '"'), std::string(kMiB, '{'),
                           std::string(kMiB, '0'), std::string("\xff\xfe"), std::string()}) {
    http::Response answer;
    const auto grown = grows_by([&] { answer = answered(body); });
    EXPECT_EQ(answer.status, 400) << body.substr(0, 4);
    EXPECT_LT(answer.body.size(), 4096U) << "the error is one line";
    EXPECT_LT(grown, 24 * kMiB) << body.substr(0, 4);
  }
}

TEST(Hostile, DeepNestingIsRefused) {
  for (const std::size_t depth : {65UL, 100UL, 1'000UL, 20'000UL, 500'000UL}) {
    const auto arrays = answered(with_object(std::string(depth, '[') + std::string(depth, ']')));
    EXPECT_EQ(arrays.status, 400) << depth;
    std::string objects;
    for (std::size_t i = 0; i < depth; ++i) objects += "{\"a\":";
    objects += "1" + std::string(depth, '}');
    EXPECT_EQ(answered(with_object(objects)).status, 400) << depth;
  }
  EXPECT_EQ(answered(with_object(std::string(50, '[') + std::string(50, ']'))).status, 200)
      << "an object that is not a pod is allowed";
}

TEST(Hostile, MillionLabelsAreRefusedBeforeParsing) {
  const auto body = with_object(labels(1'000'000));
  http::Response answer;
  const auto grown = grows_by([&] { answer = answered(body); });
  EXPECT_EQ(answer.status, 400);
  EXPECT_NE(answer.body.find("the limit is 300000"), std::string::npos) << answer.body;
  EXPECT_LT(grown, 2 * body.size());
}

TEST(Hostile, LabelsAboveLimitAreRefused) {
  const auto wide = answered(with_object(labels(10'001)));
  EXPECT_EQ(wide.status, 400);
  EXPECT_NE(wide.body.find("an object of 10001 members, the first of which is 0, is refused; the limit is 10000"),
            std::string::npos)
      << wide.body;
  EXPECT_EQ(answered(with_object(labels(10'000))).status, 200);
  EXPECT_EQ(answered(with_object(labels(250'000))).status, 400);
}

TEST(Hostile, AnswerWithManyErrorsIsBounded) {
  std::string containers;
  for (int i = 0; i < 5'000; ++i) containers += R"({"name":"c","resources":{"limits":{"nvidia.com/gpu":"0.5"}}},)";
  containers.pop_back();
  const auto answer = answered(with_object(R"({"spec":{"containers":[)" + containers + "]}}"));
  ASSERT_EQ(answer.status, 200);
  const auto reported = parsed(answer.body)["response"];
  EXPECT_FALSE(reported["allowed"].boolean(true));
  EXPECT_EQ(reported["status"]["details"]["causes"].size(), 50U);
  EXPECT_LT(answer.body.size(), 64 * 1024U);
  EXPECT_NE(reported["status"]["message"].string().find("more"), std::string::npos);
}

TEST(Hostile, LargestAcceptedObjectIsAnsweredQuickly) {
  // A search in a wide object for each of its members would take seconds of one thread; a response has two seconds.
  http::Request request;
  request.method = "POST";
  request.target = "/mutate";
  request.body = with_object(labels(10'000));
  View view;
  view.local_queues["team"] = {"default"};
  const bool soon = testing::wait_until([&] {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(respond(request, {}, view).status, 200);
    return std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(250);
  });
  EXPECT_TRUE(soon);
}

TEST(Hostile, HugeNumbersAreCheckedLikeOthers) {
  View view;
  auto& home = view.namespaces["team"];
  home.labels["policy.quartermaster.dev/mode"] = "mutate";
  home.annotations = {{std::string(kCpuPerGpu), "8"}, {std::string(kMemoryPerGpu), "64Gi"}};
  view.quotas["team"] = {
      *ResourceQuota::read(parsed(R"({"metadata":{"name":"q"},"spec":{"hard":{"requests.nvidia.com/gpu":4},
      "scopeSelector":{"matchExpressions":[{"scopeName":"PriorityClass","operator":"In","values":["x"]}]}}})"))};
  for (const auto* amount :
       {"9223372036854775807", "9223372036854775807Ei", "170000000000000000000000000000", "1e29", "-1", "1e-9"}) {
    std::string container =
        R"({"name":"c","resources":{"requests":{"cpu":"AMOUNT"},"limits":{"nvidia.com/gpu":"AMOUNT"}}})";
    for (auto at = container.find("AMOUNT"); at != std::string::npos; at = container.find("AMOUNT"))
      container.replace(at, 6, amount);
    http::Request request;
    request.method = "POST";
    request.body = with_object(
        R"({"metadata":{"name":"p"},"spec":{"nodeSelector":{"node.kubernetes.io/instance-type":"g5.2xlarge"},
        "containers":[)" +
        container + "," + container + "," + container + "]}}");
    for (const auto* path : {"/mutate", "/validate"}) {
      request.target = path;
      EXPECT_EQ(respond(request, {}, view).status, 200) << amount;
    }
  }
}

TEST(Hostile, ParametersOfWrongTypeAreNoError) {
  for (const auto* object :
       {"null", "[]", "1", "\"pod\"", "{}", R"({"spec":[]})", R"({"spec":{"containers":{}}})",
        R"({"spec":{"containers":[1,null,"x",[]]}})", R"({"metadata":[],"spec":{"containers":[{"resources":[]}]}})",
        R"({"metadata":{"labels":["a"]},"spec":{"tolerations":"x","nodeSelector":7,"affinity":[]}})",
        R"({"spec":{"containers":[{"resources":{"limits":{"nvidia.com/gpu":{"a":1}}}}]}})"}) {
    EXPECT_EQ(answered(with_object(object)).status, 200) << object;
  }
}

}  // namespace hostile_test
}  // namespace qm::admission::webhook
