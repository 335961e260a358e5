#pragma once
#include "qm/base/table.hpp"
#include "qm/base/time.hpp"
#include "qm/cost/prices.hpp"
#include "qm/model/ids.hpp"
#include "qm/model/money.hpp"
#include "qm/model/resources.hpp"

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// The rows of the cost engine: received facts, posted entries, and their sums.
///
/// Times at zero mean "not yet". GPU-time is counted in microseconds of one whole GPU, so that money and time are
/// both integers and both balance.
namespace qm::cost {

/// Names for capacity that no team pays for, in place of a team, namespace or workload.
namespace pools {
inline constexpr std::string_view kIdle = "(idle)";            ///< ready, and not used
inline constexpr std::string_view kUnhealthy = "(unhealthy)";  ///< cordoned for its health, or not ready
inline constexpr std::string_view kStarting = "(starting)";    ///< billed, not ready for the first time yet
inline constexpr std::string_view kDraining = "(draining)";    ///< cordoned for another reason, or its node is gone
inline constexpr std::string_view kSystem = "(system)";        ///< instances without GPUs
}  // namespace pools

/// Money with the GPU-time that it paid for.
struct Amount {
  Money nano;
  std::int64_t gpu_micros = 0;
  Amount& operator+=(const Amount& other);
  Amount& operator-=(const Amount& other);
  [[nodiscard]] bool zero() const { return nano.nano() == 0 && gpu_micros == 0; }
  friend auto operator<=>(const Amount&, const Amount&) = default;
};

/// The owner of a share of a slice; a pool's name is its team, with no namespace and workload. Names are reused,
/// uids never.
struct Owner {
  std::string team, ns, workload, uid;
  std::int32_t attempt = 0;  ///< of the workload; 0 if it was posted by a release without attempts
  friend auto operator<=>(const Owner&, const Owner&) = default;
};
struct Line {
  Owner owner;
  Amount amount;
  friend bool operator==(const Line&, const Line&) = default;
};

// ---- facts ------------------------------------------------------------------------------------------------------

struct InstanceRow {
  ClaimName claim;
  std::uint64_t version = 0;
  std::string type, zone, capacity_type;
  NodeName node;  ///< from the autoscaler; the node's own event has precedence
  std::int32_t gpus = 0;
  Instant launched{}, stopped{};  ///< billing instants
  Instant settled_until{};        ///< posted up to here
  Instant frozen_until{};         ///< folded up to here: facts about earlier time are late
  std::int32_t revision = 0;      ///< increases with each restatement
  friend bool operator==(const InstanceRow&, const InstanceRow&) = default;
};

struct SpotPool {
  std::string type, zone;
  friend auto operator<=>(const SpotPool&, const SpotPool&) = default;
};
struct SpotPoint {
  HourlyRate rate;
  std::uint64_t version = 0;
  friend bool operator==(const SpotPoint&, const SpotPoint&) = default;
};
using SpotRow = std::map<Instant, SpotPoint>;

enum class NodeState : std::uint8_t { kNotReady, kReady, kUnhealthy, kDraining };
struct NodeKey {
  InstanceId instance;
  NodeName node;
  friend auto operator<=>(const NodeKey&, const NodeKey&) = default;
};
struct NodePoint {
  NodeState state = NodeState::kNotReady;
  std::uint64_t version = 0;
  friend bool operator==(const NodePoint&, const NodePoint&) = default;
};
struct NodeRow {
  std::int32_t gpus = 0;
  std::uint64_t version = 0;  ///< of gpus
  std::map<Instant, NodePoint> points;
  friend bool operator==(const NodeRow&, const NodeRow&) = default;
};

struct DeviceShare {
  std::int32_t index = 0;
  std::int32_t milli = 1000;
  std::int32_t slices = 0;  ///< compute slices of a MIG instance, which replace milli
  friend auto operator<=>(const DeviceShare&, const DeviceShare&) = default;
};
struct Member {
  NodeName node;
  std::vector<DeviceShare> devices;
  Instant bound{}, released{};
  friend bool operator==(const Member&, const Member&) = default;
};
struct AssignmentRow {
  std::uint64_t version = 0;
  Owner owner;
  Labels labels;                ///< words::kChargebackLabels
  std::vector<Member> members;  ///< bound ones only
  bool ended = false;           ///< no further member will be bound
  friend bool operator==(const AssignmentRow&, const AssignmentRow&) = default;
};

// ---- ledger -----------------------------------------------------------------------------------------------------

/// A part of one instance's lifetime without changes: one journal entry charges it.
struct SliceKey {
  InstanceId instance;
  Instant start;
  friend auto operator<=>(const SliceKey&, const SliceKey&) = default;
};
struct SliceRow {
  Instant end;
  Money cost;
  std::string node;         ///< the instance id if no node is known
  std::vector<Line> lines;  ///< by owner; they add up to cost
  std::int32_t revision = 0;
};
/// Whether the charges are equal, regardless of the revision.
[[nodiscard]] bool same_charge(const SliceRow& a, const SliceRow& b);

enum class Group : std::uint8_t { kTeam, kNamespace, kWorkload, kNode, kBill };
/// Sums of everything posted; in kBill the provider's bill for the folded time.
struct TotalKey {
  std::string period;  ///< "2026-11"
  Group group = Group::kTeam;
  std::string key;
  friend auto operator<=>(const TotalKey&, const TotalKey&) = default;
};
struct AccountKey {
  std::string account, team;
  friend auto operator<=>(const AccountKey&, const AccountKey&) = default;
};
// ---- budgets ----------------------------------------------------------------------------------------------------

enum class BudgetUnit : std::uint8_t { kGpuMillis, kNanoUsd };  ///< thousandths of a GPU-second, or nano-dollars
enum class BudgetPeriod : std::uint8_t { kMonth, kWeek, kDay, kYear };

/// The amount that an owner may spend in each period: exactly one of the three names identifies the owner.
struct Budget {
  std::string name;
  std::string cluster_queue, ns, team;
  BudgetUnit unit = BudgetUnit::kGpuMillis;
  std::int64_t amount = 0;
  BudgetPeriod period = BudgetPeriod::kMonth;
  Duration utc_offset{0};
  std::int32_t carry_over_permille = 0;
  bool soft = false;
  Duration default_run = std::chrono::hours(1);
  friend bool operator==(const Budget&, const Budget&) = default;
};
struct Allotment {
  Instant to;
  std::int64_t amount = 0;
  std::int32_t carry_over_permille = 0;
  friend bool operator==(const Allotment&, const Allotment&) = default;
};
/// The hourly price at which one GPU is held: the most expensive of the plan for such instances.
struct HoldPrice {
  std::string instance_type, gpu_product;
  std::int64_t nano_usd_gpu_hour = 0;
  friend auto operator<=>(const HoldPrice&, const HoldPrice&) = default;
};
/// The published state of a budget: the current allotment and the next.
struct BudgetRow {
  Budget budget;
  std::uint64_t sequence = 0;  ///< increases with each change; continues when a budget with that name is created again
  std::map<Instant, Allotment> periods;
  std::vector<HoldPrice> prices;  ///< if the budget counts dollars
  bool withdrawn = false;
  friend bool operator==(const BudgetRow&, const BudgetRow&) = default;
};
/// The posted cost of an attempt.
struct SpentRow {
  Amount amount;
  bool final = false;  ///< it has ended, and everything is posted
  friend bool operator==(const SpentRow&, const SpentRow&) = default;
};

struct Meta {
  Instant now{};
  Instant horizon{};               ///< everything that ended before is folded
  std::uint64_t entries = 0;       ///< journal entries, including reversals
  std::uint64_t restatements = 0;  ///< entries reversed
  std::uint64_t late = 0;          ///< facts about folded time, dropped
  friend bool operator==(const Meta&, const Meta&) = default;
};

struct State {
  Table<InstanceId, InstanceRow> instances;
  Table<SpotPool, SpotRow> spot;
  Table<NodeKey, NodeRow> nodes;
  Table<AttemptId, AssignmentRow> assignments;
  Table<Instant, PricePlan> plans;   ///< by the time from which they apply
  Table<SliceKey, SliceRow> slices;  ///< posted, and recent enough for a restatement
  Table<TotalKey, Amount> totals;
  Table<AccountKey, Amount> accounts;  ///< ledger balances, debit positive
  Table<std::string, BudgetRow> budgets;
  Table<AttemptId, SpentRow> spent;  ///< of attempts with a stored assignment
  Table<int, Meta> meta;             ///< one row, key 0
};

// ---- calendar (UTC) ---------------------------------------------------------------------------------------------

[[nodiscard]] std::string period_of(Instant t);  ///< "2026-11"
[[nodiscard]] Result<Instant> period_start(std::string_view period);
[[nodiscard]] Instant next_period(Instant t);  ///< first instant of the month after t's
[[nodiscard]] Instant next_hour(Instant t);    ///< first whole hour after t
/// The budget period that contains t, for a calendar with this offset from UTC: its start, and the start of the next
/// one.
[[nodiscard]] std::pair<Instant, Instant> period_around(Instant t, BudgetPeriod period, Duration utc_offset);

}  // namespace qm::cost
