#include "qm/admission/volcano/queues.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace qm::admission::volcano {
namespace {

constexpr std::string_view kRoot = "root";

}  // namespace

Result<Queues> Queues::plant(std::vector<Queue> queues, Resources total) {
  const auto resources = total.size();
  const auto is_root = [](const Queue& q) { return q.name == kRoot; };
  if (std::ranges::none_of(queues, is_root)) {
    Queue root;
    root.name = kRoot;
    root.capability.assign(resources, kUnlimited);
    queues.push_back(std::move(root));
  }
  std::map<std::string, std::size_t> by_name;
  for (std::size_t i = 0; i < queues.size(); ++i) {
    Queue& queue = queues[i];
    queue.capability.resize(resources, kUnlimited);
    queue.guarantee.resize(resources);
    queue.deserved.resize(resources);
    if (!by_name.emplace(queue.name, i).second) {
      return fail({Code::kInvalid, fmt::format("there are two queues {}", queue.name), "metadata.name", "keep one"});
    }
  }
  const auto parent_of = [&](const Queue& queue) { return queue.parent.empty() ? std::string(kRoot) : queue.parent; };
  // Ordered by depth. A path to the root that is longer than the number of queues is a cycle.
  std::vector<std::tuple<std::size_t, std::string, std::size_t>> order;
  for (std::size_t i = 0; i < queues.size(); ++i) {
    std::size_t depth = 0;
    for (auto up = i; !is_root(queues[up]); ++depth) {
      const auto parent = by_name.find(parent_of(queues[up]));
      if (parent == by_name.end()) {
        return fail({Code::kInvalid,
                     fmt::format("the parent {} of queue {} does not exist", queues[up].parent, queues[up].name),
                     "spec.parent", "apply the parent, or remove the field"});
      }
      if (depth > queues.size()) {
        return fail({Code::kInvalid, fmt::format("queue {} is below itself", queues[i].name), "spec.parent",
                     "remove one of the parents"});
      }
      up = parent->second;
    }
    order.emplace_back(depth, queues[i].name, i);
  }
  std::ranges::sort(order);

  Queues out;
  out.total_ = std::move(total);
  out.children_.resize(queues.size());
  out.use_.assign(queues.size(), Use{Resources(resources), Resources(resources), Resources(resources)});
  std::map<std::string, QueueId> ids;
  for (const auto& [depth, name, i] : order) {
    const QueueId id = out.size();
    ids[name] = id;
    out.parents_.push_back(id == 0 ? -1 : ids.at(parent_of(queues[i])));
    if (id != 0) out.children_[at(out.parents_.back())].push_back(id);
    out.queues_.push_back(std::move(queues[i]));
  }
  return out;
}

std::optional<QueueId> Queues::find(std::string_view name) const {
  const auto found = std::ranges::find(queues_, name, &Queue::name);
  if (found == queues_.end()) return std::nullopt;
  return static_cast<QueueId>(found - queues_.begin());
}

std::vector<QueueId> Queues::leaves() const {
  std::vector<QueueId> out;
  for (QueueId q = 0; q < size(); ++q) {
    if (is_leaf(q)) out.push_back(q);
  }
  return out;
}

std::vector<QueueId> Queues::ancestors(QueueId q) const {
  std::vector<QueueId> out;
  for (auto up = parents_[at(q)]; up >= 0; up = parents_[at(up)]) out.push_back(up);
  std::ranges::reverse(out);
  return out;
}

std::optional<QueueId> Queues::ancestor(QueueId q, int steps) const {
  for (; steps > 0 && q > 0; --steps) q = parents_[at(q)];
  return q > 0 ? std::optional(q) : std::nullopt;
}

int Queues::common(QueueId a, QueueId b) const {
  const auto left = ancestors(a), right = ancestors(b);
  const auto parts = std::ranges::mismatch(left, right);
  return static_cast<int>(parts.in1 - left.begin());
}

void Queues::change(QueueId leaf, Resources Use::*what, const Resources& amounts,
                    void (*how)(Resources&, const Resources&)) {
  for (auto q = leaf; q >= 0; q = parents_[at(q)]) how(use_[at(q)].*what, amounts);
}

}  // namespace qm::admission::volcano
