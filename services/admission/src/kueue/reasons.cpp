// The obstacles of a pod set, in Kueue's words.
#include "qm/admission/kueue/objects.hpp"
#include "qm/model/quantity.hpp"

#include <fmt/format.h>

#include <set>

namespace qm::admission::kueue {

std::string amount_text(std::string_view resource, std::int64_t amount) {
  if (resource == "cpu") return Quantity::of_milli(amount).to_string();
  const bool bytes = resource == "memory" || resource == "ephemeral-storage" || resource.starts_with("hugepages-");
  return Quantity::of(amount, bytes ? Quantity::Format::kBinarySi : Quantity::Format::kDecimalSi).to_string();
}

std::string to_string(const Why& why, const Names& flavors, const Names& resources) {
  const auto flavor = why.kind == Why::Kind::kNotCovered ? std::string() : flavors[why.flavor];
  const auto resource = why.kind == Why::Kind::kRefused ? std::string() : resources[why.resource];
  switch (why.kind) {
    case Why::Kind::kRefused:
      switch (why.refusal.why) {
        case Refusal::Why::kNotFound:
          return fmt::format("flavor {} not found", flavor);
        case Refusal::Why::kTaint:
          return fmt::format("untolerated taint {{{} <nil>}} in flavor {}", why.refusal.detail, flavor);
        case Refusal::Why::kAffinity:
          return fmt::format("flavor {} doesn't match node affinity", flavor);
        case Refusal::Why::kNoTopology:
          return fmt::format("Flavor \"{}\" does not support TopologyAwareScheduling", flavor);
        case Refusal::Why::kUnknownTopology:
          return fmt::format("Flavor \"{}\" information missing in TAS cache", flavor);
        case Refusal::Why::kNoLevel:
          return fmt::format("Flavor \"{}\" does not contain the requested level", flavor);
        case Refusal::Why::kOnlyTopology:
          return fmt::format("Flavor \"{}\" supports only TopologyAwareScheduling", flavor);
        case Refusal::Why::kFlavorOfOtherSlice:
          return fmt::format("could not assign {} flavor since the original workload is assigned: {}", flavor,
                             why.refusal.other < 0 ? std::string() : flavors[why.refusal.other]);
        case Refusal::Why::kNotAllowed:
          return fmt::format("skipping flavor {} due to WorkloadAllowedResourceFlavorAnnotation annotation", flavor);
      }
      return {};
    case Why::Kind::kNoTopology:
      return "no TAS flavor assigned";
    case Why::Kind::kElastic:
      return fmt::format("{} topology is not supported with ElasticJobsViaWorkloadSlices", why.refusal.detail);
    case Why::Kind::kNoTopologies:
      return "workload requires Topology, but there is no TAS cache information";
    case Why::Kind::kSeveralTopologies: {
      std::set<std::string> names;
      for (const Flavor one : why.flavors) names.insert(flavors[one]);
      return fmt::format("more than one TAS flavor assigned: {}", fmt::join(names, ", "));
    }
    case Why::Kind::kTopologyPlacementFailed:
      return why.refusal.detail;
    case Why::Kind::kNotAsBefore:
      return fmt::format("skipping flavor {} as it is not found in the nomination mapping for resource {}", flavor,
                         resource);
    case Why::Kind::kNotCovered:
      return fmt::format("resource {} unavailable in ClusterQueue", resource);
    case Why::Kind::kNotProvided:
      return fmt::format("flavor {} does not provide resource {}", flavor, resource);
    case Why::Kind::kExceedsMax:
      return fmt::format(
          "insufficient quota for {} in flavor {}, previously considered podsets requests ({}) + current podset request ({}) "
          "> maximum capacity ({})",
          resource, flavor, amount_text(resource, why.earlier), amount_text(resource, why.asked),
          amount_text(resource, why.most));
    case Why::Kind::kInsufficient:
      return fmt::format("insufficient unused quota for {} in flavor {}, {} more needed", resource, flavor,
                         amount_text(resource, why.asked));
  }
  return {};
}

std::string Objects::to_string(const Why& why) const { return kueue::to_string(why, flavors, resources); }

}  // namespace qm::admission::kueue
