#pragma once
#include "qm/admission/exact/continuous.hpp"
#include "qm/admission/exact/forest.hpp"
#include "qm/admission/exact/names.hpp"
#include "qm/admission/exact/unlocks.hpp"
#include "qm/admission/workload.hpp"
#include "qm/base/lookup.hpp"

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace qm::admission {

/// How the usage of local queues is remembered (Kueue's admissionFairSharing).
struct UsageMemory {
  Duration half_life = std::chrono::hours(168);  ///< zero: queues that would go by usage go by priority and age
  Duration sampling = std::chrono::minutes(5);
  std::map<std::string, double> weights;  ///< of one unit of a resource; 1 where none is given
};

/// By which rules it is decided who runs.
struct Rules {
  bool exact = false;         ///< in cycles, as Kueue decides; else continuously
  bool fair_sharing = false;  ///< by shares: of admissions, and of who gives way to whom
  /// A workload that was displaced may displace those who displaced it once this has passed and something came from outside.
  Duration rest = std::chrono::minutes(10);
  int cheaper_within = 20;  ///< searches for victims that lose less, for each displacement; not in cycles
  UsageMemory usage;
  Duration restart = std::chrono::minutes(2);  ///< that a displaced workload is taken to need until it is where it was
};

/// One reason why a flavor was not taken, with numbers.
struct Shortfall {
  enum class Kind : std::uint8_t {
    kNotCovered,      ///< the queue has no quota for the resource
    kFlavorMissing,   ///< the queue names a flavor that does not exist
    kTaint,           ///< the flavor's nodes refuse the pods
    kSelector,        ///< the pods ask for other nodes
    kNeverFits,       ///< more than the queue could hold if it were alone
    kBorrowingLimit,  ///< the cohort has it, and the queue may not borrow so much
    kQuota,           ///< not enough left now
    kCapability,      ///< in a pool: the queue may not have so much
    kShare,           ///< in a pool: the others' weights leave the queue so much for now
    kPool,            ///< in a pool: others have it
  };
  Kind kind = Kind::kQuota;
  std::string pod_set;
  FlavorName flavor;
  std::string resource;
  std::int64_t requested = 0, available = 0;
  std::string detail;
};

/// A change that, alone, lets a waiting workload in: tried on the trees as they are.
struct Unlock {
  exact::Unlock::Kind kind = exact::Unlock::Kind::kQuota;
  Usage more;                      ///< nominal quota of its queue, or what that may borrow
  std::int32_t priority = 0;       ///< the least that will do
  std::vector<WorkloadUid> works;  ///< who gives way then, or who has to end
  FlavorName flavor;               ///< that would take it, were it not for
  std::string taint, label;        ///< one of these
  std::string pod_set;             ///< of which fewer
  std::int32_t pods = 0;           ///< would do: so many
};

struct Assignment {
  Shared<Flavors> flavors;
  Shared<Usage> usage;
  Shared<Counts> counts;
};

/// What all pods of a workload ask of quota, by resource; zero requests are left out.
[[nodiscard]] std::map<std::string, std::int64_t> requests_of(const WorkloadSpec& spec);

/// Between the rows, which speak in names, and the rules, which know numbers: all quota trees, with who waits in them, has a claim,
/// or holds their quota.
///
/// It is an index of the engine and can be made afresh from the rows at any time. What is decided continuously follows from the
/// rows alone; in cycles also from how far the search through the flavors came, and who was found inadmissible.
///
/// Units    CPU and GPU in thousandths, memory in bytes, all else in units.
/// Threads  one.
/// Cost     put: O(log workloads), and for who begins to wait what the rules say; build: all of it.
class Decisions {
 public:
  explicit Decisions(Rules rules = {});
  ~Decisions();
  Decisions(Decisions&&) noexcept;
  Decisions& operator=(Decisions&&) noexcept;

  /// Forgets everybody and takes the objects. Idle queues admit nothing; those of a tree whose cohorts form a circle decide nothing.
  void build(const std::map<QueueName, ClusterQueue>& queues, const std::map<std::string, Cohort>& cohorts,
             const std::map<FlavorName, Flavor>& flavors, const std::map<LocalName, LocalQueue>& locals,
             const std::set<QueueName>& idle, Instant now);
  /// Who waits in a queue with ageing stands where its age has brought it by now; the trees in which somebody rose. Time does not go back.
  std::vector<int> age(Instant now, const std::function<const Workload&(const WorkloadUid&)>& row);
  /// What a local queue used, as it counts in the next decisions of its tree.
  void put_usage(const QueueName& queue, const LocalName& local, const LocalUsage& usage, std::int64_t weight_milli);
  /// The same as one number, weighted.
  [[nodiscard]] double weigh(const LocalUsage& usage, std::int64_t weight_milli) const;
  /// The local queue that it came by; where it names none, the only one of its namespace.
  [[nodiscard]] LocalName local_of(const Workload& w) const;
  /// Whether the queue lets the local queue go first that used least.
  [[nodiscard]] bool any_by_usage() const { return !by_usage_.empty(); }
  [[nodiscard]] bool by_usage(const QueueName& queue) const { return by_usage_.contains(queue); }
  /// Who displaced it: comes for all workloads before put() does.
  void recall(const Workload& w);
  /// Where the workload stands now: waits, claims, holds, is leaving, or none of these.
  void put(const Workload& w);
  /// It goes on with less, as some of its pods have ended.
  void shrink(const Workload& w);
  /// It is no longer known.
  void drop(const WorkloadUid& uid);

  /// Whether batches can be taken back row by row: for each changed row take_out(), then recall() and put() with the row as it was,
  /// then look_again() for the trees of both. Otherwise all has to be built again.
  [[nodiscard]] bool reversible() const {
    return !rules_.exact && pools_.empty() && by_usage_.empty() && ageing_.empty();
  }
  /// The workload stands nowhere until put() comes, and nobody displaced it.
  void take_out(const Workload& w);
  /// It is about to ask for something else: it stands nowhere until put() comes.
  void reshape(const WorkloadUid& uid);
  /// What the tree found out before counts no more.
  void look_again(int tree);

  struct Made {
    struct Claimed {
      WorkloadUid uid;
      Claim claim;
    };
    struct Displaced {
      WorkloadUid victim, by;
      std::string_view reason;
    };
    struct Admitted {
      WorkloadUid uid;
      Assignment assignment;  ///< of one that had a claim: nothing, as the row has it
    };
    std::vector<WorkloadUid> unclaimed;  ///< their victims are gone, and it still does not fit
    std::vector<Displaced> displaced;
    std::vector<Claimed> claimed;
    std::vector<Admitted> admitted;
  };
  /// Decides one tree. Everybody in it stands as was decided from then on.
  [[nodiscard]] Made decide(int tree, Instant now);
  /// Something came from outside into the queue's tree.
  void stir(const QueueName& queue, Instant now);
  /// Whose displacers are others now, since this was asked last.
  [[nodiscard]] std::vector<std::pair<WorkloadUid, Displacers>> take_displacers();

  /// One told another to go, by no search of these rules: what follows from it holds as if it were. False, and nothing was done, where
  /// they do not stand in one tree or that would close a circle.
  bool displace(const WorkloadUid& by, const WorkloadUid& victim, Instant now);
  [[nodiscard]] bool may_displace(const WorkloadUid& by, const WorkloadUid& victim) const;

  /// A number for the tree that the queue stands in; queues of one number share quota. -1 where it decides nothing.
  [[nodiscard]] int tree_of(const QueueName& queue) const;
  [[nodiscard]] bool in_circle(const QueueName& queue) const { return circles_.contains(queue); }
  /// Why a pool has no place for the queue, or a queue none in a pool; empty where that is not so.
  [[nodiscard]] std::string_view poolless(const QueueName& queue) const;
  /// What a queue of a pool has and deserves now, by resource; nothing for others.
  struct Standing {
    std::map<std::string, std::int64_t> used, deserved;
    double dominant_share = 0;  ///< of the pool, of the resource of which it has most
  };
  [[nodiscard]] std::optional<Standing> standing(const QueueName& queue) const;
  /// Trees in which somebody's waiting time came to its end between two instants; and when that is so next after one.
  [[nodiscard]] std::vector<int> overdue(Instant after, Instant now) const;
  [[nodiscard]] std::optional<Instant> alarm(Instant after) const;
  /// What the workloads of a queue hold, claims left out; nothing where its tree has no such quota.
  [[nodiscard]] std::optional<std::int64_t> used(const QueueName& queue, const FlavorResource& at) const;
  /// Whether the queue uses more than its nominal quota and what the others lend: its quota, or theirs, has become less.
  [[nodiscard]] bool beyond(const QueueName& queue) const;
  /// Who has to go until none of their queues is beyond: of these holders in one tree, the first before the others, and nobody who
  /// could stay. `leaving` are gone by then.
  [[nodiscard]] std::vector<const Workload*> surplus(int tree, const std::vector<const Workload*>& leaving,
                                                     const std::vector<const Workload*>& in_order) const;
  /// Whether a pod set cannot have the flavor that is meant for it, whatever the quota.
  [[nodiscard]] bool refuses(const Spec& spec, const Flavors& flavors) const;
  /// What is in the way of one that waits; nothing where it fits.
  [[nodiscard]] std::vector<Shortfall> shortfalls(const Workload& w) const;
  /// What is in the way of one that runs and needs so much more of the flavors that it has; nothing where that is free.
  [[nodiscard]] std::vector<Shortfall> growth_shortfalls(const Workload& w, const Usage& more) const;
  /// What would let one in that waits; nothing where it fits.
  [[nodiscard]] std::vector<Unlock> unlocks(const Workload& w) const;
  /// Whether it would fit if those were gone that are leaving; and who they are.
  [[nodiscard]] std::vector<WorkloadUid> awaited(const Workload& w) const;

  /// When each of those starts at the earliest, one after the other, so that it moves nobody before it; nothing where that is beyond a
  /// week, or where it can never.
  [[nodiscard]] std::vector<std::optional<Instant>> reserved(const std::vector<const Workload*>& in_order,
                                                             Instant now) const;
  /// For playing futures (decision_scene.cpp): the queue's tree with nobody in it; nothing where that is a pool, or decides nothing.
  [[nodiscard]] std::optional<exact::Field> stage(const QueueName& queue) const;
  /// The workload as its tree sees it, where `id` is the caller's; and what it claims.
  struct Figure {
    exact::Work work;
    exact::Amounts claimed;
  };
  [[nodiscard]] std::optional<Figure> figure(const Workload& w, int id) const;
  [[nodiscard]] bool pooled(const QueueName& queue) const { return sharing_of(queue) != nullptr; }

  /// Whether both know the same: who stands where, what is used, and who displaced whom.
  friend bool operator==(const Decisions& a, const Decisions& b);

 private:
  class Tree;
  class Flowing;
  class Cycling;
  class Sharing;
  struct Pattern {
    int shape = 0;
    std::vector<exact::PodSet> pod_sets;
    /// What the last one of it got, in names: mostly that is what the next one gets.
    struct Made {
      int tree = -1;
      std::vector<exact::Assignment::Set> sets;
      exact::Amounts usage;
      Assignment named;
    };
    mutable Made last;
  };
  enum class At : std::uint8_t { kNowhere, kWaiting, kClaiming, kHolding, kLeaving };
  struct Seat {
    int id = -1;
    At at = At::kNowhere;
    int tree = -1;
    int bound = -1;  ///< the tree in which it is or was, while that may have displacements of it
    exact::Node node = 0;
    std::int32_t priority = 0;
    Instant since{};
    const Pattern* pattern = nullptr;
    std::int64_t raise = 0;  ///< of its priority, by its age
    bool overdue = false;
    std::optional<Instant> ages;  ///< when one of both changes; only while it waits
  };
  struct HashUid {
    using is_transparent = void;
    std::size_t operator()(const WorkloadUid& uid) const noexcept { return std::hash<WorkloadUid>{}(uid); }
  };
  struct SameUid {
    using is_transparent = void;
    bool operator()(const WorkloadUid& a, const WorkloadUid& b) const noexcept { return a == b; }
  };

  [[nodiscard]] At at_of(const Workload& w) const;
  void enter(const Workload& w, Seat& seat);
  [[nodiscard]] const Pattern* pattern_of(const Spec& spec) const;
  void reckon_age(const Workload& w, Seat& seat);
  void forget_age(const WorkloadUid& uid, Seat& seat);
  [[nodiscard]] std::optional<exact::Refusal> refusal(const Flavor& flavor, exact::Flavor id,
                                                      const PodShape& shape) const;
  [[nodiscard]] exact::Work work_of(const Workload& w, const Seat& seat) const;
  [[nodiscard]] exact::Stake stake_of(const Workload& w) const;
  [[nodiscard]] exact::Amounts amounts_of(int tree, const Usage& usage) const;
  [[nodiscard]] Usage usage_of(int tree, const exact::Amounts& amounts) const;
  [[nodiscard]] Assignment assignment_of(int tree, const Seat& seat, const exact::Assignment& made) const;
  /// The workload as its tree sees it, also where nobody has asked for it yet; nothing where its queue has no tree.
  [[nodiscard]] std::optional<std::pair<exact::Field*, exact::Work>> seen(const Workload& w) const;
  [[nodiscard]] const Uid& uid_of(int id) const { return *uids_.find(id); }
  int number(const Uid& uid, int bound = -1);
  [[nodiscard]] std::unique_ptr<Tree> pool_of(int tree, const std::map<QueueName, ClusterQueue>& queues,
                                              const Cohort& cohort, exact::Field field);
  [[nodiscard]] const Sharing* sharing_of(const QueueName& queue) const;
  [[nodiscard]] std::vector<Shortfall> pool_shortfalls(int tree, const Sharing& pool, const exact::Work& work) const;

  Rules rules_;
  [[nodiscard]] exact::UsageShares shares() const;
  void weigh(exact::UsageShares& shares, int id, const LocalUsage& usage, std::int64_t weight_milli) const;
  [[nodiscard]] int number(const LocalName& local) const;

  exact::Names flavors_;
  mutable exact::Names resources_;
  mutable exact::Names local_queues_;  ///< of queues that go by usage
  std::set<QueueName> by_usage_;
  std::map<Namespace, std::string> only_local_;  ///< of namespaces with one local queue
  std::map<FlavorName, Flavor> specs_;
  std::vector<std::unique_ptr<Tree>> trees_;
  struct Position {
    int tree = -1;
    exact::Node node = 0;
  };
  std::map<QueueName, Position> queues_;
  std::set<QueueName> circles_;
  std::map<QueueName, std::string> poolless_;
  std::vector<int> pools_;                                    ///< the trees that are pools
  std::vector<std::map<FlavorResource, exact::Cell>> cells_;  ///< by tree
  std::vector<std::vector<FlavorResource>> names_;            ///< by tree and cell
  /// By the pod sets, and whether some of them may start alone; so that the text is made once.
  mutable std::map<std::pair<Shared<std::vector<PodSet>>, bool>, const Pattern*> known_patterns_;
  mutable std::map<std::string, Pattern> patterns_;  ///< by what the pods ask for; made when it is first asked about
  Lookup<Uid, Seat, HashUid, SameUid> seats_;
  /// By number, in pages: no number is given twice, and those who came together mostly go together.
  class Uids {
   public:
    void put(int id, const Uid& uid);
    void erase(int id);
    [[nodiscard]] const Uid* find(int id) const;

   private:
    static constexpr int kPage = 64;
    struct Page {
      std::array<Uid, kPage> uids;
      std::uint64_t used = 0;  ///< a bit for each
    };
    std::map<int, Page> pages_;
  };
  Uids uids_;
  std::map<int, exact::Stake> stakes_;  ///< of those who hold quota
  std::map<QueueName, forecast::Ageing> ageing_;
  std::set<std::pair<Instant, WorkloadUid>> ages_;  ///< as the seats have it
  Instant aged_{};                                  ///< ages are as of then
  int next_ = 0;
};

}  // namespace qm::admission
