#pragma once
// Nodes and pods for tests of the scale-down of node groups.
#include "qm/autoscaler/scale_down/scale_down.hpp"
#include "qm/kube_rules/text.hpp"

#include <deque>
#include <string>
#include <vector>

namespace qm::autoscaler::testing {

struct PodOptions {
  std::int64_t milli = 0, memory_mi = 0, gpus = 0;
  std::string controller = "ReplicaSet";
  Labels labels{};
  kube_rules::PodRules rules{};
};

inline NodePod node_pod(const std::string& name, PodOptions options) {
  NodePod out;
  out.name = name;
  out.controller = options.controller;
  if (options.controller == "DaemonSet") out.kind = NodePod::Kind::kDaemon;
  out.system = name.starts_with("kube-system/");
  auto& requests = options.rules.requests;
  if (options.milli > 0) requests["cpu"] = options.milli;
  if (options.memory_mi > 0) requests["memory"] = options.memory_mi << 20;
  if (options.gpus > 0) requests[std::string(words::kGpuResource)] = options.gpus;
  out.rules = kube_rules::text_of({Namespace("default"), std::move(options.labels), std::move(options.rules)});
  return out;
}

inline NodePods node_pods(std::int64_t cores, std::int64_t gpus, std::vector<NodePod> pods, Labels labels = {}) {
  NodePods out;
  out.labels = std::move(labels);
  out.allocatable = {{"cpu", cores * 1000}, {"memory", cores * 4 << 30}, {"pods", 110}};
  if (gpus > 0) out.allocatable[std::string(words::kGpuResource)] = gpus;
  out.pods = std::move(pods);
  return out;
}

/// A problem with one group "asg", of which every node is a member.
class Fleet {
 public:
  Fleet() {
    problem.rules.utilization_milli = 500;
    problem.groups = {{"asg", 0, 0, 500, 500, false, 1000, 1000}};
  }
  ScaleDownNode& add(const std::string& name, NodePods pods) {
    views_.push_back(std::move(pods));
    ScaleDownNode node;
    node.name = name;
    node.view = &views_.back();
    node.group = 0;
    ++problem.groups[0].size;
    return problem.nodes.emplace_back(std::move(node));
  }
  ScaleDownProblem problem;

 private:
  std::deque<NodePods> views_;
};

}  // namespace qm::autoscaler::testing
