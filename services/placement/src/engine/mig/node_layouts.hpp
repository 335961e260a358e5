#pragma once
#include "qm/placement/model.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace qm::placement {

/// The value of the node's label, valid as long as the facts; empty if the label is absent.
[[nodiscard]] std::string_view label_of(const NodeFacts& facts, std::string_view key);
/// MIG instances count as GPUs on the node (nvidia.com/mig.strategy=single) once it is partitioned.
[[nodiscard]] bool is_single(const NodeFacts& facts);
/// They count as GPUs now.
[[nodiscard]] bool counts_instances(const NodeFacts& facts);
/// Number of physical GPUs; 0 = unknown. On a partitioned node whose instances count as GPUs it is computed
/// from the advertised number, by the labeled layout, or else by the maximum of its profile per GPU.
[[nodiscard]] std::int32_t installed(const NodeFacts& facts, const mig::Definitions& layouts);
/// How many times the node advertises each device of the resource.
[[nodiscard]] std::int64_t replicas_of(const NodeFacts& facts, const std::string& resource);
/// Whether the order evicts no work now: it waits, or it has ended.
[[nodiscard]] bool evicts_none(const relayout::Row& row);

}  // namespace qm::placement
