#pragma once
#include "qm/topology/assign.hpp"

#include <fmt/format.h>

#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace qm::topology {

/// A cluster in lines, `b1 r1 x1 cpu=4 +zone=a !spot:NoSchedule`: level values, resources, labels, taints.
/// A node has capacity for 100 pods unless a line specifies otherwise.
class World {
 public:
  World(std::vector<std::string> levels, std::string_view lines, Gates gates = {})
      : topology_(names_, {"default", levels, {}, {}}, read(levels, lines)), search_(topology_, gates) {}

  [[nodiscard]] Requests requests(std::string_view words) {
    Requests out;
    std::istringstream in{std::string(words)};
    for (std::string label; in >> label;) add(out, {amount(label)});
    return out;
  }
  /// A pod set with the request "cpu=1" per pod by default.
  [[nodiscard]] PodSetRequest pods(Pods count, std::optional<TopologyRequest> topology,
                                   std::string_view each = "cpu=1") {
    PodSetRequest out;
    out.name = "main";
    out.count = count;
    out.per_pod = requests(each);
    out.implied = !topology;
    out.topology = std::move(topology);
    return out;
  }
  [[nodiscard]] DomainId leaf(const std::string& host) {
    const std::vector<std::string> values{host};
    return topology_.tree().find_leaf(values);
  }
  void take(const std::string& host, std::string_view usage) { topology_.take(leaf(host), requests(usage)); }

  /// "main x1:2 x2:1; leader x1:1", or the reason.
  [[nodiscard]] std::string assign(const std::vector<PodSetRequest>& pod_sets, AssignOptions options = {}) {
    std::string out;
    for (const auto& r : topology::assign(search_, pod_sets, std::move(options))) {
      if (!out.empty()) out += "; ";
      out += r.pod_set;
      if (!r.assignment) out += " " + r.reason;
      if (!r.assignment) continue;
      for (const auto& d : r.assignment->domains) out += fmt::format(" {}:{}", fmt::join(d.values, ","), d.count);
    }
    return out;
  }
  [[nodiscard]] std::string assign(PodSetRequest pod_set) { return assign(std::vector{std::move(pod_set)}); }
  [[nodiscard]] Topology& topology() { return topology_; }
  [[nodiscard]] Search& search() { return search_; }

 private:
  Amount amount(const std::string& label) {
    const auto equals = label.find('=');
    return {names_.intern(label.substr(0, equals)), std::stoll(label.substr(equals + 1))};
  }
  std::vector<Node> read(const std::vector<std::string>& levels, std::string_view lines) {
    std::vector<Node> out;
    std::istringstream in{std::string(lines)};
    for (std::string line; std::getline(in, line);) {
      std::istringstream words(line);
      Node node;
      std::size_t level = 0;
      for (std::string label; words >> label;) {
        const auto equals = label.find('=');
        if (label[0] == '+') {
          node.labels[label.substr(1, equals - 1)] = label.substr(equals + 1);
        } else if (label[0] == '!') {
          const auto colon = label.find(':');
          node.taints.push_back({label.substr(1, colon - 1), "", label.substr(colon + 1)});
        } else if (equals != std::string::npos) {
          add(node.allocatable, {amount(label)});
        } else {
          node.labels[levels[level++]] = label;
          node.name = label;
        }
      }
      if (level == 0) continue;
      if (node.allocatable.empty() || node.allocatable[0].resource != kPods) add(node.allocatable, {{kPods, 100}});
      out.push_back(std::move(node));
    }
    return out;
  }

  ResourceNames names_;
  Topology topology_;
  Search search_;
};

inline const std::vector<std::string> kThree{"block", "rack", std::string(kHostnameLabel)};
inline const std::string kHost{kHostnameLabel};

inline TopologyRequest required(std::string level, std::vector<SliceLayer> slices = {}) {
  return {.required = std::move(level), .preferred = {}, .unconstrained = false, .slices = std::move(slices)};
}
inline TopologyRequest preferred(std::string level, std::vector<SliceLayer> slices = {}) {
  return {.required = {}, .preferred = std::move(level), .unconstrained = false, .slices = std::move(slices)};
}
inline TopologyRequest unconstrained() {
  return {.required = {}, .preferred = {}, .unconstrained = true, .slices = {}};
}
inline TopologyRequest slices_only(std::vector<SliceLayer> slices) {
  return {.required = {}, .preferred = {}, .unconstrained = false, .slices = std::move(slices)};
}

}  // namespace qm::topology
