// qmctl pool, lint and instances: what NodePools allow and cost, from files and from an API server.
#include "fake_suite.hpp"
#include "qm/base/json.hpp"
#include "qm/config/manifest.hpp"
#include "qm/http/http.hpp"
#include "qm/testing/manifests.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <sstream>

namespace qm::cli {
namespace pools_test {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

/// The cells of a line of a CSV; a quoted cell may contain commas.
std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> out(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      out.emplace_back();
    } else {
      out.back() += c;
    }
  }
  return out;
}

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// S-206: each row of the reference table is printed.
TEST(Instances, PrintsTheRowsOfTheReferenceTable) {
  const auto ran = qmctl({"instances", "-o", "json"});
  ASSERT_EQ(ran.code, kDone) << ran.err;
  std::map<std::string, Json> by_type;
  const auto read = Json::parse(ran.out);
  ASSERT_TRUE(read);
  for (const auto& row : (*read)["instanceTypes"].items()) by_type[row["instanceType"].string()] = row;
  const auto& p5 = by_type["p5.48xlarge"];
  EXPECT_EQ(p5["gpu"].string(), "h100");
  EXPECT_EQ(p5["gpuMemoryGb"].integer(), 640);
  EXPECT_EQ(by_type["g6e.xlarge"]["gpuMemoryEachGb"].integer(), 48);
  const auto shared = qm::testing::shared_dir();
  if (!shared) GTEST_SKIP() << qm::testing::no_shared();
  const auto table = lines_of(qm::testing::read_file(*shared + "/tables/instance-types-aws.csv"));
  ASSERT_EQ(table.at(0).substr(0, 76), "instance_type,gpu,gpu_count,gpu_memory_total_gb,gpu_memory_each_gb,primary_u");
  ASSERT_EQ(table.size(), 12U);
  for (std::size_t i = 1; i < table.size(); ++i) {
    const auto cells = cells_of(table[i]);
    const auto& row = by_type[cells[0]];
    EXPECT_EQ(row["gpu"].string(), lower(cells[1])) << table[i];
    EXPECT_EQ(row["gpuCount"].integer(), std::stoi(cells[2])) << table[i];
    EXPECT_EQ(row["gpuMemoryGb"].integer(), std::stoi(cells[3])) << table[i];
    EXPECT_EQ(row["gpuMemoryEachGb"].integer(), std::stoi(cells[4])) << table[i];
    const auto printed = qmctl({"instances", "--type", cells[0]});
    EXPECT_EQ(lines_of(printed.out).size(), 2U) << printed.out;
  }
}

TEST(Instances, FiltersByGpuAndKnowsNoOthers) {
  const auto ran = qmctl({"instances", "--gpu", "l4"});
  EXPECT_NE(ran.out.find("\ng6.xlarge "), std::string::npos) << ran.out;
  EXPECT_EQ(ran.out.find("g5."), std::string::npos) << ran.out;
  EXPECT_EQ(qmctl({"instances", "--type", "z9.huge"}).code, kNotFound);
}

// S-209: the pools of the preset, and their weights, types and limits in the reference table.
TEST(PoolPreset, TieredPrintsThreePoolsAsTheReferenceTableHasThem) {
  const auto ran = qmctl({"pool", "preset", "tiered", "--node-class", "gpu-optimized"});
  ASSERT_EQ(ran.code, kDone) << ran.err;
  const auto loaded = config::load_text(ran.out, "out");
  ASSERT_TRUE(loaded.ok());
  EXPECT_TRUE(loaded.diagnostics.empty());
  std::vector<std::string> rows;
  for (const auto& object : loaded.objects) {
    const auto* pool = std::get_if<config::NodePool>(&object.typed);
    ASSERT_NE(pool, nullptr);
    EXPECT_EQ(pool->node_class, "gpu-optimized");
    std::map<std::string, std::string> required;
    for (const auto& r : pool->requirements) required[r.key] = r.values.at(0);
    rows.push_back(fmt::format("{},{},{},{},{},{}", rows.size() + 1, pool->name, required["karpenter.sh/capacity-type"],
                               required["karpenter.k8s.aws/instance-gpu-name"], pool->weight,
                               pool->limits.at("nvidia.com/gpu").units()));
  }
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0], "1,gpu-tier1-g5-spot,spot,a10g,100,20");
  const auto shared = qm::testing::shared_dir();
  if (!shared) GTEST_SKIP() << qm::testing::no_shared();
  const auto table = lines_of(qm::testing::read_file(*shared + "/tables/tier-fallback.csv"));
  ASSERT_EQ(table.size(), 4U);
  for (std::size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(table[i + 1].substr(0, rows[i].size() + 1), rows[i] + ",");
}

TEST(PoolPreset, RefusesOthers) {
  EXPECT_EQ(qmctl({"pool", "preset", "flat"}).code, kUsage);
  EXPECT_EQ(qmctl({"pool", "shrink"}).code, kUsage);
}

// S-212: the printed cost; a pool without a limit is shown as such. S-197: what a NodePool does not set has its default.
TEST(PoolShow, PrintsWhatEachPoolCostsAtMost) {
  const auto preset = qmctl({"pool", "preset", "tiered"}).out;
  const auto all = qmctl({"pool", "show", "-f", "-"}, preset);
  ASSERT_EQ(all.code, kDone) << all.err;
  EXPECT_NE(all.out.find("gpu-tier1-g5-spot"), std::string::npos) << all.out;
  EXPECT_NE(all.out.find("81.92"), std::string::npos) << all.out;
  EXPECT_NE(all.out.find("nvidia.com/gpu 20 x g5.16xlarge"), std::string::npos) << all.out;
  EXPECT_NE(all.out.find("WhenEmptyOrUnderutilized after 0s  10%"), std::string::npos) << all.out;
  EXPECT_NE(all.out.find("3 of 3 NodePools are bounded: together at most"), std::string::npos) << all.out;
  const auto one = qmctl({"pool", "show", "gpu-tier3-g5-ondemand", "-f", "-", "-o", "json"}, preset);
  const auto read = Json::parse(one.out);
  ASSERT_TRUE(read) << one.out;
  ASSERT_EQ((*read)["pools"].size(), 1U);
  EXPECT_EQ((*read)["pools"].at(0)["mostUsdPerHour"].string(), "40.9600");
  EXPECT_EQ(qmctl({"pool", "show", "none", "-f", "-"}, preset).code, kNotFound);
  for (const auto& manifests : qm::testing::manifest_folders()) {
    const auto open =
        qmctl({"pool", "show", "-f",
               manifests.dir + manifests.pick("nodepool-windows.yaml", "004-nodepool-gpu-training-protected.yaml")});
    EXPECT_NE(open.out.find("nothing: set spec.limits"), std::string::npos) << open.out;
    EXPECT_NE(open.out.find("0 of 1 NodePools are bounded"), std::string::npos) << open.out;
  }
}

/// An API server with these lists by path; it does not have the groups of others.
class ApiServer {
 public:
  explicit ApiServer(std::map<std::string, std::string> answers)
      : answers_(std::move(answers)), server_({}, [this](const http::Request& request) { return answer(request); }) {
    EXPECT_TRUE(server_.start());
  }
  [[nodiscard]] std::string address() const { return fmt::format("http://127.0.0.1:{}", server_.port()); }

 private:
  http::Answer answer(const http::Request& request) const {
    const auto found = answers_.find(request.path());
    if (found != answers_.end()) return http::json(200, found->second);
    return http::json(404, R"({"kind":"Status","code":404,"reason":"NotFound","message":"no such kind"})");
  }
  std::map<std::string, std::string> answers_;
  http::Server server_;
};

std::string groups_of(const std::string& group, const std::string& version) {
  return fmt::format(R"({{"kind":"APIGroupList","groups":[{{"name":"{0}","versions":[{{"groupVersion":"{0}/{1}",)"
                     R"("version":"{1}"}}],"preferredVersion":{{"groupVersion":"{0}/{1}","version":"{1}"}}}}]}})",
                     group, version);
}
std::string kinds_of(const std::string& group_version, const std::string& plural, const std::string& kind) {
  return fmt::format(R"({{"kind":"APIResourceList","groupVersion":"{}","resources":[{{"name":"{}","kind":"{}"}}]}})",
                     group_version, plural, kind);
}

// S-213: the picture is drawn from the objects of the cluster, and changes with them.
TEST(PoolDiagram, IsDrawnFromTheClusterAsItIs) {
  for (const int weight : {90, 15}) {
    const auto pool = fmt::format(
        R"({{"apiVersion":"karpenter.sh/v1","kind":"NodePool","metadata":{{"name":"live"}},"spec":{{"weight":{},)"
        R"("template":{{"spec":{{"nodeClassRef":{{"group":"karpenter.k8s.aws","kind":"EC2NodeClass","name":"fast"}},)"
        R"("requirements":[{{"key":"karpenter.k8s.aws/instance-gpu-name","operator":"In","values":["l4"]}}]}}}}}}}})",
        weight);
    const ApiServer server({{"/apis", groups_of("karpenter.sh", "v1")},
                            {"/apis/karpenter.sh/v1", kinds_of("karpenter.sh/v1", "nodepools", "NodePool")},
                            {"/apis/karpenter.sh/v1/nodepools",
                             fmt::format(R"({{"kind":"NodePoolList","metadata":{{}},"items":[{}]}})", pool)}});
    const auto ran = qmctl({"pool", "diagram", "--kube", server.address()});
    ASSERT_EQ(ran.code, kDone) << ran.err;
    EXPECT_NE(
        ran.out.find(fmt::format("pool0[\"live<br/>weight {}<br/>spot and on-demand, l4<br/>no limit<br/>cost not "
                                 "bounded<br/>WhenEmptyOrUnderutilized after 0s\"]",
                                 weight)),
        std::string::npos)
        << ran.out;
    EXPECT_NE(ran.out.find("fast<br/>not among the objects"), std::string::npos) << ran.out;
    const auto shown = qmctl({"pool", "show", "--kube", server.address()});
    EXPECT_NE(shown.out.find("live"), std::string::npos) << shown.out << shown.err;
  }
}

// S-233, S-234: qmctl scale eval of an InferenceService, at an assumed load.
TEST(ScaleFiles, AnInferenceServiceIsEvaluatedAtAnAssumedLoad) {
  const auto service = [](const std::string& fields) {
    return "apiVersion: serving.kserve.io/v1beta1\nkind: InferenceService\nmetadata: {name: fraud}\nspec:\n  predictor: "
           "{minReplicas: 2, maxReplicas: 10, containers: [], " +
           fields + "}\n";
  };
  const auto gpu = service("scaleMetric: gpu, scaleTarget: 80");
  const auto ran = qmctl({"scale", "eval", "-f", "-", "--value", "gpu_utilization=100", "--replicas", "4"}, gpu);
  ASSERT_EQ(ran.code, kDone) << ran.err;
  EXPECT_TRUE(ran.out.starts_with("InferenceService default/fraud: 4 replicas, 5 wanted\n")) << ran.out;
  EXPECT_NE(ran.out.find("gpu_utilization  1.250         5"), std::string::npos) << ran.out;
  EXPECT_EQ(ran.err, "");
  const auto none = qmctl({"scale", "eval", "-f", "-"}, gpu);
  EXPECT_NE(none.out.find("no value is assumed: --value gpu_utilization=NUMBER"), std::string::npos) << none.out;
  const auto warned =
      qmctl({"scale", "eval", "-f", "-", "--value", "queue_average_concurrent_requests=140", "-o", "json"},
            service("scaleTarget: 70"));
  EXPECT_NE(warned.err.find("warning: stdin:1: spec.predictor.scaleMetric is not set, so that concurrency applies to "
                            "scaleTarget 70"),
            std::string::npos)
      << warned.err;
  const auto read = Json::parse(warned.out);
  ASSERT_TRUE(read) << warned.out;
  EXPECT_EQ((*read)["targets"].at(0)["wanted"].integer(), 4);
}

TEST(ScaleFiles, RefusesWhatItCannotEvaluate) {
  const std::string dir = qm::testing::data_dir() + "/manifests/";
  const auto unknown = qmctl({"scale", "eval", "-f", dir + "hpa-transcriber.yaml", "--value", "gpu=9"});
  EXPECT_EQ(unknown.code, kFailed);
  EXPECT_NE(unknown.err.find("no object of the files scales on gpu"), std::string::npos) << unknown.err;
  EXPECT_NE(unknown.err.find("use one of cpu"), std::string::npos) << unknown.err;
  const auto metric = qmctl({"scale", "eval", "-f", dir + "kserve-scoring.yaml"});
  EXPECT_EQ(metric.code, kFailed);
  EXPECT_NE(metric.err.find("gpu-memory"), std::string::npos) << metric.err;
  EXPECT_EQ(qmctl({"scale", "eval", "-f", dir + "nodepool-mixed.yaml"}).code, kNotFound);
  EXPECT_EQ(qmctl({"scale", "eval", "--value", "cpu=9"}).code, kUsage);
  EXPECT_EQ(qmctl({"scale", "eval", "-f", "-", "--value", "cpu=much"}, "a: b").code, kUsage);
}

TEST(Lint, PrintsFindingsAndFailsWithThem) {
  const auto preset = qmctl({"pool", "preset", "tiered"}).out;
  const auto clean = qmctl({"lint", "-f", "-"}, preset);
  EXPECT_EQ(clean.code, kDone) << clean.out;
  EXPECT_EQ(clean.out, "0 findings in 3 objects\n");
  const std::string dir = qm::testing::data_dir() + "/manifests/";
  const auto ran = qmctl({"lint", "-f", dir + "deployment-transcriber.yaml", "-f", dir + "hpa-transcriber.yaml"});
  EXPECT_EQ(ran.code, kUnfit) << ran.err;
  EXPECT_NE(
      ran.out.find("hpa-transcriber.yaml:1: GPU_SCALED_ON_CPU HorizontalPodAutoscaler edge-serving/transcriber: the "
                   "replicas of Deployment edge-serving/transcriber, whose pods have 1 GPU, follow cpu alone"),
      std::string::npos)
      << ran.out;
  EXPECT_NE(ran.out.find("\n  remedy: scale on gpu_utilization"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("\n1 finding in 2 objects\n"), std::string::npos) << ran.out;
  const auto json = qmctl({"lint", "-o", "json", "-f", dir + "nodepool-windows.yaml"});
  const auto read = Json::parse(json.out);
  ASSERT_TRUE(read) << json.out;
  ASSERT_EQ(read->size(), 1U) << json.out;
  EXPECT_EQ(read->at(0)["code"].string(), "SPEND_UNLIMITED");
  EXPECT_EQ(qmctl({"lint", "-f", "-"}, "kind: [").code, kFailed);
  EXPECT_EQ(qmctl({"lint", "--kube", "kubeconfig:/nowhere"}).code, kNotFound);
}

}  // namespace pools_test
}  // namespace qm::cli
