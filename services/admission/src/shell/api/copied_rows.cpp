#include "qm/admission/api/copied_rows.hpp"

#include "qm/admission/codec.hpp"
#include "qm/admission/queries/queues.hpp"

#include <set>
#include <span>

namespace qm::admission {
namespace {

/// Rows copied and rows examined in one slice; copying that many takes less than a millisecond.
constexpr int kRows = 100, kLook = 400;
/// The same for objects and run times, which are larger.
constexpr int kObjects = 8, kKinds = 40;

template <class Key, class Row>
auto after(const Table<Key, Row>& table, const Key& key) {
  return table.rows().upper_bound(key);
}

auto after(const WorkloadTable& table, const WorkloadUid& key) { return table.upper_bound(key); }

template <auto Member>
using KeyOf = std::decay_t<decltype((std::declval<Tables>().*Member).begin()->first)>;
template <auto Member>
using RowOf = std::decay_t<decltype((std::declval<Tables>().*Member).begin()->second)>;

/// Storage for one copied row. For a workload it also reserves the memory that the copy does not share
/// with the original.
template <class Row>
void prepare(std::optional<Row>& place) {
  place.reset();
}
void prepare(std::optional<Workload>& place) {
  constexpr std::size_t kName = 63;  // longer names are rare: a label value has at most 63 characters
  place.emplace().spec.name.reserve(kName);
}

/// Copies the matching rows of one table. The calling thread allocates and frees the memory. If the slices
/// on the engine's thread did, its allocator would have to consolidate blocks that other threads freed, for
/// tens of milliseconds.
template <auto Member, class Wanted>
class Of final : public RowsCopy::Part {
 public:
  Of(int most, Wanted wanted) : wanted_(std::move(wanted)), places_(static_cast<std::size_t>(most)) {
    for (auto& [key, row] : places_) prepare(row);
  }
  bool slice(const Engine& engine) override {
    const auto& from = engine.tables().*Member;
    auto it = last_ ? after(from, *last_) : from.begin();
    for (int seen = 0; it != from.end() && used_ < places_.size() && seen < kLook; ++it, ++seen) {
      last_ = it->first;
      if (wanted_(it->second)) {
        places_[used_].key = it->first;
        places_[used_++].row = it->second;
      }
    }
    return it != from.end();
  }
  void put(CopiedRows& into) override {
    for (auto& [key, row] : std::span(places_).first(std::exchange(used_, 0))) {
      (into.rows.*Member).restore(key, std::move(*row));
      prepare(row);
    }
  }

 private:
  Wanted wanted_;
  std::optional<KeyOf<Member>> last_;
  struct Place {
    KeyOf<Member> key{};
    std::optional<RowOf<Member>> row;
  };
  std::vector<Place> places_;  ///< the rows of the latest slice are at the front
  std::size_t used_ = 0;
};

template <auto Member, class Wanted>
std::unique_ptr<RowsCopy::Part> part(int most, Wanted wanted) {
  return std::make_unique<Of<Member, Wanted>>(most, std::move(wanted));
}

template <auto Member>
std::unique_ptr<RowsCopy::Part> part(int most = kObjects) {
  return part<Member>(most, [](const auto&) { return true; });
}

/// A part that is not a table: a query that runs once.
template <class Ask>
class Once final : public RowsCopy::Part {
 public:
  explicit Once(Ask ask) : ask_(std::move(ask)) {}
  bool slice(const Engine& engine) override {
    ask_(engine);
    return false;
  }
  void put(CopiedRows& /*into*/) override {}

 private:
  Ask ask_;
};

}  // namespace

void RowsCopy::add_objects() {
  parts_.push_back(part<&Tables::cluster_queues>());
  parts_.push_back(part<&Tables::local_queues>());
  parts_.push_back(part<&Tables::local_usage>());
  parts_.push_back(part<&Tables::cohorts>());
  parts_.push_back(part<&Tables::flavors>());
  parts_.push_back(part<&Tables::priority_classes>());
  parts_.push_back(part<&Tables::namespaces>());
  parts_.push_back(part<&Tables::admission_checks>());
  parts_.push_back(part<&Tables::topologies>());
  parts_.push_back(part<&Tables::nodes>());
  parts_.push_back(part<&Tables::budgets>());
  parts_.push_back(part<&Tables::holds>());
}

RowsCopy::RowsCopy() {
  add_objects();
  parts_.push_back(part<&Tables::workloads>(kRows, [](const Workload& w) { return !w.ended(); }));
}

std::shared_ptr<std::set<QueueName>> RowsCopy::add_tree_of(const WorkloadUid& uid) {
  auto tree = std::make_shared<std::set<QueueName>>();
  const auto find_tree = [uid, tree](const Engine& engine) {
    if (const auto* w = engine.find(uid)) *tree = queues_of_tree(engine.state(), w->cluster_queue);
  };
  parts_.push_back(std::make_unique<Once<decltype(find_tree)>>(find_tree));
  return tree;
}

RowsCopy::RowsCopy(const WorkloadUid& uid) {
  add_objects();
  parts_.push_back(part<&Tables::workloads>(kRows, [tree = add_tree_of(uid)](const Workload& w) {
    return !w.ended() && (tree->contains(w.cluster_queue) || !w.nodes().empty());
  }));
}

RowsCopy::RowsCopy(const WorkloadUid& uid, Instant since) {
  add_objects();
  const auto tree = add_tree_of(uid);
  parts_.push_back(part<&Tables::corrections>());
  parts_.push_back(part<&Tables::run_times>(kKinds));
  parts_.push_back(part<&Tables::workloads>(kRows, [uid, tree, since](const Workload& w) {
    return tree->contains(w.cluster_queue) && (!w.ended() || w.spec.submitted >= since || w.spec.uid == uid);
  }));
}

bool RowsCopy::slice(const Engine& engine) {
  if (at_ == 0) out_.options = engine.options();
  filled_ = at_;
  if (!parts_[at_]->slice(engine)) ++at_;
  return at_ < parts_.size();
}

CopiedRows copied(RowsCopy copy, service::Host& host) {
  for (bool more = true; more; copy.put()) {
    host.read(
        [&](const service::Shell& shell) { more = copy.slice(static_cast<const AdmissionShell&>(shell).engine()); });
  }
  return std::move(copy).take();
}

}  // namespace qm::admission
