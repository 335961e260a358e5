#pragma once
#include "qm/autoscaler/commands.hpp"
#include "qm/base/table.hpp"

#include <optional>
#include <string>
#include <vector>

namespace qm::autoscaler {

enum class ClaimState {
  kRequested,    ///< the intent stands; the cloud may or may not have acted
  kLaunched,     ///< it has an instance that has not registered yet
  kReady,        ///< its node serves
  kDraining,     ///< placement was asked to keep new work away
  kTerminating,  ///< the terminate intent stands
  kGone,         ///< stopped; kept for a while, as the cloud does
  kFailed,       ///< no capacity, or a parameter was refused; kept for a while, to be read
};
[[nodiscard]] std::string_view name_of(ClaimState state);

/// One machine, wanted or there: ours by a NodeClaim, or found in the cloud (pool empty).
struct Claim {
  std::string pool;  ///< empty = not ours to end
  std::string type, zone;
  Market market = Market::kOnDemand;
  ClaimState state = ClaimState::kRequested;
  InstanceId instance;
  NodeName node;
  Instant requested{}, changed{};  ///< changed: when it came into its state
  std::optional<Instant> launched, stopped;
  std::optional<Instant> missing_since;  ///< the cloud's description does not show it since then
  WorkloadUid for_uid;                   ///< the gang that it was launched for
  std::string group;                     ///< the Auto Scaling group that makes and ends it; empty = we do
  std::string reason;
  Labels labels;  ///< that its node gets by the pool's rules, besides the pool's own
  friend auto operator<=>(const Claim&, const Claim&) = default;
};

struct NodeRow {
  bool known = false;  ///< placement has it; else only a notice or a verdict named it
  Instant since{};     ///< of this row
  bool ready = false, cordoned = false, broken = false;
  std::int32_t pods = 0;
  std::optional<Instant> empty_since;
  InstanceId instance;
  bool drain_asked = false;
  bool drain_confirmed = false;  ///< heard as cordoned since
  std::string drain_reason;
  std::optional<Instant> taken_at;  ///< spot notice
  friend auto operator<=>(const NodeRow&, const NodeRow&) = default;
};

/// An attempt that holds devices.
struct AttemptRow {
  std::vector<NodeName> nodes;
  friend auto operator<=>(const AttemptRow&, const AttemptRow&) = default;
};

struct WorkloadRow {
  std::int32_t attempt = 1;
  bool checkpoints = false;
  std::string ns = {};
  std::string kind = {};  ///< of its object; empty = a row of an earlier release
  std::string name = {};  ///< likewise
  friend auto operator<=>(const WorkloadRow&, const WorkloadRow&) = default;
};

/// A gang's machines on their way.
struct Plan {
  /// Where its pods were laid. Who comes next takes what is left: laid anew in another order, the pods would leave other gaps.
  struct Place {
    ClaimName claim;
    std::int32_t set = 0;  ///< of the gang's pod sets
    std::int32_t pods = 0;
    friend auto operator<=>(const Place&, const Place&) = default;
  };
  std::vector<ClaimName> claims;
  Instant ready_by{};
  std::int32_t promised_attempt = 0;  ///< 0 = no promise is out
  std::int32_t fruitless = 0;         ///< times that its machines came and placement left them idle
  Instant not_before{};               ///< nothing is launched for it until then
  std::vector<Place> places;          ///< claims are among `claims`
  friend auto operator<=>(const Plan&, const Plan&) = default;
};

/// Placement wants a gang to save and go.
struct SaveRow {
  NodeName node;  ///< for whose sake
  std::string reason;
  Instant until{};
  friend auto operator<=>(const SaveRow&, const SaveRow&) = default;
};

/// A checkpoint order: every rank of the gang saves before the capacity is taken, or is needed otherwise.
struct Order {
  struct Ack {
    NodeName node;
    std::int64_t step = 0;
    std::string uri;
    bool ok = false;
    friend auto operator<=>(const Ack&, const Ack&) = default;
  };
  AttemptId id;
  NodeName taken;  ///< the node that the notice is for
  std::vector<NodeName> nodes;
  Instant ordered{}, deadline{};
  std::vector<Ack> acks;
  std::string outcome;  ///< "", "Acked", "Late"; "None" = it cannot save and was not asked
  std::int64_t step = 0;
  std::string uri;
  std::string reason;
  std::string ns = {}, kind = {};  ///< of the workload
  friend auto operator<=>(const Order&, const Order&) = default;
};

/// What a cloud sells: capacity ends, and comes back, for each of these apart. An empty zone leaves it to the cloud.
struct Offering {
  std::string type, zone;
  Market market = Market::kOnDemand;
  std::string group;  ///< the Auto Scaling group that would make it: its bound is nobody else's
  friend auto operator<=>(const Offering&, const Offering&) = default;
};

struct PriceRow {
  HourlyRate rate;
  Instant from{};
  friend auto operator<=>(const PriceRow&, const PriceRow&) = default;
};

struct OwnerRow {
  bool ours = true;
  std::string owner;
  friend auto operator<=>(const OwnerRow&, const OwnerRow&) = default;
};

/// Everything that the engine remembers.
struct Tables {
  Table<std::string, Pool> pools;
  Table<ClaimName, Claim> claims;
  Table<NodeName, NodeRow> nodes;
  Table<AttemptId, AttemptRow> attempts;
  Table<WorkloadUid, WorkloadRow> workloads;
  Table<WorkloadUid, DemandHeard::Item> demand;
  Table<WorkloadUid, Plan> plans;
  Table<std::string, Order> orders;
  Table<AttemptId, SaveRow> saves;
  Table<std::pair<std::string, std::string>, PriceRow> spot_prices;  ///< (type, zone)
  Table<Offering, Instant> blocked;                                  ///< no capacity, or refused; left alone until then
  Table<std::string, std::int64_t> counters;                         ///< "claim" -> last number given
  Table<std::string, std::int64_t> group_sizes;                      ///< Auto Scaling group -> machines last asked for
  Table<std::string, OwnerRow> owners;  ///< of namespaces that say, and of the others under ""; none = ours
};

}  // namespace qm::autoscaler
