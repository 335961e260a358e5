#pragma once
#include "facts.hpp"
#include "instances/claims.hpp"
#include "instances/headroom_slo.hpp"
#include "launch/new_nodes.hpp"
#include "offers/offers.hpp"
#include "state.hpp"

#include <map>
#include <string>
#include <vector>

namespace qm::autoscaler {

/// Headroom: whole free nodes for the pods of CapacityBuffers and for the SLOs of NodePools, after all pending gangs.
///
/// Covered  by nodes that are empty, or start and are not planned for a gang. Each serves one buffer.
/// Reserved an empty node that covers a buffer is not terminated for being empty.
class Headroom {
 public:
  Headroom(State& state, const Facts& facts, Claims& claims, const Offers& offers, const NewNodes& nodes,
           const HeadroomSlos& slos)
      : state_(state),
        options_(state.options),
        tables_(state.tables),
        facts_(facts),
        claims_(claims),
        offers_(offers),
        nodes_(nodes),
        slos_(slos) {}

  /// Launches what buffers lack, and records the nodes that cover them.
  void keep_buffers();
  /// CapacityBuffers, and headroom by pool and type, by name.
  [[nodiscard]] std::map<std::string, BufferState> buffers() const;
  /// One line for each: its capacity and price, and why there is not more.
  void explain_buffers(std::vector<std::string>& lines) const;

 private:
  struct Cover {
    std::int64_t pods = 0;
    std::vector<ClaimName> claims;
  };
  /// CapacityBuffers first, then those of SLOs.
  [[nodiscard]] std::vector<Buffer> wanted() const;
  /// Ready nodes first, so that a starting one is not kept in place of a ready one.
  [[nodiscard]] std::vector<ClaimName> free_claims() const;
  Cover cover(const Buffer& buffer, std::vector<ClaimName>& free) const;

  State& state_;
  const Options& options_;
  Tables& tables_;
  const Facts& facts_;
  Claims& claims_;
  const Offers& offers_;
  const NewNodes& nodes_;
  const HeadroomSlos& slos_;
};

}  // namespace qm::autoscaler
