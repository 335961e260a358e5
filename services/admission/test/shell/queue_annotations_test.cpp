// Annotations of a ClusterQueue: backfill, aging and quota windows.
#include "qm/admission/translate/translate.hpp"

#include <gtest/gtest.h>

#include <fstream>

namespace qm::admission {
namespace queue_annotations_test {

using namespace std::chrono_literals;

Result<ApplyObjects> read(const std::string& annotation, const std::string& value) {
  return objects_from_manifest(fmt::format(R"(
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata:
  name: research
  annotations:
    quartermaster.dev/{}: '{}'
spec:
  namespaceSelector: {{}}
  resourceGroups:
  - coveredResources: ["nvidia.com/gpu", cpu]
    flavors:
    - name: h100
      resources: [{{name: "nvidia.com/gpu", nominalQuota: 8}}, {{name: cpu, nominalQuota: 0}}]
)",
                                           annotation, value),
                               "q.yaml");
}
std::string refusal(const std::string& annotation, const std::string& value) {
  const auto found = read(annotation, value);
  return found ? "" : found.error().to_string();
}
void expect_refused(const std::string& annotation, const std::string& value, const std::string& why) {
  const auto text = refusal(annotation, value);
  EXPECT_NE(text.find("q.yaml"), std::string::npos) << value << ": " << text;
  EXPECT_NE(text.find("metadata.annotations[quartermaster.dev/" + annotation + "]"), std::string::npos) << text;
  EXPECT_NE(text.find(why), std::string::npos) << text;
}

TEST(QueueAnnotations, BackfillIsParsedAndUnknownValueRefused) {
  const auto found = read("backfill", "conservative");
  ASSERT_TRUE(found) << found.error().to_string();
  EXPECT_TRUE(found->cluster_queues.at(0).backfill);
  EXPECT_FALSE(read("backfill", "")->cluster_queues.at(0).backfill);
  expect_refused("backfill", "aggressive", "aggressive is not a known value");
}

TEST(QueueAnnotations, ExampleOfHoursMatchesItsComment) {
  const std::string path = QM_SOURCE_DIR "/examples/hours/nightly.yaml";
  std::ifstream file(path);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto found = objects_from_manifest(text, path);
  ASSERT_TRUE(found) << found.error().to_string();
  const auto& queue = found->cluster_queues.at(0);
  const std::string gpu(words::kGpuResource);
  const auto at = [&](const char* time) {
    return groups_at(queue, *from_rfc3339(time)).at(0).flavors.at(0).resources.at(gpu).nominal / 1000;
  };
  EXPECT_EQ(at("2026-11-23T18:59:59Z"), 8);
  EXPECT_EQ(at("2026-11-23T19:00:00Z"), 64) << "20:00 an hour east of Greenwich, on a Monday";
  EXPECT_EQ(at("2026-11-24T05:59:59Z"), 64);
  EXPECT_EQ(at("2026-11-24T06:00:00Z"), 8);
  EXPECT_EQ(at("2026-11-28T20:00:00Z"), 8) << "a Saturday";
  EXPECT_TRUE(queue.drains && queue.backfill && queue.aging);
}

TEST(QueueAnnotations, AgingIsParsedAndUnknownValueRefused) {
  const auto found = read("aging", "bound=168h,ceiling=100");
  ASSERT_TRUE(found) << found.error().to_string();
  EXPECT_EQ(found->cluster_queues.at(0).aging, (forecast::Aging{168h, 100}));
  EXPECT_EQ(read("aging", "bound=30m")->cluster_queues.at(0).aging, (forecast::Aging{30min, 0}));
  EXPECT_FALSE(read("aging", "")->cluster_queues.at(0).aging);
  expect_refused("aging", "168h", "168h is not understood");
  expect_refused("aging", "ceiling=5", "it has no bound");
  expect_refused("aging", "bound=0s", "the bound is not a duration");
  expect_refused("aging", "bound=soon", "the bound is not a duration");
  expect_refused("aging", "bound=1h,ceiling=high", "the ceiling is not a priority");
  expect_refused("aging", "bound=1h,ceiling=5,floor=1", "floor=1 is not understood");
  expect_refused("aging", "bound=1h,bound=2h", "bound=2h is not understood");
}

std::string window(const std::string& begins, const std::string& lasts, const std::string& offset,
                   const std::string& quota) {
  return fmt::format(R"([{{"begins": "{}", "lasts": "{}", "offset": {}, "quota": {}}}])", begins, lasts, offset, quota);
}

TEST(QueueAnnotations, QuotaWindowsAreParsedAndUnknownFieldsRefused) {
  const std::string name = "quota-windows", gpus = R"({"h100": {"nvidia.com/gpu": "64", "cpu": 16}})";
  const auto found = read(name, window("0 20 * * 1-5", "12h", R"("+01:00")", gpus));
  ASSERT_TRUE(found) << found.error().to_string();
  const auto& queue = found->cluster_queues.at(0);
  ASSERT_EQ(queue.windows.size(), 1U);
  EXPECT_EQ(queue.windows[0].nominal.at(FlavorName("h100")),
            (std::map<std::string, std::int64_t>{{"cpu", 16000}, {"nvidia.com/gpu", 64000}}));
  EXPECT_FALSE(queue.drains);
  // Friday the 15th of January 2027: open from 19:00 UTC.
  const Instant opens = from_micros(1'800'039'600'000'000);
  const auto gpus_at = [&](Instant at) {
    return groups_at(queue, at).at(0).flavors.at(0).resources.at("nvidia.com/gpu").nominal;
  };
  EXPECT_EQ(gpus_at(opens - 1us), 8000);
  EXPECT_EQ(gpus_at(opens), 64000);
  EXPECT_EQ(gpus_at(opens + 12h), 8000);
  EXPECT_EQ(quota_changes_after(queue, opens), opens + 12h);

  expect_refused(name, "often", "it is not a JSON list");
  expect_refused(name, window("soon", "12h", "null", gpus), "begins:");
  expect_refused(name, window("0 20 * * *", "soon", "null", gpus), "lasts: soon is not a duration");
  expect_refused(name, window("0 20 * * *", "0s", "null", gpus), "a window needs a duration above 0");
  expect_refused(name, window("0 20 30 2 *", "12h", "null", gpus), "begins: 0 20 30 2 * never occurs");
  expect_refused(name, window("0 20 * * *", "8785h", "null", gpus), "lasts: 8785h is not a duration of at most a year");
  expect_refused(name, window("0 20 * * *", "1h", R"("Berlin")", gpus), "Berlin is not an offset");
  expect_refused(name, window("0 20 * * *", "1h", R"("+01:60")", gpus), "+01:60 is not an offset");
  expect_refused(name, window("0 20 * * *", "1h", "1", gpus), "1 is not an offset");
  expect_refused(name, R"(["0 20 * * *"])", "is not a window");
  expect_refused(name, window("0 20 * * *", "1h", "null", R"({"a100": {"cpu": 1}})"),
                 "the queue has no cpu in flavor a100");
  expect_refused(name, window("0 20 * * *", "1h", "null", R"({"h100": {"cpu": "-1"}})"), "the amount of cpu");
  expect_refused(name, window("0 20 * * *", "1h", "null", "{}"), "a window has no quota");
  expect_refused(name, R"([{"until": "noon"}])", "until is not understood");
}

TEST(QueueAnnotations, ActionAtWindowEndIsParsed) {
  EXPECT_TRUE(read("quota-windows-end", "Drain")->cluster_queues.at(0).drains);
  EXPECT_FALSE(read("quota-windows-end", "Keep")->cluster_queues.at(0).drains);
  expect_refused("quota-windows-end", "drain", "drain is not a known value");
}

}  // namespace queue_annotations_test
}  // namespace qm::admission
