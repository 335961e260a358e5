// A Job without a node backs off; a change of capacity makes admission retry it at once. Case f18 of the field reports.
#include "pair.hpp"
#include "qm/config/manifest.hpp"
#include "qm/testing/testing.hpp"

#include <filesystem>

namespace qm {
namespace requeue_test {

std::string text_of(const std::filesystem::path& file) {
  std::string out = testing::read_file(file);
  for (std::size_t at = 0; (at = out.find("@NODE@")) != std::string::npos;) out.replace(at, 6, "a");
  return out;
}

/// Admission, placement, and node a with eight GPUs.
class Suite {
 public:
  Suite() {
    node(false);
    pair_.watched("node.synced", R"(["a"])");
    pair_.watched("pod.synced", "[]");
  }
  void apply(const std::string& manifest) { pair_.apply(manifest); }
  void job(Json body, const std::string& uid) {
    body.set("metadata").set("uid", uid);
    pair_.job(body.dump());
  }
  void node(bool cordoned) {
    pair_.watched("node",
                  fmt::format(R"({{"apiVersion":"v1","kind":"Node","metadata":{{"name":"a","uid":"node-a","labels":{{
        "kubernetes.io/hostname":"a","nvidia.com/gpu.product":"NVIDIA-H100-80GB-HBM3","nvidia.com/gpu.count":"8"}}}},
        "spec":{{"unschedulable":{}}},"status":{{"allocatable":{{"cpu":"64","memory":"256Gi","pods":"110",
        "nvidia.com/gpu":"8"}},"conditions":[{{"type":"Ready","status":"True"}}]}}}})",
                              cordoned));
  }
  void pass(Duration time) { pair_.pass(time); }
  [[nodiscard]] std::string phase_of(const std::string& uid) {
    std::string out;
    pair_.with_admission([&](const admission::Engine& engine) {
      const auto* w = engine.find(WorkloadUid(uid));
      out = w == nullptr ? "unknown" : std::string(admission::name_of(w->phase));
    });
    return out;
  }

 private:
  testing::Pair pair_;
};

TEST(FieldF18, JobPendingForACordonedNodeStartsWhenUncordoned) {
  const auto shared = testing::shared_dir();
  const auto folder = std::filesystem::path(shared.value_or("")) / "field" / "f18-cordon";
  if (!shared || !std::filesystem::exists(folder)) GTEST_SKIP() << testing::no_shared();
  const auto job = [&](const char* file) {
    return config::load_text(text_of(folder / file), file).objects.at(0).document.content;
  };
  Suite suite;
  suite.apply("apiVersion: kueue.x-k8s.io/v1beta2\nkind: ResourceFlavor\nmetadata: {name: fx}\n---\n" +
              text_of(folder / "queue.yaml"));
  suite.job(job("job.yaml"), "run");
  EXPECT_EQ(suite.phase_of("run"), "Admitted");
  suite.node(true);
  suite.job(job("job2.yaml"), "new");
  EXPECT_EQ(suite.phase_of("new"), "QuotaReserved");
  // The back-off has doubled a few times by now.
  suite.pass(std::chrono::minutes(8));
  EXPECT_EQ(suite.phase_of("new"), "Pending");
  suite.node(false);
  EXPECT_EQ(suite.phase_of("new"), "Admitted") << "at once, whatever is left of the back-off";
}

}  // namespace requeue_test
}  // namespace qm
