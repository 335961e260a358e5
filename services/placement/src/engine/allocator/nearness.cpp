// Link endpoints from node labels, and a comparison of placements of a gang.
#include "qm/placement/nearness.hpp"

#include "engine/mig/node_layouts.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <set>

namespace qm::placement {
namespace {

constexpr std::string_view kNvlinkLabel = "gpu.nvidia.com/nvlink-enabled";
constexpr std::size_t kMaxOthers = 3;

/// Models on a board with switches between all GPUs.
bool on_a_switch_board(std::string_view model) {
  constexpr std::array<std::string_view, 5> kBoards{"SXM", "HBM3", "H200", "B200", "B300"};
  if (model.find("PCIe") != std::string_view::npos || model.find("NVL") != std::string_view::npos) return false;
  return std::ranges::any_of(kBoards, [&](auto word) { return model.find(word) != std::string_view::npos; });
}

double nvlink_of(std::string_view model) {
  if (model.find("B200") != std::string_view::npos || model.find("B300") != std::string_view::npos) return 1800;
  return model.find("A100") != std::string_view::npos ? 600 : links::kNvlink;
}

bool joined_by_nvlink(const NodeFacts& facts) {
  const auto published_at = label_of(facts, kNvlinkLabel);
  return published_at == "true" ||
         (published_at != "false" && (island_of(facts.labels) > 0 || on_a_switch_board(facts.model)));
}

std::int32_t zone_of(const NodeFacts& facts, std::int32_t gpu) {
  for (std::size_t i = 0; i < facts.numa.zones.size(); ++i) {
    if (std::ranges::count(facts.numa.zones[i].gpus, gpu) > 0) return static_cast<std::int32_t>(i);
  }
  return 0;
}

/// "8 GPUs in one NVLink domain of node a".
std::string words_of(const std::vector<links::LinkEndpoint>& endpoints) {
  std::set<std::string> nodes, domains;
  std::set<std::int32_t> islands, zones;
  for (const auto& endpoint : endpoints) {
    nodes.insert(endpoint.node);
    domains.insert(fmt::format("{}/{}", links::name_of(endpoint.fabric), endpoint.domain));
    islands.insert(endpoint.island);
    zones.insert(endpoint.zone);
  }
  const auto gpus = fmt::format("{} GPUs", endpoints.size());
  if (nodes.size() > 1) {
    const auto slowest = std::ranges::min_element(endpoints, std::less<>(), &links::LinkEndpoint::fabric)->fabric;
    return fmt::format("{} on {} nodes by {}{}", gpus, nodes.size(), links::name_of(slowest),
                       domains.size() > 1 ? fmt::format(" of {} domains", domains.size()) : "");
  }
  const auto& node = *nodes.begin();
  if (*islands.begin() >= 0) {
    return islands.size() == 1 ? fmt::format("{} in one NVLink domain of node {}", gpus, node)
                               : fmt::format("{} in {} NVLink domains of node {}", gpus, islands.size(), node);
  }
  if (links::level_of(endpoints) == links::Level::kSwitch)
    return fmt::format("{} under one PCIe switch of node {}", gpus, node);
  return zones.size() == 1 ? fmt::format("{} over PCIe on node {}", gpus, node)
                           : fmt::format("{} over PCIe across the sockets of node {}", gpus, node);
}

std::string_view fabric_word(const NodeFacts& facts) {
  const auto published_at = label_of(facts, kFabricLabel);
  return published_at.empty() ? label_of(facts, kFabricSeenLabel) : published_at;
}

std::string speed_text(double speed) {
  return speed >= 10 ? fmt::format("{:.0f} GB/s", speed) : fmt::format("{:.1f} GB/s", speed);
}

}  // namespace

bool has_fabric(const NodeFacts& facts) {
  // Called for every node: most have no label with this prefix, which one look-up shows.
  static const std::string first(kFabricLabel);
  const auto found = facts.labels.lower_bound(first);
  if (found == facts.labels.end() || !found->first.starts_with(first)) return false;
  return links::fabric_of(fabric_word(facts)).has_value();
}

links::Fabric fabric_of(const NodeFacts& facts) {
  return links::fabric_of(fabric_word(facts)).value_or(links::Fabric::kEthernet);
}

std::vector<links::LinkEndpoint> endpoints_of(const NodeName& node, const NodeFacts& facts,
                                              const std::vector<DeviceRef>& devices) {
  std::vector<links::LinkEndpoint> out;
  const auto island = island_of(facts.labels);
  const bool nvlink = joined_by_nvlink(facts);
  const auto shares = shares_of(facts);
  auto rails_reported = label_of(facts, kFabricRailsLabel);
  if (rails_reported.empty()) rails_reported = label_of(facts, kRailsSeenLabel);
  std::int32_t rails = 1;
  std::from_chars(rails_reported.data(), rails_reported.data() + rails_reported.size(), rails);
  for (const DeviceRef& device : devices) {
    const auto gpu = gpu_of(device, shares);
    links::LinkEndpoint endpoint;
    endpoint.node = node.value();
    endpoint.gpu = gpu;
    endpoint.zone = zone_of(facts, gpu);
    if (const auto i = static_cast<std::size_t>(gpu); i < facts.switches.size()) endpoint.pcie = facts.switches[i];
    endpoint.island = !nvlink ? -1 : island > 0 ? gpu / island : 0;
    endpoint.nvlink = nvlink_of(facts.model);
    endpoint.fabric = fabric_of(facts);
    endpoint.domain = label_of(facts, kFabricDomainLabel);
    endpoint.rails = std::max(rails, 1);
    out.push_back(std::move(endpoint));
  }
  return out;
}

std::vector<links::LinkEndpoint> endpoints_of(const std::vector<Member>& members, const FreeCapacity& free_capacity) {
  std::vector<links::LinkEndpoint> out;
  for (const Member& member : members) {
    const auto capacity = free_capacity.find(member.node);
    if (capacity == free_capacity.end()) continue;
    std::ranges::move(endpoints_of(member.node, *capacity->second.facts, member.devices), std::back_inserter(out));
  }
  return out;
}

std::int64_t joined_gpus(const NodeCapacity& capacity) {
  if (label_of(*capacity.facts, kNvlinkLabel) == "false") return 0;
  if (capacity.island <= 0) return std::numeric_limits<std::int64_t>::max();
  std::int64_t most = 0;
  const auto size = static_cast<std::size_t>(capacity.island);
  for (std::size_t begin = 0; begin < capacity.free_milli.size(); begin += size) {
    const auto from = capacity.free_milli.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto count = std::min(size, capacity.free_milli.size() - begin);
    most = std::max<std::int64_t>(most, std::count(from, from + static_cast<std::ptrdiff_t>(count), 1000));
  }
  return most;
}

std::vector<FabricDomain> fabric_domains(const FreeCapacity& free_capacity) {
  std::map<std::pair<links::Fabric, std::string>, std::int64_t> idle;
  for (const auto& [name, capacity] : free_capacity) {
    if (!has_fabric(*capacity.facts)) continue;
    auto& sum = idle[{fabric_of(*capacity.facts), std::string(label_of(*capacity.facts, kFabricDomainLabel))}];
    if (capacity.usable) sum += capacity.idle_gpus();
  }
  std::vector<FabricDomain> out;
  for (const auto& [domain, gpus] : idle) out.push_back({domain.first, domain.second, gpus});
  std::ranges::sort(out, [](const FabricDomain& a, const FabricDomain& b) {
    return std::tie(b.fabric, a.idle_gpus, a.name) < std::tie(a.fabric, b.idle_gpus, b.name);
  });
  return out;
}

bool is_in(const FabricDomain& domain, const NodeFacts& facts) {
  return has_fabric(facts) && fabric_of(facts) == domain.fabric && label_of(facts, kFabricDomainLabel) == domain.name;
}

std::vector<std::string> compared(const std::vector<PodSet>& pod_sets, const std::vector<Member>& members,
                                  const FreeCapacity& free_capacity) {
  const auto chosen = endpoints_of(members, free_capacity);
  if (chosen.size() < 2) return {};
  const auto line = [](const std::vector<links::LinkEndpoint>& endpoints) {
    return fmt::format("{}: {}", words_of(endpoints), speed_text(links::ring(endpoints)));
  };
  std::vector<std::string> out{line(chosen)};
  std::map<double, std::string, std::greater<>> others;  // one of each speed, the first by name
  for (const auto& [name, capacity] : free_capacity) {
    if (std::ranges::all_of(chosen, [&, node = name.value()](const auto& endpoint) { return endpoint.node == node; }))
      continue;
    NodeCapacity left = capacity;
    std::vector<Member> there;
    const bool all = std::ranges::all_of(pod_sets, [&, node = name](const PodSet& set) {
      const bool admitted = placement::admitted(left, set.shape);
      for (std::int32_t i = 0; admitted && i < set.count && pods_that_fit(left, set.shape) > 0; ++i) {
        there.push_back({.node = node, .devices = take(left, node, set.shape)});
        if (i + 1 == set.count) return true;
      }
      return false;
    });
    if (!all) continue;
    const auto endpoints = endpoints_of(there, free_capacity);
    others.try_emplace(links::ring(endpoints), line(endpoints));
  }
  for (const auto& [speed, text] : others) {
    if (out.size() > kMaxOthers) break;
    if (speed != links::ring(chosen)) out.push_back("rather than " + text);
  }
  return out;
}

}  // namespace qm::placement
