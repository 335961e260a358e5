// Gangs that ask for a topology: the rooms become a fleet of the gang library's, its answer becomes members.
#include "qm/placement/together.hpp"

#include "qm/base/assert.hpp"
#include "qm/placement/gang/request.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace qm::placement {
namespace {

/// Nodes on which less fits than the library counts, for resources that it does not know, are left out so often.
constexpr int kMostRounds = 32;

std::vector<PodSet> without_topology(std::vector<PodSet> pod_sets) {
  for (PodSet& set : pod_sets) set.topology = {};
  return pod_sets;
}

/// Whether it lets pods of the shape in, and has some of everything that only Kubernetes counts.
bool admits(const Room& room, const PodShape& shape) {
  for (const Filter* filter : filters()) {
    if (!filter->rejects(room, shape).empty()) return false;
  }
  return pods_that_fit(room, shape) > 0;
}

bool wants_to_be_alone(const std::vector<PodSet>& pod_sets) {
  return std::ranges::any_of(pod_sets, [](const PodSet& set) { return set.topology.exclusive; });
}

class Question {
 public:
  Question(const std::vector<PodSet>& pod_sets, const Rooms& rooms, const Preference& preference,
           const TopologyLevels& levels, const Neighbourhood* beside)
      : pod_sets_(pod_sets),
        rooms_(rooms),
        preference_(preference),
        levels_(levels),
        fleet_(levels, preference.policy()) {
    for (const auto& [name, room] : rooms) add(name, room, beside);
  }

  /// The gang in the library's words; fails where it names a level that there is not.
  Status read() {
    std::map<std::string, std::size_t> groups;
    for (std::size_t position = 0; position < pod_sets_.size(); ++position) {
      const PodSet& set = pod_sets_[position];
      const auto& asked = set.topology;
      auto& children = request_.gang.children;
      std::size_t child = children.size();
      if (!asked.group.empty()) child = groups.try_emplace(asked.group, child).first->second;
      if (child == children.size()) {
        auto& group = children.emplace_back();
        QM_ASSIGN(group.required, level(asked.required));
        QM_ASSIGN(group.preferred, level(asked.preferred));
        members_.emplace_back();
      }
      auto& made = children[child].sets.emplace_back();
      made.pod = class_of(set.shape);
      made.count = set.count;
      made.gates = gates_of(position);
      if (!asked.slice.empty()) {
        made.slices.size = asked.slice_size;
        QM_ASSIGN(made.slices.level, level(asked.slice));
      }
      members_[child].push_back(position);
    }
    for (const auto& positions : members_) order_.insert(order_.end(), positions.begin(), positions.end());
    return gang::check(request_, fleet_.tree());
  }

  [[nodiscard]] gang::Answer ask() { return gang::place(fleet_, request_).value(); }
  void leave_out(gang::NodeId node) { fleet_.remove(node); }

  [[nodiscard]] const gang::Tree& tree() const { return fleet_.tree(); }
  [[nodiscard]] const NodeName& name(gang::NodeId node) const { return *names_[node]; }
  /// Position of the set that the library has numbered so.
  [[nodiscard]] std::size_t position(std::int32_t set) const { return order_[static_cast<std::size_t>(set)]; }
  /// Positions of the sets of a group; its number is that of a child, from 1 on.
  [[nodiscard]] const std::vector<std::size_t>& positions(std::int32_t group) const {
    return members_[static_cast<std::size_t>(std::max(group, 1)) - 1];
  }
  [[nodiscard]] std::string level_name(gang::Level level) const {
    if (level == gang::kFleet) return "fleet";
    return level == tree().depth() ? std::string(kHostname) : tree().name(level);
  }

 private:
  void add(const NodeName& name, const Room& room, const Neighbourhood* beside) {
    std::vector<std::string> path;
    for (const std::string& key : levels_) {
      const auto label = room.facts->labels.find(key);
      // Without the label a node stands by itself.
      path.push_back(label == room.facts->labels.end() ? fmt::format("(node {})", name) : label->second);
    }
    const auto node = fleet_.add(path, name.value(), preference_.state_of(room));
    names_.push_back(&name);
    std::vector<bool> lets_in(pod_sets_.size());
    const bool alone = wants_to_be_alone(pod_sets_);
    for (std::size_t i = 0; i < pod_sets_.size(); ++i) {
      const auto& asked = pod_sets_[i].topology;
      const auto labelled = [&](const std::string& key) {
        return key.empty() || key == kHostname || room.facts->labels.contains(key);
      };
      lets_in[i] = !(alone && room.gpu_pods) && labelled(asked.required) && labelled(asked.slice) &&
                   admits(room, pod_sets_[i].shape) && (beside == nullptr || beside->admits(i, name));
    }
    const auto number = std::min<std::size_t>(gates_.size(), gang::kMostGates - 1);
    const auto gate = gates_.try_emplace(std::move(lets_in), static_cast<std::uint8_t>(number)).first->second;
    fleet_.put_behind(node, gate);
  }

  [[nodiscard]] gang::Gates gates_of(std::size_t position) const {
    gang::Gates out = 0;
    for (const auto& [lets_in, gate] : gates_) {
      if (lets_in[position]) out |= gang::Gates{1} << gate;
    }
    if (gates_.size() >= gang::kMostGates) out &= ~(gang::Gates{1} << (gang::kMostGates - 1));
    return out;
  }

  [[nodiscard]] Result<gang::Level> level(const std::string& key) const {
    if (key.empty()) return gang::kFleet;
    if (key == kHostname) return tree().depth();
    if (const auto found = tree().level(key)) return *found;
    return fail(Error{Code::kInvalid, fmt::format("there is no topology level {}", key), key,
                      fmt::format("the levels here are {}{}", fmt::join(levels_, ", "),
                                  fmt::format("{}{}", levels_.empty() ? "" : ", ", kHostname))});
  }

  static pack::PodClass class_of(const PodShape& shape) {
    const GpuShape& gpu = shape.gpu;
    return {shape.cpu_milli, shape.memory_bytes, gpu.milli > 0 ? 1 : static_cast<std::int32_t>(gpu.whole),
            static_cast<std::int32_t>(gpu.milli > 0 ? gpu.milli : pack::kDevice), pack::kAnyModel};
  }

  const std::vector<PodSet>& pod_sets_;
  const Rooms& rooms_;
  const Preference& preference_;
  const TopologyLevels& levels_;
  gang::Fleet fleet_;
  gang::Request request_;
  std::vector<const NodeName*> names_;               // by number
  std::map<std::vector<bool>, std::uint8_t> gates_;  // by which sets are let in
  std::vector<std::vector<std::size_t>> members_;    // positions of sets, by group
  std::vector<std::size_t> order_;                   // positions, as the library numbers the sets
};

Placed short_of(const Question& question, const std::vector<PodSet>& pod_sets, const gang::Answer& answer) {
  std::int64_t pods = 0;
  for (const PodSet& set : pod_sets) pods += set.count;
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
                      const TopologyLevels& levels, Neighbourhood* beside) {
  Question question(pod_sets, rooms, preference, levels, beside);
  if (const auto read = question.read(); !read) {
    return {std::nullopt, {fmt::format("{}; {}", read.error().message, read.error().remedy)}};
  }
  for (int round = 0; round < kMostRounds; ++round) {
    const auto answer = question.ask();
    if (!answer.placed()) {
      Rooms tried = rooms;
      auto anywhere = place_gang(without_topology(pod_sets), tried, preference, beside);
      return anywhere.plan ? short_of(question, pod_sets, answer) : std::move(anywhere);
    }
    Plan plan;
    std::map<NodeName, Room> used;
    std::optional<gang::NodeId> full;
    for (const auto& [set, rank, node, device] : answer.members) {
      const auto position = question.position(set);
      const NodeName& name = question.name(node);
      Room& room = used.try_emplace(name, rooms.at(name)).first->second;
      if (pods_that_fit(room, pod_sets[position].shape) == 0) {
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
      if (const auto why = beside->rejects(set, member.node); !why.empty()) {
        return {std::nullopt,
                {fmt::format("near together, pod {} of {} would go to node {}: it {}", member.index, pod_sets[set].name,
                             member.node, why)}};
      }
      beside->take(set, member.node);
    }
    for (auto& [name, room] : used) rooms[name] = std::move(room);
    return {std::move(plan), {}};
  }
  return {std::nullopt, {fmt::format("{} searches found nodes that lack another resource", kMostRounds)}};
}

Obstacles obstacles_together(const std::vector<PodSet>& pod_sets, const Rooms& rooms, const Preference& preference,
                             const TopologyLevels& levels) {
  auto anywhere = obstacles_of(without_topology(pod_sets), rooms, preference);
  if (!anywhere.pod_set.empty()) return anywhere;
  Question question(pod_sets, rooms, preference, levels, nullptr);
  Obstacles out;
  if (const auto read = question.read(); !read) {
    out.pod_set = pod_sets.front().name;
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
           [key = level == gang::kFleet ? std::string() : wider](PodSet& changed) {
             changed.topology.required = key;
           }});
    } else if (what == gang::Relaxation::What::kFewer) {
      const auto& fewer = pod_sets[question.position(of)];
      out.ways.push_back({fmt::format("with {} pods instead of {}", count, fewer.count),
                          [pods = count](PodSet& changed) { changed.count = pods; }});
    }
  }
  return out;
}

}  // namespace qm::placement
