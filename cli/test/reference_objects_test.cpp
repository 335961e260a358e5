// Manifests through qmctl, our own and the reference ones if present: applied unchanged, and returned equal.
#include "fake_suite.hpp"
#include "qm/config/manifest.hpp"
#include "qm/testing/manifests.hpp"

#include <gtest/gtest.h>

#include <map>

namespace qm::cli {
namespace reference_objects_test {

class ReferenceObjects : public ::testing::TestWithParam<qm::testing::Manifests> {
 protected:
  /// Applied, and stored as admission stores it.
  std::vector<Json> apply(const std::string& name) {
    const auto ran = qmctl(suite_, {"apply", "-f", GetParam().dir + name});
    EXPECT_EQ(ran.code, kDone) << ran.err;
    std::vector<Json> out;
    for (const auto& object : config::load_path(GetParam().dir + name).objects) {
      auto& kept = suite_.state.objects.emplace_back();
      kept.set_kind(object.document.kind);
      kept.set_name(object.document.name);
      kept.set_manifest(object.document.content.dump());
      out.push_back(object.document.content);
    }
    return out;
  }

  FakeSuite suite_;
};

// S-079: applied unchanged; the shown object reads back equal.
TEST_P(ReferenceObjects, AClusterQueueIsShownAsItWasWritten) {
  const auto name = GetParam().pick("genomics", "research-queue");
  const auto written = apply(GetParam().pick("clusterqueue-genomics.yaml", "001-clusterqueue-research.yaml"));
  ASSERT_EQ(written.size(), 1U);
  for (const char* format : {"yaml", "json"}) {
    const auto shown = qmctl(suite_, {"queue", "show", name, "-o", format});
    EXPECT_EQ(shown.code, kDone) << shown.err;
    const auto read = config::load_text(shown.out, "shown");
    ASSERT_EQ(read.objects.size(), 1U) << shown.out;
    EXPECT_EQ(read.objects[0].document.content, written[0]) << shown.out;
  }
  EXPECT_EQ(qmctl(suite_, {"queue", "show", "unknown"}).code, kNotFound);
}

// S-092: the classes of two files are listed by their values.
TEST_P(ReferenceObjects, FourClassesAreListedByValue) {
  apply(GetParam().pick("workloadpriorityclass-hours.yaml", "001-workloadpriorityclass-scheduling.yaml"));
  apply(GetParam().pick("workloadpriorityclass-products.yaml", "001-workloadpriorityclass-cost.yaml"));
  const auto listed = qmctl(suite_, {"classes", "-o", "json"});
  ASSERT_EQ(listed.code, kDone) << listed.err;
  const auto read = Json::parse(listed.out);
  ASSERT_TRUE(read);
  const auto& classes = (*read)["classes"].items();
  ASSERT_EQ(classes.size(), GetParam().pick(5U, 4U)) << listed.out;
  for (std::size_t i = 1; i < classes.size(); ++i) {
    EXPECT_GE(classes[i - 1]["value"].integer(), classes[i]["value"].integer()) << listed.out;
  }
}

QM_FOR_EACH_MANIFESTS(ReferenceObjects);

// S-415: cohorts with queues and quotas for centralized teams, pools and queues of each team for decentralized ones.
// S-379: a preset for each team structure, with the tools that the table names, and all of it can be applied.
TEST(Presets, CreateTheObjectsOfEitherTeamStructure) {
  std::vector<std::string> tables;
  for (const auto& folder : qm::testing::data_folders("tables")) {
    tables.push_back(qm::testing::read_file(folder + "/decision-team-structure.csv"));
  }
  ASSERT_FALSE(tables.empty());
  FakeSuite suite;
  const auto kinds_of = [&](const std::string& model) {
    for (const auto& table : tables) {
      EXPECT_NE(table.find("\n" + model + ","), std::string::npos) << "the table has no " << model;
    }
    const auto made = qmctl({"preset", "teams", "--model", model, "--team", "a=32", "--team", "b=16"});
    EXPECT_EQ(made.code, kDone) << made.err;
    const auto read = config::load_text(made.out, model);
    std::map<std::string, int> kinds;
    for (const auto& d : read.diagnostics)
      EXPECT_EQ(d.severity, config::Diagnostic::Severity::kWarning) << d.to_string();
    for (const auto& object : read.objects) {
      ++kinds[object.document.kind];
      const bool plain = object.document.kind == "Namespace" || object.document.kind == "ResourceQuota";
      EXPECT_EQ(plain, std::holds_alternative<std::monostate>(object.typed)) << object.document.kind;
    }
    EXPECT_EQ(qmctl(suite, {"apply", "-f", "-"}, made.out).code, kDone);
    return kinds;
  };
  // Kueue cohorts, strict ResourceQuotas.
  EXPECT_EQ(kinds_of("centralized"), (std::map<std::string, int>{{"ClusterQueue", 2},
                                                                 {"Cohort", 1},
                                                                 {"LocalQueue", 2},
                                                                 {"Namespace", 2},
                                                                 {"ResourceFlavor", 1},
                                                                 {"ResourceQuota", 2}}));
  // Karpenter per team, per-team queues.
  EXPECT_EQ(kinds_of("decentralized"),
            (std::map<std::string, int>{
                {"ClusterQueue", 2}, {"LocalQueue", 2}, {"Namespace", 2}, {"NodePool", 2}, {"ResourceFlavor", 2}}));
}

}  // namespace reference_objects_test
}  // namespace qm::cli
