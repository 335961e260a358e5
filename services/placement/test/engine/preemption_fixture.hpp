#pragma once
#include "test/engine/script.hpp"

#include <gtest/gtest.h>

#include <sstream>

namespace qm::placement::testing {

inline Options preemption(Duration after = Duration{0}) {
  Options options;
  options.preemption.on = true;
  options.preemption.after = after;
  return options;
}

/// The proposal events among the output that Script::run marks as not written.
inline std::string proposals_in(const std::string& marked) {
  std::stringstream seen(marked);
  std::string out;
  for (std::string text; std::getline(seen, text);) {
    const auto at = text.find("=> ");
    if (at == std::string::npos) continue;
    text = text.substr(at + 3, text.find("     <-") - at - 3);
    if (text.starts_with("propose ") || text.starts_with("withdraw ")) out += (out.empty() ? "" : "\n") + text;
  }
  return out;
}

class Proposals : public ::testing::Test {
 protected:
  Proposals() = default;
  explicit Proposals(const Options& options) : script(options) {}

  /// A job that runs on the node: its pod exists there.
  void run_on(const std::string& job, const std::string& node, const std::string& what = "1x2",
              const std::string& rest = "") {
    play(fmt::format("want {}/1 {} select=host={} {}", job, what, node, rest));
    play(fmt::format("phase {}/1 admitted", job));
    const Assignment& row = *script.engine().tables().assignments.find({WorkloadUid(job), 1});
    for (const Member& member : row.members) play(fmt::format("pod {}/1#{}", job, member.index));
    for (const Member& member : row.members)
      play(fmt::format("pod {}/1#{} on={} running", job, member.index, member.node));
  }
  void play(const std::string& line) { (void)script.run(line); }
  /// Its pod terminates, as ordered by admission.
  void terminate(const std::string& job) {
    play(fmt::format("phase {}/1 evicting deadline=30", job));
    play(fmt::format("pod-gone {}/1#0", job));
  }
  void two_nodes() {
    play("node a gpus=8 label=host=a");
    play("node b gpus=8 label=host=b");
    play("synced");
    run_on("a1", "a");
    run_on("a2", "a");
    play("tick 900");
    run_on("b1", "b");
    run_on("b2", "b");
    play("tick 100");
  }
  /// The victims named for it.
  [[nodiscard]] std::string victims_of(const std::string& uid) {
    std::string out;
    const Proposal* proposal = row(uid);
    if (proposal == nullptr) return out;
    for (const auto& victim : proposal->victims) out += (out.empty() ? "" : " ") + victim.id.to_string();
    return out;
  }
  [[nodiscard]] std::string published(const std::string& line) { return proposals_in(script.run(line)); }
  [[nodiscard]] const Proposal* row(const std::string& uid) {
    return script.engine().tables().proposals.find(WorkloadUid(uid));
  }
  [[nodiscard]] AssignmentState state_of(const std::string& uid) {
    return script.engine().tables().assignments.find({WorkloadUid(uid), 1})->state;
  }

  Script script{preemption()};
};

}  // namespace qm::placement::testing
