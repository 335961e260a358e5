// Gangs with a topology request: the nodes become a fleet of the gang library, and its answer becomes
// members.
#include "qm/placement/together.hpp"

#include "engine/asked_gang.hpp"
#include "qm/base/assert.hpp"
#include "qm/placement/preference.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace qm::placement {
namespace {

/// A node that fits fewer pods than the library counts, for resources that it does not know, is excluded;
/// maximum number of such rounds.
constexpr int kMostRounds = 32;
constexpr std::int64_t kWholeNode = std::int64_t{1} << 40;

std::vector<PodSet> without_topology(std::vector<PodSet> pod_sets) {
  for (PodSet& set : pod_sets) set.topology = {};
  return pod_sets;
}

class Question {
 public:
  Question(const std::vector<PodSet>& pod_sets, const Rooms& rooms, const Preference& preference,
           const TopologyLevels& levels, const Neighbourhood* beside)
      : asked_(pod_sets, levels), fleet_(levels, preference.policy()) {
    for (const auto& [name, room] : rooms) {
      auto state = preference.state_of(room);
      if (beside != nullptr && pod_sets.size() == 1)
        state.pods = static_cast<std::int32_t>(std::min<std::int64_t>(state.pods, beside->most(0, name)));
      const auto node = fleet_.add(asked_.path(name, room), name.value(), state);
      names_.push_back(&name);
      fleet_.put_behind(node, asked_.gate(name, room, beside));
    }
  }

  /// Translates the gang for the library; fails if it names an unknown level.
  Status read() { return asked_.read(fleet_.tree()); }
  [[nodiscard]] gang::Answer ask() { return gang::place(fleet_, asked_.request()).value(); }
  void leave_out(gang::NodeId node) { fleet_.remove(node); }

  [[nodiscard]] const gang::Tree& tree() const { return fleet_.tree(); }
  [[nodiscard]] const NodeName& name(gang::NodeId node) const { return *names_[node]; }
  [[nodiscard]] std::size_t position(std::int32_t set) const { return asked_.position(set); }
  [[nodiscard]] const std::vector<std::size_t>& positions(std::int32_t group) const { return asked_.positions(group); }
  [[nodiscard]] std::string level_name(gang::Level level) const {
    if (level == gang::kFleet) return "fleet";
    return level == tree().depth() ? std::string(kHostname) : tree().name(level);
  }

 private:
  AskedGang asked_;
  gang::Fleet fleet_;
  std::vector<const NodeName*> names_;  // by number
};

Placed short_of(const Question& question, const std::vector<PodSet>& pod_sets, const gang::Answer& answer) {
  std::int64_t pods = 0;
  for (const PodSet& set : pod_sets) pods += least_of(set);
  return {std::nullopt,
          {fmt::format("{} pods find room, but not as {} as they ask: {}", pods,
                       wants_to_be_alone(pod_sets) ? "near together and alone" : "near together",
                       gang::explain(question.tree(), answer))}};
}

}  // namespace

bool asks_topology(const std::vector<PodSet>& pod_sets) {
  return std::ranges::any_of(pod_sets, [](const PodSet& set) { return !set.topology.none(); });
}

Placed place_together(const std::vector<PodSet>& pod_sets, Rooms& rooms, const Preference& preference,
                      const TopologyLevels& levels, Neighbourhood* beside, Wanted wanted) {
  Question question(pod_sets, rooms, preference, levels, beside);
  if (const auto read = question.read(); !read) {
    return {std::nullopt, {fmt::format("{}; {}", read.error().message, read.error().remedy)}};
  }
  for (int round = 0; round < kMostRounds; ++round) {
    const auto answer = question.ask();
    if (!answer.placed()) {
      if (wanted != Wanted::kReason) return {};
      Rooms tried = rooms;
      auto anywhere = place_gang(without_topology(pod_sets), tried, preference, beside);
      return anywhere.plan ? short_of(question, pod_sets, answer) : std::move(anywhere);
    }
    Plan plan;
    std::map<NodeName, Room> used;
    std::map<gang::NodeId, std::int64_t> part;  // used fraction of each node's limit by `beside`
    std::optional<gang::NodeId> full;
    for (const auto& [set, rank, node, device] : answer.members) {
      const auto position = question.position(set);
      const NodeName& name = question.name(node);
      Room& room = used.try_emplace(name, rooms.at(name)).first->second;
      const auto most = beside == nullptr ? kAnyNumber : beside->most(position, name);
      if (most < kAnyNumber) part[node] += kWholeNode / std::max<std::int64_t>(most, 1);
      if (most < 1 || part[node] > kWholeNode || pods_that_fit(room, pod_sets[position].shape) == 0) {
        full = node;
        break;
      }
      Member member;
      member.set = static_cast<std::int32_t>(position);
      member.index = rank;
      member.node = name;
      member.devices = preference.take(room, name, pod_sets[position].shape);
      plan.members.push_back(std::move(member));
    }
    if (full) {
      question.leave_out(*full);
      continue;
    }
    std::ranges::sort(plan.members, [](const Member& a, const Member& b) {
      return std::tie(a.set, a.index) < std::tie(b.set, b.index);
    });
    for (const Member& member : plan.members) {
      if (beside == nullptr) break;
      const auto set = static_cast<std::size_t>(member.set);
      if (const auto why = beside->rejects(set, member.node, rooms.at(member.node)); !why.empty()) {
        return {std::nullopt,
                {fmt::format("near together, pod {} of {} would go to node {}: it {}", member.index, pod_sets[set].name,
                             member.node, why)}};
      }
      beside->take(set, member.node);
    }
    if (wanted == Wanted::kWhether) return {Plan{}, {}};
    for (auto& [name, room] : used) rooms[name] = std::move(room);
    return {std::move(plan), {}};
  }
  return {std::nullopt, {fmt::format("{} searches found nodes that lack another resource", kMostRounds)}};
}

Obstacles obstacles_together(const std::vector<PodSet>& pod_sets, const Rooms& rooms, const Preference& preference,
                             const TopologyLevels& levels) {
  Question question(pod_sets, rooms, preference, levels, nullptr);
  Obstacles out;
  if (const auto read = question.read(); !read) {
    out.conflict = {fmt::format("{}; {}", read.error().message, read.error().remedy)};
    return out;
  }
  const auto answer = question.ask();
  if (answer.placed()) return out;
  const auto set = answer.shortfall && answer.shortfall->set >= 0 ? question.position(answer.shortfall->set) : 0;
  out.pod_set = pod_sets[set].name;
  out.conflict = {gang::explain(question.tree(), {.exact = answer.exact, .shortfall = answer.shortfall})};
  for (const auto& [what, of, level, count] : answer.relaxations) {
    if (what == gang::Relaxation::What::kWider) {
      const auto& wider = question.level_name(level);
      const auto group = question.positions(of);
      out.ways.push_back(
          {fmt::format("with one {} instead of one {}", wider, pod_sets[group.front()].topology.required),
           [group, key = level == gang::kFleet ? std::string() : wider](Asked& changed) {
             for (const auto position : group) changed.pod_sets[position].topology.required = key;
           }});
    } else if (what == gang::Relaxation::What::kFewer) {
      const auto position = question.position(of);
      out.ways.push_back({fmt::format("with {} pods instead of {}", count, pod_sets[position].count),
                          [position, pods = count](Asked& changed) { changed.pod_sets[position].count = pods; }});
    }
  }
  return out;
}

}  // namespace qm::placement
