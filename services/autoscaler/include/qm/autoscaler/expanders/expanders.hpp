#pragma once
#include "qm/model/money.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace qm::autoscaler {

/// How one of several node groups is chosen that fit pending pods.
///
///   priority     the highest priority of those that have one; all, if none has
///   price        the lowest price of the new nodes together
///   least-waste  the least unused share of CPU plus that of memory on the new nodes; GPUs do not count
///   most-pods    the most pods that get a place
///   least-nodes  the fewest new nodes
///   random       by the seed: the same seed and the same groups give the same choice
enum class Expander : std::uint8_t { kPriority, kPrice, kLeastWaste, kMostPods, kLeastNodes, kRandom };
/// nullopt: no expander has the name.
[[nodiscard]] std::optional<Expander> expander_of(std::string_view name);
[[nodiscard]] std::string_view name_of(Expander expander);

/// A node group that fits pending pods, and the nodes that it would get. Amounts are those of all new nodes together.
struct Expansion {
  std::string group;
  std::optional<std::int64_t> priority;  ///< nullopt: the priorities name it in no expression
  std::int64_t nodes = 0, pods = 0;
  Money per_hour;
  std::int64_t cpu_milli = 0, memory_bytes = 0;            ///< allocatable
  std::int64_t used_cpu_milli = 0, used_memory_bytes = 0;  ///< requests of the pods
};

/// The index of the chosen group: each expander of the chain keeps the best ones for the next.
///
/// Order    of several that remain, the first of `options`.
/// Bounds   `options` is not empty; sums of memory below 2^62 bytes.
/// Threads  any; reads only its arguments.
/// Cost     expanders x options; no allocation but the list of those that remain.
/// Source   Cluster Autoscaler 1.36, FAQ.md, "What are Expanders?", and expander/waste/waste.go.
[[nodiscard]] std::size_t choose_expansion(std::span<const Expander> chain, std::span<const Expansion> options,
                                           std::uint64_t seed);

}  // namespace qm::autoscaler
