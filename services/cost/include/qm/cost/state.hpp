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

/// The rows of the cost engine: what was heard, what was posted, and the sums of it.
///
/// Instants at zero mean "not yet". GPU-time is counted in microseconds of one whole GPU, so that money and time are
/// both integers and both balance.
namespace qm::cost {

/// Capacity that no team pays for stands under these names wherever a team, namespace or workload is asked for.
namespace pools {
inline constexpr std::string_view kIdle = "(idle)";            ///< ready, and nobody used it
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

/// Who a share of a slice belongs to; a pool's name is its team, with no namespace and workload. Names are used again,
/// the uid never.
struct Owner {
  std::string team, ns, workload, uid;
  std::int32_t attempt = 0;  ///< of the workload; 0 where it was posted before attempts were told apart
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
  NodeName node;  ///< as the autoscaler knows it; the node's own word is preferred
  std::int32_t gpus = 0;
  Instant launched{}, stopped{};  ///< billing instants
  Instant settled_until{};        ///< posted up to here
  Instant frozen_until{};         ///< folded up to here: facts about earlier time come too late
  std::int32_t revision = 0;      ///< grows with each restatement
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
  std::int32_t slices = 0;  ///< compute slices of a MIG instance, which then count instead of milli
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
  bool ended = false;           ///< nothing more of it will be bound
  friend bool operator==(const AssignmentRow&, const AssignmentRow&) = default;
};

// ---- books ------------------------------------------------------------------------------------------------------

/// A stretch of one instance's life in which nothing changed: what one journal entry pays for.
struct SliceKey {
  InstanceId instance;
  Instant start;
  friend auto operator<=>(const SliceKey&, const SliceKey&) = default;
};
struct SliceRow {
  Instant end;
  Money cost;
  std::string node;         ///< the instance id where no node is known
  std::vector<Line> lines;  ///< by owner; they add up to cost
  std::int32_t revision = 0;
};
/// Same charge, whatever its revision.
[[nodiscard]] bool same_charge(const SliceRow& a, const SliceRow& b);

enum class Group : std::uint8_t { kTeam, kNamespace, kWorkload, kNode, kBill };
/// Sums of everything posted; in kBill the provider's bill for what is folded.
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

/// What may be spent in each period, by whom: one of the three is set.
struct Budget {
  std::string name;
  std::string cluster_queue, ns, team;
  BudgetUnit unit = BudgetUnit::kGpuMillis;
  std::int64_t amount = 0;
  BudgetPeriod period = BudgetPeriod::kMonth;
  Duration utc_offset{0};
  std::int32_t carry_permille = 0;
  bool soft = false;
  Duration default_run = std::chrono::hours(1);
  friend bool operator==(const Budget&, const Budget&) = default;
};
struct Allotment {
  Instant to;
  std::int64_t amount = 0;
  std::int32_t carry_permille = 0;
  friend bool operator==(const Allotment&, const Allotment&) = default;
};
/// What an hour of one GPU is held at: the dearest that the plan says of such machines.
struct HoldPrice {
  std::string instance_type, gpu_product;
  std::int64_t nano_usd_gpu_hour = 0;
  friend auto operator<=>(const HoldPrice&, const HoldPrice&) = default;
};
/// What is told of a budget: the present allotment and the next.
struct BudgetRow {
  Budget budget;
  std::uint64_t sequence = 0;  ///< grows with each change; goes on when a budget of that name comes back
  std::map<Instant, Allotment> periods;
  std::vector<HoldPrice> prices;  ///< where dollars are counted
  bool withdrawn = false;
  friend bool operator==(const BudgetRow&, const BudgetRow&) = default;
};
/// What an attempt cost, as posted.
struct SpentRow {
  Amount amount;
  bool final = false;  ///< it has ended, and everything is posted
  friend bool operator==(const SpentRow&, const SpentRow&) = default;
};

struct Meta {
  Instant now{};
  Instant horizon{};               ///< everything that ended before is folded
  std::uint64_t entries = 0;       ///< journal entries, reversals included
  std::uint64_t restatements = 0;  ///< entries reversed
  std::uint64_t late = 0;          ///< facts about folded time, dropped
  friend bool operator==(const Meta&, const Meta&) = default;
};

struct State {
  Table<InstanceId, InstanceRow> instances;
  Table<SpotPool, SpotRow> spot;
  Table<NodeKey, NodeRow> nodes;
  Table<AttemptId, AssignmentRow> assignments;
  Table<Instant, PricePlan> plans;   ///< by the instant from which they hold
  Table<SliceKey, SliceRow> slices;  ///< posted, and young enough to be restated
  Table<TotalKey, Amount> totals;
  Table<AccountKey, Amount> accounts;  ///< ledger balances, debit positive
  Table<std::string, BudgetRow> budgets;
  Table<AttemptId, SpentRow> spent;  ///< of attempts whose assignment is kept
  Table<int, Meta> meta;             ///< one row, key 0
};

// ---- calendar (UTC) ---------------------------------------------------------------------------------------------

[[nodiscard]] std::string period_of(Instant t);  ///< "2026-11"
[[nodiscard]] Result<Instant> period_start(std::string_view period);
[[nodiscard]] Instant next_period(Instant t);  ///< first instant of the month after t's
[[nodiscard]] Instant next_hour(Instant t);    ///< first whole hour after t
/// The period of a budget that t lies in, where the calendar is so far ahead of UTC: its beginning, and the next one's.
[[nodiscard]] std::pair<Instant, Instant> period_around(Instant t, BudgetPeriod period, Duration utc_offset);

}  // namespace qm::cost
