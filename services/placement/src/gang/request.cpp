#include "qm/placement/gang/request.hpp"

#include "shape.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace qm::placement::gang {
namespace {

Status check_set(const PodSet& set, const Tree& tree, const std::string& field) {
  const auto bad = [&](const std::string& what, const std::string& remedy) -> Status {
    return fail(Error{Code::kInvalid, what, field, remedy});
  };
  if (set.count < 1) return bad(fmt::format("a set of {} pods", set.count), "request one pod or more");
  if (set.min_count < 0 || set.min_count > set.count)
    return bad(fmt::format("at least {} of {} pods", set.min_count, set.count), "min_count is 0 to count");
  if (set.pod.gpus < 0 || set.pod.gpu_milli < 1 || set.pod.gpu_milli > pack::kDevice ||
      (set.pod.gpus > 1 && set.pod.gpu_milli != pack::kDevice))
    return bad(fmt::format("{} GPUs of {} milli", set.pod.gpus, set.pod.gpu_milli), "request a share of one GPU");
  if (set.pod.cpu_milli < 0 || set.pod.memory_bytes < 0)
    return bad("a pod requests a negative amount", "request 0 or more");
  if (set.slices.size < 1 || set.count % set.slices.size != 0 || set.min_count % set.slices.size != 0)
    return bad(fmt::format("{} pods, at least {}, in slices of {}", set.count, set.min_count, set.slices.size),
               "the slice size must divide both counts");
  for (const Level level : {set.slices.level, set.spread.level}) {
    if (level < kFleet || level > tree.depth())
      return bad(fmt::format("level {} of {}", level, tree.depth()), "name a level of the fleet");
  }
  if (set.spread.most < 0) return bad(fmt::format("at most {} in a domain", set.spread.most), "0 means no limit");
  return {};
}

Status check_group(const Group& group, const Tree& tree, const std::string& field) {
  for (const Level level : {group.required, group.preferred}) {
    if (level < kFleet || level > tree.depth())
      return fail(Error{Code::kInvalid, fmt::format("level {} of {}", level, tree.depth()), field,
                        "name a level of the fleet"});
  }
  if (group.sets.empty() && group.children.empty())
    return fail(Error{Code::kInvalid, "a group without pods", field, "remove it"});
  for (std::size_t i = 0; i < group.sets.size(); ++i)
    QM_TRY(check_set(group.sets[i], tree, fmt::format("{}.sets[{}]", field, i)));
  for (std::size_t i = 0; i < group.children.size(); ++i)
    QM_TRY(check_group(group.children[i], tree, fmt::format("{}.children[{}]", field, i)));
  return {};
}

void flatten(const Group& group, std::int32_t parent, Level depth, Shape& shape) {
  const auto self = shape.teams.size();
  Shape::Team team;
  team.parent = parent;
  team.required = group.required;
  team.preferred = std::max(group.preferred, group.required);
  team.first_set = static_cast<std::int32_t>(shape.sets.size());
  for (const PodSet& set : group.sets) {
    Kind kind{.pod = set.pod, .gates = set.gates, .exclusive = shape.exclusive};
    if (set.pod.gpus == 0) kind.pod.models = pack::kAnyModel;
    if (set.spread.most > 0 && set.spread.level == depth) kind.most = set.spread.most;
    if (set.slices.level == depth) kind.run = set.slices.size;
    shape.sets.push_back({set, kind, static_cast<std::int32_t>(self)});
  }
  team.end_own = static_cast<std::int32_t>(shape.sets.size());
  shape.teams.push_back(team);
  for (const Group& child : group.children) flatten(child, static_cast<std::int32_t>(self), depth, shape);
  shape.teams[self].end_set = static_cast<std::int32_t>(shape.sets.size());
}

std::size_t sets_of(const Group& group) {
  std::size_t sum = group.sets.size();
  for (const Group& child : group.children) sum += sets_of(child);
  return sum;
}

}  // namespace

Status check(const Request& request, const Tree& tree) {
  QM_TRY(check_group(request.gang, tree, "gang"));
  if (const auto sets = sets_of(request.gang); sets > kMaxSets)
    return fail(Error{Code::kInvalid, fmt::format("{} pod sets, at most {} are supported", sets, kMaxSets), "gang",
                      "merge equal pods into one set"});
  return {};
}

Shape flatten(const Request& request, const Tree& tree) {
  Shape shape;
  shape.exclusive = request.exclusive;
  flatten(request.gang, -1, tree.depth(), shape);
  return shape;
}

std::vector<std::int64_t> weights_of(const Options& options, Level depth) {
  std::vector<std::int64_t> out(static_cast<std::size_t>(depth) + 1, 0);
  std::int64_t usual = 1;
  for (auto level = static_cast<std::size_t>(depth); level > 0; --level) {
    out[level] = options.weights.empty() ? usual : options.weights.at(level - 1);
    usual *= 8;
  }
  return out;
}

std::string explain(const Tree& tree, const Answer& answer) {
  if (answer.placed()) return fmt::format("{} pods are placed", answer.members.size());
  std::string text;
  if (answer.shortfall) {
    const auto& [domain, set, takes, asked] = *answer.shortfall;
    const std::string where =
        domain.level == kFleet ? "the fleet" : fmt::format("{} {}", tree.name(domain.level), tree.name(domain));
    text = fmt::format("{} fits {} of {}", where, takes, asked);
    if (set < 0) text += ", of all sets together";
    if (set > 0) text += fmt::format(" of set {}", set);
  }
  if (!answer.exact) text += "; the search reached its limit";
  for (const auto& [what, of, level, count] : answer.relaxations) {
    switch (what) {
      case Relaxation::What::kWider:
        text += fmt::format("; fits in one {}", tree.name(level));
        if (of > 0) text += fmt::format(" for group {}", of);
        break;
      case Relaxation::What::kShared:
        text += "; fits on shared nodes";
        break;
      case Relaxation::What::kFewer:
        text += fmt::format("; fits with {} pods of set {}", count, of);
    }
  }
  return text;
}

}  // namespace qm::placement::gang
