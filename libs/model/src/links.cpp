#include "qm/model/links.hpp"

#include <algorithm>
#include <tuple>

namespace qm::links {
namespace {

/// A link that hops share: between two sockets, or out of a node.
using Bottleneck = std::tuple<std::string, std::int32_t>;
constexpr std::int32_t kOutOfTheNode = -1;
constexpr double kBetweenDomains = 0.5;

}  // namespace

double speed_of(Fabric fabric) {
  switch (fabric) {
    case Fabric::kEthernet:
      return 12.5;
    case Fabric::kRoce:
      return 25;
    case Fabric::kInfiniband:
      return 50;
  }
  return 0;
}

std::string_view name_of(Fabric fabric) {
  switch (fabric) {
    case Fabric::kEthernet:
      return "ethernet";
    case Fabric::kRoce:
      return "roce";
    case Fabric::kInfiniband:
      return "infiniband";
  }
  return "?";
}

std::optional<Fabric> fabric_of(std::string_view word) {
  if (word == "ib") return Fabric::kInfiniband;
  for (const auto fabric : {Fabric::kEthernet, Fabric::kRoce, Fabric::kInfiniband}) {
    if (word == name_of(fabric)) return fabric;
  }
  return std::nullopt;
}

Level level_of(const LinkEndpoint& a, const LinkEndpoint& b) {
  if (a.node != b.node) return a.fabric == b.fabric && a.domain == b.domain ? Level::kFabric : Level::kNone;
  if (a.gpu == b.gpu) return Level::kGpu;
  if (a.zone == b.zone) return a.pcie == b.pcie && a.pcie >= 0 ? Level::kSwitch : Level::kNuma;
  return a.island == b.island && a.island >= 0 ? Level::kIsland : Level::kNode;
}

Level level_of(std::span<const LinkEndpoint> endpoints) {
  auto widest = Level::kGpu;
  for (const LinkEndpoint& endpoint : endpoints) widest = std::max(widest, level_of(endpoints.front(), endpoint));
  return widest;
}

std::string_view name_of(Level level) {
  switch (level) {
    case Level::kGpu:
      return "gpu";
    case Level::kSwitch:
      return "switch";
    case Level::kNuma:
      return "numa";
    case Level::kIsland:
      return "island";
    case Level::kNode:
      return "node";
    case Level::kFabric:
      return "fabric";
    case Level::kNone:
      return "none";
  }
  return "?";
}

double ring(std::span<const LinkEndpoint> endpoints) {
  if (endpoints.size() < 2) return 0;
  const auto hops = endpoints.size() == 2 ? 1 : endpoints.size();  // two GPUs exchange over one link, both ways
  double slowest = kNvlink * 1000;
  std::map<Bottleneck, std::pair<double, std::int32_t>> shared;  // speed, and hops that share it
  for (std::size_t i = 0; i < hops; ++i) {
    const LinkEndpoint &from = endpoints[i], &to = endpoints[(i + 1) % endpoints.size()];
    if (from.node != to.node) {
      const auto rails = std::max(std::min(from.rails, to.rails), 1);
      auto speed = std::min(speed_of(from.fabric), speed_of(to.fabric));
      if (level_of(from, to) == Level::kNone) speed *= kBetweenDomains;
      auto& way = shared.try_emplace({from.node, kOutOfTheNode}, speed * rails, 0).first->second;
      way.first = std::min(way.first, speed * rails);
      ++way.second;
      slowest = std::min(slowest, speed);
    } else if (from.island == to.island && from.island >= 0) {
      slowest = std::min({slowest, from.nvlink, to.nvlink});
    } else if (from.zone == to.zone) {
      slowest = std::min(slowest, kPcie);
    } else {
      ++shared.try_emplace({from.node, from.zone}, kAcrossSockets, 0).first->second.second;
    }
  }
  for (const auto& [where, way] : shared) slowest = std::min(slowest, way.first / way.second);
  return slowest;
}

double seconds_of(const Step& step, std::span<const LinkEndpoint> endpoints) {
  const double speed = ring(endpoints);
  if (speed == 0) return step.compute_s;
  const auto ranks = static_cast<double>(endpoints.size());
  return step.compute_s + 2 * (ranks - 1) / ranks * step.bytes / (speed * 1e9);
}

}  // namespace qm::links
