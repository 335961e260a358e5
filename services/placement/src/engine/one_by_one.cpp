#include "engine/one_by_one.hpp"

#include <algorithm>

namespace qm::placement {

OneByOne::OneByOne(const Rooms& rooms, const std::map<NodeName, Room>& used, std::size_t position, const PodSet& set,
                   const Preference& preference, const Neighbourhood& beside)
    : set_(set),
      position_(position),
      beside_(beside),
      shifting_(beside.shifting(position)),
      scores_(preference, set.shape) {
  Place order = 0;
  for (const auto& [name, room] : rooms) {
    const auto taken = used.empty() ? used.end() : used.find(name);
    auto node = look(name, taken == used.end() ? room : taken->second);
    if (!node) continue;
    node->order = order++;
    (taken == used.end() ? fresh_ : used_).push_back(*node);
  }
  std::ranges::sort(fresh_, std::less<>(), &Node::rank);
  for (Place place = 0; place < fresh_.size(); ++place) {
    if (shifting_ == nullptr) {
      left_.insert(place);
      continue;
    }
    const auto number = fresh_[place].number;
    if (number >= place_of_.size()) place_of_.resize(number + std::size_t{1}, kNone);
    place_of_[number] = place;
  }
}

std::optional<OneByOne::Node> OneByOne::look(const NodeName& name, const Room& room) {
  if (pods_that_fit(room, set_.shape) == 0 || !admitted(room, set_.shape)) return std::nullopt;
  if (!beside_.suits(position_, name, room)) return std::nullopt;
  return Node{&name, shifting_ == nullptr ? 0 : shifting_->number(name, room), scores_.of(room),
              beside_.has_data(position_, room), 0};
}

// Updates the open nodes.
void OneByOne::follow() {
  const rules::NodeSet& open = shifting_->open(position_);
  seen_ ^= open;
  seen_.each([&](rules::NodeIndex number) {
    const Place place = number < place_of_.size() ? place_of_[number] : kNone;
    if (place != kNone) left_.put(place, open.contains(number));
  });
  seen_ = open;
}

const NodeName* OneByOne::next() {
  const std::vector<std::int64_t>* worth = nullptr;
  if (shifting_ != nullptr) {
    follow();
    worth = shifting_->worth(position_);
  }
  const auto worth_of = [&](const Node& node) { return worth == nullptr ? 0 : (*worth)[node.number]; };
  const Node* best = nullptr;
  std::int64_t most = 0;
  for (const Node& node : used_) {
    if (shifting_ != nullptr && !shifting_->open(position_).contains(node.number)) continue;
    const auto value = worth_of(node);
    if (best != nullptr && (value < most || (value == most && best->rank() < node.rank()))) continue;
    best = &node;
    most = value;
  }
  if (worth != nullptr) {
    left_.each([&](Place place) {
      const auto value = worth_of(fresh_[place]);
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

void OneByOne::taken(const Room& now) {
  const auto before = std::ranges::find(used_, chosen_.name, &Node::name);
  if (before != used_.end()) {
    used_.erase(before);
  } else {
    const auto place = std::ranges::lower_bound(fresh_, chosen_.rank(), std::less<>(), &Node::rank) - fresh_.begin();
    left_.erase(static_cast<Place>(place));
    if (shifting_ != nullptr) place_of_[chosen_.number] = kNone;
  }
  if (auto node = look(*chosen_.name, now)) {
    node->order = chosen_.order;
    used_.push_back(*node);
  }
}

}  // namespace qm::placement
