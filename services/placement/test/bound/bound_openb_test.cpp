// The project's trace and the public one: bounds for the arrived pods are compared with linear
// programs solved by other tools, and must be above every policy.
#include "qm/placement/bound/bound.hpp"
#include "qm/placement/pack/policy.hpp"
#include "qm/testing/testing.hpp"
#include "replay.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

namespace qm::placement::bound {
namespace bound_openb_test {

using openb::Trace;

struct Case {
  std::string workload;
  double arrived, prefix;  ///< percent of the GPUs; the pods of the prefix must be placed
  double published;        ///< expected/lp_bounds.csv of the same folder
};

struct Source {
  std::string folder;
  std::size_t cases;                   ///< in its lp_bounds.csv
  std::vector<std::string> workloads;  ///< on which policies are replayed
};

/// The project's trace, whose programs GLPK has solved, and the public one if it is present.
std::vector<Source> sources() {
  std::vector<Source> out{{qm::testing::data_dir() + "/traces/openb", 11, {"mixed", "pinned", "gangs", "shares"}}};
  if (const auto shared = qm::testing::shared_dir()) {
    out.push_back({*shared + "/traces/openb", 23, {"default", "gpuspec33", "multigpu50"}});
  }
  return out;
}

Result<Trace> trace_of(const std::string& folder, const std::string& workload) {
  const auto plain = folder + "/openb_pod_list_" + workload + ".csv";
  return openb::read_trace(
      folder + "/openb_node_list_gpu_node.csv",
      std::filesystem::exists(plain) ? plain : folder + "/pods/openb_pod_list_" + workload + ".csv.gz");
}

std::vector<Case> published(const std::string& folder) {
  std::vector<Case> out;
  std::ifstream file(folder + "/expected/lp_bounds.csv");
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    std::vector<std::string> fields;
    for (std::size_t begin = 0; begin <= line.size();) {
      const auto end = std::min(line.find(',', begin), line.size());
      fields.push_back(line.substr(begin, end - begin));
      begin = end + 1;
    }
    out.push_back({fields[0], std::stod(fields[1]), std::stod(fields[2]), std::stod(fields[3])});
  }
  return out;
}

struct Ours {
  double allocated = 0;  ///< percent
  bool close = false;
};

/// The bound for the draw of this seed.
Ours bound_of(const Trace& trace, std::uint64_t seed, double arrived, double prefix) {
  std::map<pack::NodeState, std::int64_t> count;
  std::int64_t capacity = 0;
  for (const auto& node : trace.nodes) {
    ++count[node];
    capacity += node.free_milli();
  }
  std::vector<NodeGroup> nodes;
  for (const auto& [node, n] : count) nodes.push_back({node, n});
  std::map<pack::PodClass, Wanted> classes;
  std::int64_t asked = 0;
  const auto all = static_cast<double>(capacity) / 100;
  for (const auto& pod : openb::arrivals_of(trace, seed, 1.30)) {
    asked += pod.total_milli();
    if (static_cast<double>(asked) > arrived * all) break;
    auto& one = classes[pod];
    one.pod = pod;
    ++one.most;
    if (static_cast<double>(asked) <= prefix * all) ++one.least;
  }
  std::vector<Wanted> wanted;
  for (const auto& [pod, one] : classes) wanted.push_back(one);
  const auto bound = upper_bound(nodes, wanted);
  return {static_cast<double>(bound.gpu_milli) / all, bound.close};
}

void expect_published(const Source& source) {
  const auto cases = published(source.folder);
  ASSERT_EQ(cases.size(), source.cases);
  for (const auto& one : cases) {
    const auto trace = trace_of(source.folder, one.workload);
    ASSERT_TRUE(trace) << trace.error().to_string();
    double sum = 0;
    constexpr std::uint64_t kRuns = 2;
    for (std::uint64_t seed = 0; seed < kRuns; ++seed) {
      const auto ours = bound_of(*trace, 143 + seed, one.arrived, one.prefix);
      EXPECT_TRUE(ours.close) << one.workload;
      sum += ours.allocated / kRuns;
    }
    fmt::print("{} at {} %, prefix {} %: {:.2f}, published {:.2f}\n", one.workload, one.arrived, one.prefix, sum,
               one.published);
    // The published program uses expected counts and does not know the boundaries of nodes; a draw
    // differs by about 0.1.
    EXPECT_NEAR(sum, one.published, 0.15) << one.workload << " at " << one.arrived;
  }
}

TEST(BoundOpenb, MatchesReferenceImplementations) {
  for (const auto& source : sources()) {
    SCOPED_TRACE(source.folder);
    expect_published(source);
  }
}

void expect_no_policy_beyond(const Trace& trace, const std::string& workload) {
  for (const double arrived : {80.0, 95.0, 130.0}) {
    const auto bound = bound_of(trace, 7, arrived, 0).allocated;
    for (const auto name : pack::policy_names()) {
      const auto curve = openb::replay(trace, std::string(name), 7, 1.30);
      // A column of the curve is a mean over one percent of arrivals; the column before it is complete.
      const auto got = std::prev(curve.lower_bound(static_cast<int>(arrived)))->second.allocated;
      EXPECT_LE(got, bound) << workload << ' ' << name << " at " << arrived;
    }
  }
}

TEST(BoundOpenb, NoPolicyExceedsBound) {
  for (const auto& source : sources()) {
    for (const auto& workload : source.workloads) {
      const auto trace = trace_of(source.folder, workload);
      ASSERT_TRUE(trace) << trace.error().to_string();
      expect_no_policy_beyond(*trace, workload);
    }
  }
}

}  // namespace bound_openb_test
}  // namespace qm::placement::bound
