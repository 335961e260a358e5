#pragma once
#include "qm/placement/model.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace qm::placement {

/// The value of the node's label, as long as the facts are there; empty where it has no such label.
[[nodiscard]] std::string_view label_of(const NodeFacts& facts, std::string_view key);
/// MIG instances count as GPUs there (nvidia.com/mig.strategy=single), once it is cut.
[[nodiscard]] bool is_single(const NodeFacts& facts);
/// They do now.
[[nodiscard]] bool counts_instances(const NodeFacts& facts);
/// GPUs of the machine; 0 = not known. Where instances count as GPUs and the node is cut, as many as have what it advertises, by the layout that
/// it is labelled with or else by as many of its profile as a GPU takes.
[[nodiscard]] std::int32_t installed(const NodeFacts& facts, const mig::Definitions& layouts);
/// How many times the node counts each device of the resource.
[[nodiscard]] std::int64_t replicas_of(const NodeFacts& facts, const std::string& resource);

}  // namespace qm::placement
