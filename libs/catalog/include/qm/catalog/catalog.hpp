#pragma once
#include <cstdint>
#include <span>
#include <string_view>

namespace qm::catalog {

/// One EC2 instance type: what the machine has, and what it costs on demand in us-east-1 (Linux, shared tenancy).
///
/// Prices are data with a date (2026-07-20) and only a default: a PricePlan overrides them. `usd_hour` is the exact
/// decimal text; empty where the type is not sold on demand. `gpu_product` is the value of the node label
/// nvidia.com/gpu.product. Types with a fraction of a GPU stand with none, as EC2's own API reports them: schedulers must
/// not count a fraction as whole.
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
/// Null where the catalog does not know it.
const Type* find(std::string_view name);

}  // namespace qm::catalog
