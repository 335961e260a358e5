#pragma once
#include "options.hpp"
#include "qm/base/result.hpp"
#include "quartermaster/v1/capacity_service.pb.h"

#include <cstdint>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace qm::cli {

/// The values of the options of `capacity simulate`. An offering is TYPE[/ZONE][:CAPACITY-TYPE], such as
/// p5.48xlarge/us-east-1a:spot; what is left out is any.
///
/// Fails    kInvalid: the text has another form; the message has the option and the right form.

/// "OFFERING=12.5" in USD per hour, or a change of the present price: "OFFERING=+20%".
[[nodiscard]] Result<quartermaster::v1::PriceChange> price_change_of(const std::string& text);
/// An offering, for --available and --unavailable.
[[nodiscard]] Result<quartermaster::v1::AvailabilityChange> availability_of(const std::string& text, bool available);
/// "PODSxGPUS" with comma-separated details: cpu, memory, model, priority, and any other key selects a node label.
[[nodiscard]] Result<quartermaster::v1::DemandChange> demand_change_of(const std::string& text);

/// The options of `capacity`. verb() reports wrong ones as the other options are: with CLI::ValidationError.
class CapacityFlags {
 public:
  void add_to(CLI::App& app);
  [[nodiscard]] Verb verb() const;

 private:
  [[nodiscard]] pb::SimulateCapacityRequest change() const;
  [[nodiscard]] Verb history(pb::SimulateCapacityRequest change) const;
  std::string action_, name_, journal_, shard_ = "default";
  std::vector<std::string> sets_;
  std::int64_t candidates_ = 0, demand_ = 100;
  std::vector<std::string> files_, deleted_, prices_, added_, removed_, unavailable_, available_;
};

}  // namespace qm::cli
