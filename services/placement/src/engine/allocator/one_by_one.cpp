#include "engine/allocator/one_by_one.hpp"

#include <algorithm>

namespace qm::placement {

OneByOne::OneByOne(const FreeCapacity& free_capacity, const std::map<NodeName, NodeCapacity>& used,
                   std::size_t position, const PodSet& set, const Preference& preference,
                   const InterPodConstraints& constraints)
    : set_(set),
      position_(position),
      constraints_(constraints),
      dynamic_(constraints.dynamic(position)),
      scores_(preference, set.shape) {
  Place order = 0;
  for (const auto& [name, capacity] : free_capacity) {
    const auto taken = used.empty() ? used.end() : used.find(name);
    auto node = look(name, taken == used.end() ? capacity : taken->second);
    if (!node) continue;
    node->order = order++;
    (taken == used.end() ? fresh_ : used_).push_back(*node);
  }
  std::ranges::sort(fresh_, std::less<>(), &Node::rank);
  for (Place place = 0; place < fresh_.size(); ++place) {
    if (dynamic_ == nullptr) {
      left_.insert(place);
      continue;
    }
    const auto number = fresh_[place].number;
    if (number >= place_of_.size()) place_of_.resize(number + std::size_t{1}, kNone);
    place_of_[number] = place;
  }
}

std::optional<OneByOne::Node> OneByOne::look(const NodeName& name, const NodeCapacity& capacity) {
  if (pods_that_fit(capacity, set_.shape) == 0 || !admitted(capacity, set_.shape)) return std::nullopt;
  if (!constraints_.suits(position_, name, capacity)) return std::nullopt;
  return Node{&name, dynamic_ == nullptr ? 0 : dynamic_->number(name, capacity), scores_.of(capacity),
              constraints_.has_data(position_, capacity), 0};
}

// Updates the open nodes.
void OneByOne::follow() {
  const rules::NodeSet& open = dynamic_->open(position_);
  seen_ ^= open;
  seen_.each([&](rules::NodeIndex number) {
    const Place place = number < place_of_.size() ? place_of_[number] : kNone;
    if (place != kNone) left_.put(place, open.contains(number));
  });
  seen_ = open;
}

const NodeName* OneByOne::next() {
  const std::vector<std::int64_t>* worth = nullptr;
  if (dynamic_ != nullptr) {
    follow();
    worth = dynamic_->worth(position_);
  }
  const auto score_of = [&](const Node& node) { return worth == nullptr ? 0 : (*worth)[node.number]; };
  const Node* best = nullptr;
  std::int64_t most = 0;
  for (const Node& node : used_) {
    if (dynamic_ != nullptr && !dynamic_->open(position_).contains(node.number)) continue;
    const auto value = score_of(node);
    if (best != nullptr && (value < most || (value == most && best->rank() < node.rank()))) continue;
    best = &node;
    most = value;
  }
  if (worth != nullptr) {
    left_.each([&](Place place) {
      const auto value = score_of(fresh_[place]);
      if (best != nullptr && value <= most) return;
      best = &fresh_[place];
      most = value;
    });
  } else if (best == nullptr) {
    if (const auto first = left_.first()) best = &fresh_[*first];
  }
  if (best == nullptr) return nullptr;
  chosen_ = *best;
  return chosen_.name;
}

void OneByOne::taken(const NodeCapacity& now) {
  const auto before = std::ranges::find(used_, chosen_.name, &Node::name);
  if (before != used_.end()) {
    used_.erase(before);
  } else {
    const auto place = std::ranges::lower_bound(fresh_, chosen_.rank(), std::less<>(), &Node::rank) - fresh_.begin();
    left_.erase(static_cast<Place>(place));
    if (dynamic_ != nullptr) place_of_[chosen_.number] = kNone;
  }
  if (auto node = look(*chosen_.name, now)) {
    node->order = chosen_.order;
    used_.push_back(*node);
  }
}

}  // namespace qm::placement
