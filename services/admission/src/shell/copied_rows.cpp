#include "qm/admission/copied_rows.hpp"

#include "qm/admission/codec.hpp"

#include <set>

namespace qm::admission {
namespace {

/// So many rows take less than a millisecond; and looked at.
constexpr int kRows = 250, kLook = 1000;
/// Objects and run times are larger.
constexpr int kObjects = 20, kKinds = 100;

template <class Key, class Row>
auto after(const Table<Key, Row>& table, const Key& key) {
  return table.rows().upper_bound(key);
}

auto after(const WorkloadTable& table, const WorkloadUid& key) { return table.upper_bound(key); }

template <auto Member>
using KeyOf = std::decay_t<decltype((std::declval<Engine::Tables>().*Member).begin()->first)>;
template <auto Member>
using RowOf = std::decay_t<decltype((std::declval<Engine::Tables>().*Member).begin()->second)>;

/// Those rows of one table that are wanted.
template <auto Member, class Wanted>
class Of final : public RowsCopy::Part {
 public:
  Of(int most, Wanted wanted) : most_(static_cast<std::size_t>(most)), wanted_(std::move(wanted)) {}
  bool slice(const Engine& engine) override {
    const auto& from = engine.tables().*Member;
    auto it = last_ ? after(from, *last_) : from.begin();
    for (int seen = 0; it != from.end() && rows_.size() < most_ && seen < kLook; ++it, ++seen) {
      last_ = it->first;
      if (wanted_(it->second)) rows_.emplace_back(it->first, it->second);
    }
    return it != from.end();
  }
  void put(CopiedRows& into) override {
    for (auto& [key, row] : rows_) (into.rows.*Member).restore(key, std::move(row));
    rows_.clear();
  }

 private:
  std::size_t most_;
  Wanted wanted_;
  std::optional<KeyOf<Member>> last_;
  std::vector<std::pair<KeyOf<Member>, RowOf<Member>>> rows_;
};

template <auto Member, class Wanted>
std::unique_ptr<RowsCopy::Part> part(int most, Wanted wanted) {
  return std::make_unique<Of<Member, Wanted>>(most, std::move(wanted));
}

template <auto Member>
std::unique_ptr<RowsCopy::Part> part(int most = kObjects) {
  return part<Member>(most, [](const auto&) { return true; });
}

/// Not a table: what is asked once.
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

using Tables = Engine::Tables;

void RowsCopy::add_objects() {
  parts_.push_back(part<&Tables::cluster_queues>());
  parts_.push_back(part<&Tables::local_queues>());
  parts_.push_back(part<&Tables::local_usage>());
  parts_.push_back(part<&Tables::cohorts>());
  parts_.push_back(part<&Tables::flavors>());
  parts_.push_back(part<&Tables::priority_classes>());
  parts_.push_back(part<&Tables::namespaces>());
  parts_.push_back(part<&Tables::admission_checks>());
  parts_.push_back(part<&Tables::budgets>());
  parts_.push_back(part<&Tables::holds>());
}

RowsCopy::RowsCopy() {
  add_objects();
  parts_.push_back(part<&Tables::workloads>(kRows, [](const Workload& w) { return !w.ended(); }));
}

RowsCopy::RowsCopy(const WorkloadUid& uid, Instant since) {
  add_objects();
  const auto tree = std::make_shared<std::set<QueueName>>();
  const auto find_tree = [uid, tree](const Engine& engine) {
    if (const auto* w = engine.find(uid)) *tree = engine.tree_of(w->cluster_queue);
  };
  parts_.push_back(std::make_unique<Once<decltype(find_tree)>>(find_tree));
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
