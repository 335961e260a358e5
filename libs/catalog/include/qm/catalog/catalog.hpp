#pragma once
#include <cstdint>
#include <span>
#include <string_view>

namespace qm::catalog {

/// One EC2 instance type: its hardware, and its on-demand price in us-east-1 (Linux, shared tenancy).
///
/// Prices are data with a date (2026-07-20) and only a default: a PricePlan overrides them. `usd_hour` is the exact
/// decimal text; empty where the type is not sold on demand. `gpu_product` is the value of the node label
/// nvidia.com/gpu.product. Types with a fraction of a GPU have zero GPUs here, as in EC2's API: schedulers must
/// not count a fraction as a whole GPU.
struct Type {
  std::string_view name;
  std::int32_t vcpu;
  std::int64_t memory_mib;
  std::int32_t gpus;
  std::string_view gpu_product;
  std::string_view usd_hour;
};

/// All types, in order of name.
std::span<const Type> types();
/// Null if the catalog does not have the type.
const Type* find(std::string_view name);

}  // namespace qm::catalog
