// Checks every row of tenant_rows() against the rules alone.
#include "qm/admission_policy/policy.hpp"
#include "qm/kube/client.hpp"
#include "tenant_rows.hpp"

#include <gtest/gtest.h>

namespace qm::admission_policy {
namespace tenants_test {

constexpr const char* kTenant = "system:serviceaccount:team:tenant";

View home(const TenantRow& row) {
  View view;
  view.namespaces["team"].labels[std::string(kRequiredLabel)] = "required";
  if (row.queue) view.local_queues["team"] = {"default", "mine"};
  return view;
}

std::string outcome(const Json& object, const Verdict& verdict, const char* kind) {
  std::string refused;
  for (const auto& finding : verdict.refusals) refused += finding.to_string() + "\n";
  if (!refused.empty()) return refused;
  if (std::string_view(kind) == "Job") return object["spec"]["suspend"].boolean() ? "suspended" : "left";
  return object["spec"]["schedulingGates"].size() > 0 ? "gated" : "left";
}

/// The result for the object of the row, or for its update.
std::string try_row(const TenantRow& row, const View& view, const Settings& settings) {
  Json object = gpu_object(row.kind);
  object.merge_patch(parsed(row.object));
  const auto& user = row.user.empty() ? std::string(kTenant) : row.user;
  const Subject create{Operation::kCreate, row.kind, "team", "one", user, &object, nullptr};
  const Json stored = mutate_and_mark(create, settings, view);
  Subject made = create;
  made.object = &stored;
  const auto first = validate(made, settings, view);
  if (row.change.empty()) return outcome(stored, first, row.kind.c_str());
  EXPECT_TRUE(first.allowed()) << row.name << ": " << outcome(stored, first, row.kind.c_str());
  Json next = stored;
  next.merge_patch(parsed(row.change));
  const Subject update{Operation::kUpdate, row.kind, "team", "one", kTenant, &next, &stored};
  return outcome(next, validate(update, settings, view), row.kind.c_str());
}

TEST(Tenants, GpusDoNotBypassQuotaAndFactsAreNotForged) {
  for (const auto& row : tenant_rows()) {
    SCOPED_TRACE(row.name);
    const auto got = try_row(row, home(row), {});
    EXPECT_NE(got.find(row.expected), std::string::npos) << got;
    if (row.expected.find(' ') == std::string::npos) {
      EXPECT_EQ(got, row.expected);
    }
  }
}

TEST(Tenants, OtherNamespacesAreUnchangedExceptFacts) {
  // Namespaces that require nothing leave objects unchanged that name another scheduler, a node, an
  // owner or managed=false.
  for (const auto& row : tenant_rows()) {
    SCOPED_TRACE(row.name);
    auto view = home(row);
    view.namespaces["team"].labels.clear();
    const auto got = try_row(row, view, {});
    const bool fact = row.expected.find("quartermaster.dev/") != std::string::npos &&
                      (row.expected.starts_with("annotation") || row.expected.starts_with("label"));
    if (fact) {
      EXPECT_NE(got.find("owned-metadata"), std::string::npos) << got;
    }
    EXPECT_EQ(got.find("gpu-quota"), std::string::npos) << got;
  }
  const TenantRow other{"other-scheduler", "Pod", R"({"spec":{"schedulerName":"volcano"}})", "left"};
  auto view = home(other);
  view.namespaces["team"].labels.clear();
  EXPECT_EQ(try_row(other, view, {}), "left");
}

TEST(Tenants, OwnerOfQuotaOrBindingDecides) {
  const TenantRow other{"other-scheduler", "Pod", R"({"spec":{"schedulerName":"volcano"}})", "left"};
  auto view = home(other);
  view.manages_binding = [](const std::string&) { return false; };
  EXPECT_EQ(try_row(other, view, {}), "gated") << "quota here, bound by its schedulerName";
  view.manages_quota = [](const std::string&) { return false; };
  EXPECT_EQ(try_row(other, view, {}), "left") << "another controller manages quota";
  Settings ungated;
  ungated.gate_pods = false;
  EXPECT_NE(try_row({"plain", "Pod", "{}", ""}, home(other), ungated).find("webhook-gate-pods=false"),
            std::string::npos);
}

TEST(Tenants, NamedControllersCreatePartsOfTheirWorkloads) {
  Settings settings;
  settings.controllers = {"system:serviceaccount:kubeflow:training-operator"};
  TenantRow pod{
      "pod", "Pod",
      with_owner("kubeflow.org/v1", "PyTorchJob", R"({"metadata":{"annotations":{"quartermaster.dev/attempt":"1"}}})"),
      "left", "system:serviceaccount:kubeflow:training-operator"};
  const auto view = home(pod);
  EXPECT_EQ(try_row(pod, view, settings), "left");
  pod.object = with_owner("kubeflow.org/v1", "PyTorchJob");
  EXPECT_NE(try_row(pod, view, settings).find("PyTorchJob x that it is part of was not admitted"), std::string::npos);
  EXPECT_EQ(try_row(pod, view, {}), "gated") << "an account that is not listed";
  const TenantRow job{"job", "Job", with_owner("kubeflow.org/v2beta1", "MPIJob"), "left",
                      "system:serviceaccount:kubeflow:training-operator"};
  EXPECT_EQ(try_row(job, view, settings), "left") << "its MPIJob is held, not the Job of its launcher";
}

TEST(Tenants, OwnAccountsWriteFacts) {
  Settings settings;
  settings.own_users = {"system:serviceaccount:qm:*"};
  TenantRow row{"fact", "Pod", R"({"metadata":{"annotations":{"quartermaster.dev/devices":"0"}}})", "gated",
                "system:serviceaccount:qm:qm-placement"};
  EXPECT_EQ(try_row(row, home(row), settings), "gated");
  row.user = "system:serviceaccount:qmx:qm-placement";
  EXPECT_NE(try_row(row, home(row), settings).find("owned-metadata"), std::string::npos);
}

TEST(Tenants, ReasonNamesFieldCauseAndRemedy) {
  const auto reported = [](const TenantRow& row) { return try_row(row, home(row), {}); };
  EXPECT_EQ(
      reported({"a", "Pod", R"({"spec":{"nodeName":"n1"}})", ""}),
      "Pod team/one requests 1 GPU and sets spec.nodeName to n1, so it would start before its quota is reserved (gpu-quota): "
      "remove spec.nodeName; choose nodes by nodeSelector or affinity\n");
  EXPECT_EQ(
      reported({"a", "Pod", "{}", "", {}, {}, false}),
      "Pod team/one requests 1 GPU and names no queue; namespace team is quartermaster.dev/webhook=required (gpu-quota): set "
      "the label kueue.x-k8s.io/queue-name to a LocalQueue of the namespace, or create the LocalQueue default\n");
  EXPECT_EQ(reported({"a", "Pod", R"({"metadata":{"annotations":{"quartermaster.dev/devices":"0"}}})", ""}),
            "annotation quartermaster.dev/devices of Pod team/one is written by Quartermaster alone, and "
            "system:serviceaccount:team:tenant sets it (owned-metadata): remove it from the object\n");
}

}  // namespace tenants_test
}  // namespace qm::admission_policy
