// A Job without a node backs off; a change of capacity makes admission retry it at once. Case f18 of the field reports.
#include "pair.hpp"
#include "qm/config/manifest.hpp"
#include "qm/testing/testing.hpp"
#include "quartermaster/v1/admission_service.pb.h"

#include <fmt/format.h>

#include <filesystem>

namespace qm {
namespace requeue_test {

namespace pb = quartermaster::v1;
using std::chrono::seconds;
using Process = testing::ServiceProcess;
using testing::Prompt;

std::string text_of(const std::filesystem::path& file) {
  std::string out = testing::read_file(file);
  for (std::size_t at = 0; (at = out.find("@NODE@")) != std::string::npos;) out.replace(at, 6, "a");
  return out;
}

/// Admission, placement, and node a with eight GPUs.
class Pair {
 public:
  Pair() {
    static int n = 0;
    bus_ = std::make_shared<Prompt>(*bus::make_bus("memory:requeue-" + std::to_string(++n)));
    admission_ = testing::make_admission(bus_, clock_);
    placement_ = testing::make_placement(bus_, clock_);
    admission_->start();
    placement_->start();
    node(false);
    watched(*placement_, "node.synced", R"(["a"])");
    watched(*placement_, "pod.synced", "[]");
  }
  void apply(const std::string& manifest) {
    pb::ApplyRequest request;
    request.set_manifest(manifest);
    service::Input input;
    input.source = service::Source::kRequest;
    input.name = "Apply";
    input.id = "apply";
    input.bytes = request.SerializeAsString();
    ASSERT_TRUE(admission_->host->submit(std::move(input)));
    run_until_idle();
  }
  void job(Json body, const std::string& uid) {
    body.set("metadata").set("uid", uid);
    watched(*admission_, "job", body.dump());
  }
  void node(bool cordoned) {
    watched(*placement_, "node",
            fmt::format(R"({{"apiVersion":"v1","kind":"Node","metadata":{{"name":"a","uid":"node-a","labels":{{
        "kubernetes.io/hostname":"a","nvidia.com/gpu.product":"NVIDIA-H100-80GB-HBM3","nvidia.com/gpu.count":"8"}}}},
        "spec":{{"unschedulable":{}}},"status":{{"allocatable":{{"cpu":"64","memory":"256Gi","pods":"110",
        "nvidia.com/gpu":"8"}},"conditions":[{{"type":"Ready","status":"True"}}]}}}})",
                        cordoned));
  }
  void pass(Duration time) {
    for (const Instant end = clock_.now() + time; clock_.now() < end;) {
      clock_.advance(seconds(1));
      run_until_idle();
    }
  }
  [[nodiscard]] std::string phase_of(const std::string& uid) {
    std::string out;
    admission_->host->read([&](const service::Shell& shell) {
      const auto* w = static_cast<const admission::AdmissionShell&>(shell).engine().find(WorkloadUid(uid));
      out = w == nullptr ? "unknown" : std::string(admission::name_of(w->phase));
    });
    return out;
  }

 private:
  void watched(Process& process, const std::string& name, std::string bytes) {
    service::Input input;
    input.source = service::Source::kWatch;
    input.name = name;
    input.bytes = std::move(bytes);
    ASSERT_TRUE(process.host->submit(std::move(input)));
    run_until_idle();
  }
  void run_until_idle() {
    for (bool busy = true; busy;) {
      busy = false;
      for (auto* process : {admission_.get(), placement_.get()}) busy = process->turn() || busy;
    }
  }

  ManualClock clock_{*from_rfc3339("2026-11-21T08:00:00Z")};
  std::shared_ptr<bus::Bus> bus_;
  std::unique_ptr<Process> admission_, placement_;
};

TEST(FieldF18, JobPendingForACordonedNodeStartsWhenUncordoned) {
  const auto shared = testing::shared_dir();
  const auto folder = std::filesystem::path(shared.value_or("")) / "field" / "f18-cordon";
  if (!shared || !std::filesystem::exists(folder)) GTEST_SKIP() << testing::no_shared();
  const auto job = [&](const char* file) {
    return config::load_text(text_of(folder / file), file).objects.at(0).document.content;
  };
  Pair suite;
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
