#include "bound/grid.hpp"

#include <algorithm>
#include <map>
#include <numeric>

namespace qm::autoscaler::pack {
namespace {

constexpr double kWorthMore = 1 + 1e-10;
constexpr std::int64_t kCpuSteps = 14, kMemorySteps = 44;  // at most, for each pod on the largest covered shape

std::int64_t step_of(std::int64_t common, std::int64_t room, std::int64_t most) {
  std::int64_t step = std::max<std::int64_t>(common, 1);
  while (room / step > most) step *= 2;
  return step;
}

}  // namespace

std::optional<Grid> Grid::make(const BoundProblem& problem, std::int64_t pods_per_node) {
  if (problem.resources != 3 || problem.shapes.empty()) return std::nullopt;
  for (const auto& shape : problem.shapes) {
    if (std::ranges::find(shape.accepts, false) != shape.accepts.end()) return std::nullopt;
  }
  Grid out;
  out.problem_ = &problem;
  std::int64_t pods = 0, cpu = 0, memory = 0, cpu_common = 0, memory_common = 0;
  std::map<std::uint32_t, std::int64_t> by_cap;
  for (const auto& one : problem.classes) {
    pods += one.count, cpu += one.count * one.load[0], memory += one.count * one.load[1];
    cpu_common = std::gcd(cpu_common, one.load[0]);
    memory_common = std::gcd(memory_common, one.load[1]);
    for (const auto cap : one.caps) {
      if (problem.caps[cap] == 1) by_cap[cap] += one.count;
    }
  }
  const auto room_of = [&](std::int64_t sum, std::size_t resource) {
    std::int64_t most = 0;
    for (const auto& shape : problem.shapes) most = std::max(most, shape.room[resource]);
    return std::min(most, std::max<std::int64_t>(sum / std::max<std::int64_t>(pods, 1), 1) * pods_per_node);
  };
  const std::int64_t cpu_room = room_of(cpu, 0), memory_room = room_of(memory, 1);
  out.cpu_step_ = step_of(cpu_common, cpu_room, kCpuSteps * pods_per_node);
  out.memory_step_ = step_of(memory_common, memory_room, kMemorySteps * pods_per_node);
  out.size_ = out.steps_of({cpu_room, memory_room});
  const auto main = std::ranges::max_element(by_cap, {}, [](const auto& one) { return one.second; });
  for (std::size_t i = 0; i < problem.classes.size(); ++i) {
    const BoundClass& one = problem.classes[i];
    out.steps_.push_back(out.steps_of(one.load));
    const bool single = main != by_cap.end() && std::ranges::find(one.caps, main->first) != one.caps.end();
    (single ? out.single_ : out.plain_).push_back(i);
    if (!single && out.steps_.back().cpu + out.steps_.back().memory == 0) return std::nullopt;
  }
  return out;
}

Grid::Steps Grid::steps_of(const Load& load) const {
  return {static_cast<std::size_t>(std::max<std::int64_t>(load[0], 0) / cpu_step_),
          static_cast<std::size_t>(std::max<std::int64_t>(load[1], 0) / memory_step_)};
}

bool Grid::covers(const BoundShape& shape) const {
  const Steps room = steps_of(shape.room);
  return room.cpu <= size_.cpu && room.memory <= size_.memory;
}

void Grid::set_items(const std::vector<double>& price) {
  price_ = price;
  std::vector<Item> all;
  for (const auto number : plain_) {
    if (price[number] > 0) all.push_back({steps_[number], price[number], number});
  }
  std::ranges::sort(all, [](const Item& a, const Item& b) {
    return a.price != b.price ? a.price > b.price
                              : std::pair(a.steps.cpu, a.steps.memory) < std::pair(b.steps.cpu, b.steps.memory);
  });
  items_.clear();
  for (const auto& one : all) {
    const bool dominated = std::ranges::any_of(items_, [&](const Item& other) {
      return other.steps.cpu <= one.steps.cpu && other.steps.memory <= one.steps.memory;
    });
    if (!dominated) items_.push_back(one);
  }
}

bool Grid::solve(const std::vector<double>& price, const std::function<bool()>& stop) {
  set_items(price);
  const std::size_t width = size_.memory + 1;
  worth_.assign((size_.cpu + 1) * width, 0);
  std::vector<Item> flat;  // without a step of CPU: they lead to cells of the same row
  std::ranges::copy_if(items_, std::back_inserter(flat), [](const Item& one) { return one.steps.cpu == 0; });
  for (std::size_t cpu = 0; cpu <= size_.cpu; ++cpu) {
    if (cpu % 64 == 0 && stop && stop()) return false;
    double* const row = worth_.data() + cpu * width;
    for (const auto& one : items_) {
      if (one.steps.cpu == 0 || one.steps.cpu > cpu) continue;
      const double* const from = row - one.steps.cpu * width;
      const std::size_t step = one.steps.memory;
      for (std::size_t memory = step; memory < width; ++memory) {
        row[memory] = std::max(row[memory], from[memory - step] + one.price);
      }
    }
    for (std::size_t memory = 0; memory < width && !flat.empty(); ++memory) {
      for (const auto& one : flat) {
        if (one.steps.memory <= memory) row[memory] = std::max(row[memory], row[memory - one.steps.memory] + one.price);
      }
    }
  }
  return true;
}

Pattern Grid::best(const BoundShape& shape) const {
  const Steps room = steps_of(shape.room);
  Pattern out;
  out.worth = worth_[cell(room)];
  std::size_t chosen = kNone;
  for (const auto number : single_) {
    const Steps step = steps_[number];
    if (price_[number] <= 0 || step.cpu > room.cpu || step.memory > room.memory) continue;
    const double worth = price_[number] + worth_[cell({room.cpu - step.cpu, room.memory - step.memory})];
    if (worth > out.worth) out.worth = worth, chosen = number;
  }
  out.most = out.worth * kWorthMore;
  if (out.worth <= shape.cost * kWorthMore) return out;
  std::map<std::size_t, std::int64_t> pods;
  Steps left = room;
  const auto take = [&](std::size_t number) {
    ++pods[number];
    left = {left.cpu - steps_[number].cpu, left.memory - steps_[number].memory};
  };
  if (chosen != kNone) take(chosen);
  // An item is the last of the cell's pattern if it accounts for the worth, to the last bit: the sum is the same one.
  while (true) {
    const double all = worth_[cell(left)];
    const auto last = std::ranges::find_if(items_, [&](const Item& one) {
      return one.steps.cpu <= left.cpu && one.steps.memory <= left.memory &&
             worth_[cell({left.cpu - one.steps.cpu, left.memory - one.steps.memory})] + one.price == all;
    });
    if (last == items_.end()) break;
    take(last->number);
  }
  out.pods.assign(pods.begin(), pods.end());
  return out;
}

}  // namespace qm::autoscaler::pack
