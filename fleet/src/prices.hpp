#pragma once
#include "qm/base/result.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace qm::fleet {

/// One instance type of the simulated cloud: its size and its price per hour.
struct InstanceType {
  std::string name;
  std::int64_t vcpu = 0, memory_mib = 0, gpus = 0, gpu_memory_mib = 0;
  std::string gpu_model;    ///< "H100"; empty if the type has no GPU
  std::string gpu_product;  ///< as the driver names it, "NVIDIA-H100-80GB-HBM3" with dashes
  std::int64_t on_demand_nano_hour = 0,
               spot_nano_hour = 0;  ///< nano-dollars an hour; 0 = not sold in that market
};

/// The types by name. The default table is fleet/prices.csv, compiled in; --prices names another.
///
/// Columns  instance_type, gpus, gpu_model, gpu_product, gpu_memory_mib, vcpu, memory_mib,
///          on_demand_usd_hour, spot_usd_hour
/// Fails    kInvalid with the invalid line and column.
class PriceTable {
 public:
  static Result<PriceTable> parse(std::string_view csv);
  static const PriceTable& built_in();
  [[nodiscard]] const InstanceType* find(const std::string& type) const;
  [[nodiscard]] const std::map<std::string, InstanceType>& all() const { return types_; }
  void add(InstanceType type) { types_[type.name] = std::move(type); }

 private:
  std::map<std::string, InstanceType> types_;
};

/// "55.04" as nano-dollars, exactly; at most nine decimals.
Result<std::int64_t> parse_nano_usd(std::string_view text);

}  // namespace qm::fleet
