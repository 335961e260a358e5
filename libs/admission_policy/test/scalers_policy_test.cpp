// Scalers of workloads whose replicas Quartermaster sets.
#include "qm/admission_policy/policy.hpp"
#include "qm/model/scalers.hpp"

#include <gtest/gtest.h>

namespace qm::admission_policy {
namespace scalers_policy_test {

Json hpa(const std::string& target, const std::string& name = "web") {
  const auto out = Json::parse(
      R"({"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","metadata":{"name":")" + name +
      R"(","namespace":"team"},"spec":{"maxReplicas":9,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":")" +
      target + "\"}}}");
  EXPECT_TRUE(out);
  return *out;
}

View view_with(bool strict) {
  View out;
  out.scale_targets.strict[ScaleTargets::key("team", "apps", "Deployment", "ours")] = strict;
  out.scale_targets.scalers[ScaleTargets::key("team", "", "ScaledObject", "queue")] =
      ScaleTargets::key("team", "apps", "Deployment", "ours");
  return out;
}

Subject subject(const Json& object, const Json* old = nullptr, const std::string& user = "alice") {
  return {old == nullptr ? Operation::kCreate : Operation::kUpdate,
          object["kind"].string(),
          "team",
          object["metadata"]["name"].string(),
          user,
          &object,
          old};
}

TEST(ScalerPolicy, SuspendsTheScalersOfAnnotatedWorkloadsAlone) {
  const auto ours = hpa("ours"), other = hpa("other");
  EXPECT_TRUE(is_suspended(mutate(subject(ours), {}, view_with(false))));
  EXPECT_EQ(mutate(subject(other), {}, view_with(false)), other);
}

TEST(ScalerPolicy, AnUpdateStaysSuspendedAndIsTheNewOriginal) {
  const auto before = mutate(subject(hpa("ours")), {}, view_with(false));
  auto update = before;
  update.set("spec").set("behavior").set("scaleDown").set("stabilizationWindowSeconds", 60);
  const auto after = mutate(subject(update, &before), {}, view_with(false));
  EXPECT_TRUE(is_suspended(after));
  EXPECT_EQ(restored(after)["spec"]["behavior"]["scaleDown"].dump(), R"({"stabilizationWindowSeconds":60})");
}

TEST(ScalerPolicy, AnAccountOfQuartermasterMayGiveAScalerBack) {
  Settings settings;
  settings.own_users = {"system:serviceaccount:quartermaster-system:*"};
  const auto before = mutate(subject(hpa("ours")), settings, view_with(false));
  const auto back = restored(before);
  const std::string own = "system:serviceaccount:quartermaster-system:qm-autoscaler";
  EXPECT_EQ(mutate(subject(back, &before, own), settings, view_with(false)), back);
}

TEST(ScalerPolicy, ExcludedNamespacesAreNotChanged) {
  Settings settings;
  settings.excluded = {"team"};
  const auto ours = hpa("ours");
  EXPECT_EQ(mutate(subject(ours), settings, view_with(true)), ours);
  EXPECT_TRUE(validate(subject(ours), settings, view_with(true)).allowed());
}

TEST(ScalerPolicy, AStrictWorkloadHasOneScaler) {
  const auto second = hpa("ours");
  EXPECT_TRUE(validate(subject(second), {}, view_with(false)).allowed());
  const auto verdict = validate(subject(second), {}, view_with(true));
  ASSERT_EQ(verdict.refusals.size(), 1U);
  EXPECT_EQ(verdict.refusals[0].rule, "strict-replicas");
  EXPECT_NE(verdict.refusals[0].to_string().find("ScaledObject"), std::string::npos) << verdict.refusals[0].to_string();
  auto view = view_with(true);
  view.scale_targets.scalers = {{ScaleTargets::key("team", "", "HorizontalPodAutoscaler", "web"),
                                 ScaleTargets::key("team", "apps", "Deployment", "ours")}};
  EXPECT_TRUE(validate(subject(second, &second), {}, view).allowed()) << "an update of the only one";
}

}  // namespace scalers_policy_test
}  // namespace qm::admission_policy
