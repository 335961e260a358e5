// Kueue's own objects in addition to jobs: AdmissionChecks that an external controller answers, Workloads without an
// owner, LimitRanges.
#include "adoption.hpp"

namespace qm::adoption {
namespace admission_objects_kube_test {

using kube::resources::kJobs;

const kube::Resource kWorkloads{"kueue.x-k8s.io", "v1beta2", "workloads", true};
const kube::Resource kChecks{"kueue.x-k8s.io", "v1beta2", "admissionchecks", false};
const kube::Resource kLimitRanges{"", "v1", "limitranges", true};

std::string status_of(const Json& object, const char* type) {
  for (const auto& c : object.path("status.conditions").items()) {
    if (c["type"].string() == type) return c["status"].string();
  }
  return {};
}
std::string reason_of(const Json& object, const char* type) {
  for (const auto& c : object.path("status.conditions").items()) {
    if (c["type"].string() == type) return c["reason"].string();
  }
  return {};
}

class AdmissionObjects : public Adoption {
 protected:
  std::unique_ptr<Service> start(std::vector<std::string> more = {}) {
    more.insert(more.end(), {"quota=quartermaster", "placement=none", "workload-objects=true"});
    return service("admission", more);
  }
  Json workload(const std::string& name, int gpus) {
    const auto amount = std::to_string(gpus);
    return *Json::parse(fmt::format(
        R"({{"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"Workload","metadata":{{"name":"{}","namespace":"{}"}},)"
        R"("spec":{{"queueName":"q","priority":0,"podSets":[{{"name":"main","count":1,"template":{{"spec":{{"containers":)"
        R"([{{"name":"a","image":"i","resources":{{"requests":{{"nvidia.com/gpu":"{}"}},"limits":{{"nvidia.com/gpu":"{}"}}}}}}],)"
        R"("restartPolicy":"Never"}}}}}}]}}}})",
        name, ns(), amount, amount));
  }
  void say(const std::string& name, const char* type, const char* status, const char* reason) {
    auto now = get(kWorkloads, name);
    Json all = Json::array();
    for (const auto& c : now.path("status.conditions").items()) {
      if (c["type"].string() != type) all.push_back(c);
    }
    all.push_back(Json::object({{"type", type},
                                {"status", status},
                                {"reason", reason},
                                {"message", "by the test"},
                                {"lastTransitionTime", "2026-11-22T00:00:00Z"}}));
    ASSERT_TRUE(client().merge_patch(kWorkloads, ns(), name,
                                     Json::object({{"status", Json::object({{"conditions", all}})}}), "status"));
  }
  bool suspended(const std::string& job) { return get(kJobs, job)["spec"]["suspend"].boolean(); }
};

TEST_F(AdmissionObjects, AnUnownedWorkloadIsAdmittedStoppedAndEnds) {
  queues(4);
  const auto admission = start();
  create(kWorkloads, workload("alone", 4));
  ASSERT_TRUE(comes([&] { return status_of(get(kWorkloads, "alone"), "Admitted") == "True"; })) << admission->log();
  auto now = get(kWorkloads, "alone");
  EXPECT_EQ(status_of(now, "QuotaReserved"), "True");
  EXPECT_EQ(now.path("status.admission.clusterQueue").string(), own("cq"));
  const auto& assigned = now.path("status.admission.podSetAssignments").at(0);
  EXPECT_EQ(assigned["flavors"]["nvidia.com/gpu"].string(), own("f"));
  EXPECT_EQ(assigned["resourceUsage"]["nvidia.com/gpu"].string(), "4");
  create(kWorkloads, workload("next", 4));
  ASSERT_TRUE(comes([&] { return status_of(get(kWorkloads, "next"), "QuotaReserved") == "False"; }))
      << admission->log();

  // Inactive: the workload is evicted, and its quota is released when its controller reports that its pods are gone.
  ASSERT_TRUE(
      client().merge_patch(kWorkloads, ns(), "alone", Json::object({{"spec", Json::object({{"active", false}})}})));
  ASSERT_TRUE(comes([&] { return status_of(get(kWorkloads, "alone"), "Evicted") == "True"; })) << admission->log();
  EXPECT_EQ(reason_of(get(kWorkloads, "alone"), "Evicted"), "Deactivated");
  EXPECT_EQ(status_of(get(kWorkloads, "next"), "QuotaReserved"), "False");
  say("alone", "QuotaReserved", "False", "Pending");
  ASSERT_TRUE(comes([&] { return status_of(get(kWorkloads, "next"), "Admitted") == "True"; })) << admission->log();
  EXPECT_TRUE(comes([&] { return get(kWorkloads, "alone").path("status.admission").is_null(); }));

  // Active again, it reserves the quota that the other workload releases at its end.
  ASSERT_TRUE(
      client().merge_patch(kWorkloads, ns(), "alone", Json::object({{"spec", Json::object({{"active", true}})}})));
  say("next", "Finished", "True", "Succeeded");
  ASSERT_TRUE(comes([&] { return status_of(get(kWorkloads, "alone"), "Admitted") == "True"; })) << admission->log();
  EXPECT_EQ(status_of(get(kWorkloads, "alone"), "Evicted"), "False");
}

TEST_F(AdmissionObjects, AnOutsideControllerAnswersThroughTheWorkloadOfAJob) {
  queues(4);
  const auto check = own("check");
  create(kChecks, *Json::parse(fmt::format(
                      R"({{"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"AdmissionCheck","metadata":{{"name":"{}"}},)"
                      R"("spec":{{"controllerName":"example.com/test"}}}})",
                      check)));
  ASSERT_TRUE(client().merge_patch(
      cluster_queues_, "", own("cq"),
      *Json::parse(
          fmt::format(R"({{"spec":{{"admissionChecksStrategy":{{"admissionChecks":[{{"name":"{}"}}]}}}}}})", check))));
  const auto admission = start();
  create(kJobs, job("train", 4, 600));
  // The controller of the check does not exist yet.
  EXPECT_TRUE(comes([&] { return reason_of(get(cluster_queues_, own("cq")), "Active") == "AdmissionCheckInactive"; }))
      << get(cluster_queues_, own("cq")).pretty();
  ASSERT_TRUE(client().merge_patch(
      kChecks, "", check,
      *Json::parse(R"({"status":{"conditions":[{"type":"Active","status":"True","reason":"Active","message":"here",)"
                   R"("lastTransitionTime":"2026-11-22T00:00:00Z"}]}})"),
      "status"));
  std::string mirror;
  ASSERT_TRUE(comes([&] {
    const auto all = client().list_all(kWorkloads, ns());
    if (!all || all->empty()) return false;
    mirror = kube::name_of(all->at(0));
    const auto& checks = all->at(0).path("status.admissionChecks");
    return checks.size() == 1 && checks.at(0)["state"].string() == "Pending";
  })) << admission->log();
  EXPECT_TRUE(suspended("train"));
  const auto now = get(kWorkloads, mirror);
  EXPECT_EQ(now.path("metadata.ownerReferences").at(0)["name"].string(), "train");
  EXPECT_EQ(now.path("spec.podSets").at(0).path("template.spec.containers").size(), 1U);
  EXPECT_EQ(status_of(now, "QuotaReserved"), "True");
  EXPECT_EQ(status_of(now, "Admitted"), "False");

  auto answered = now.path("status.admissionChecks");
  answered.items_mut()[0].set("state", "Ready").set("message", "there is capacity");
  ASSERT_TRUE(client().merge_patch(
      kWorkloads, ns(), mirror, Json::object({{"status", Json::object({{"admissionChecks", answered}})}}), "status"));
  EXPECT_TRUE(comes([&] { return !suspended("train"); })) << admission->log();
  EXPECT_TRUE(comes([&] { return status_of(get(kWorkloads, mirror), "Admitted") == "True"; }))
      << get(kWorkloads, mirror).pretty();
  EXPECT_EQ(get(kWorkloads, mirror).path("status.admissionChecks").at(0)["message"].string(), "there is capacity");
  client().remove(kChecks, "", check, {});
}

TEST_F(AdmissionObjects, ALimitRangeSetsWhatAJobIsCountedAs) {
  queues(4);
  create(kLimitRanges, *Json::parse(fmt::format(
                           R"({{"apiVersion":"v1","kind":"LimitRange","metadata":{{"name":"most","namespace":"{}"}},)"
                           R"("spec":{{"limits":[{{"type":"Container","max":{{"nvidia.com/gpu":"2"}}}}]}}}})",
                           ns())));
  const auto admission = start();
  create(kJobs, job("much", 4, 600));
  ASSERT_TRUE(comes([&] { return admission->state().dump().find("much") != std::string::npos; })) << admission->log();
  create(kJobs, job("little", 2, 600));
  ASSERT_TRUE(comes([&] { return !suspended("little"); })) << admission->log();
  EXPECT_TRUE(suspended("much"));
  ASSERT_TRUE(client().remove(kJobs, ns(), "little", {{}, 0, "Background"}));
  ASSERT_TRUE(client().remove(kLimitRanges, ns(), "most", {}));
  EXPECT_TRUE(comes([&] { return !suspended("much"); })) << admission->log();
}

}  // namespace admission_objects_kube_test
}  // namespace qm::adoption
