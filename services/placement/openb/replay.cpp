#include "replay.hpp"

#include "qm/base/assert.hpp"
#include "qm/placement/pack/inventory.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

namespace qm::placement::openb {
namespace {

/// Draws the same numbers for the same seed, on any machine (SplitMix64).
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : state_(seed) {}
  std::size_t below(std::size_t end) {
    state_ += 0x9E3779B97F4A7C15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return static_cast<std::size_t>((z ^ (z >> 31)) % end);
  }
  template <class T>
  void shuffle(std::vector<T>& items) {
    for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[below(i)]);
  }

 private:
  std::uint64_t state_;
};

std::int64_t capacity_of(const Trace& trace) {
  std::int64_t sum = 0;
  for (const auto& node : trace.nodes) sum += node.free_milli();
  return sum;
}

std::vector<pack::PodClass> arriving(const Trace& trace, std::int64_t capacity, double arrivals, Draw& draw) {
  const double wanted = arrivals * static_cast<double>(capacity);
  std::vector<pack::PodClass> out = trace.pods;
  draw.shuffle(out);
  std::int64_t asked = 0;
  for (const auto& pod : out) asked += pod.total_milli();
  while (static_cast<double>(asked) > wanted && !out.empty()) {
    std::swap(out[draw.below(out.size())], out.back());
    asked -= out.back().total_milli();
    out.pop_back();
  }
  if (out.size() < trace.pods.size()) return out;
  for (;;) {
    const auto& pod = trace.pods[draw.below(trace.pods.size())];
    // The paper's own stop: by the share of one device, however many the pod has.
    if (static_cast<double>(asked + (pod.gpus > 0 ? pod.gpu_milli : 0)) > wanted) return out;
    asked += pod.total_milli();
    out.push_back(pod);
  }
}

/// The paper's policy that has no preference: any node that the pod fits, any device there.
class AnyPlace {
 public:
  explicit AnyPlace(Draw& draw) : draw_(draw) {}
  std::optional<pack::Found> best(const pack::Inventory& fleet, const pack::PodClass& pod) {
    fitting_.clear();
    for (pack::NodeId node = 0; node < fleet.nodes(); ++node) {
      if (pack::fits(*fleet.state_of(node), pod)) fitting_.push_back(node);
    }
    if (fitting_.empty()) return std::nullopt;
    const auto node = fitting_[draw_.below(fitting_.size())];
    const auto& free = fleet.state_of(node)->free;
    const auto devices = std::ranges::count_if(free, [&](auto milli) { return milli >= pod.gpu_milli; });
    return pack::Found{node, {0, devices == 0 ? 0 : free[draw_.below(static_cast<std::size_t>(devices))]}};
  }

 private:
  Draw& draw_;
  std::vector<pack::NodeId> fitting_;
};

}  // namespace

std::vector<pack::PodClass> arrivals_of(const Trace& trace, std::uint64_t seed, double arrivals) {
  Draw draw(seed);
  return arriving(trace, capacity_of(trace), arrivals, draw);
}

Curve replay(const Trace& trace, const std::string& policy_name, std::uint64_t seed, double arrivals) {
  Draw draw(seed);
  const std::int64_t capacity = capacity_of(trace);
  const auto pods = arriving(trace, capacity, arrivals, draw);
  auto nodes = trace.nodes;
  draw.shuffle(nodes);

  const pack::Outlook outlook{trace.mix, nodes};
  const pack::Fragmentation measure(pack::typical(trace.mix));
  const bool any = policy_name == "random";
  const auto policy = pack::make_policy(any ? "bestfit" : policy_name, outlook);
  QM_ASSERT(policy != nullptr, "no policy is called {}", policy_name);
  AnyPlace any_place(draw);
  pack::Inventory fleet(*policy);
  std::int64_t fragment = 0;
  for (const auto& node : nodes) {
    fleet.add(node);
    fragment += measure.of(node);
  }

  struct Sums {
    Point sum;
    std::int64_t events = 0;
  };
  std::map<int, Sums> bins;
  std::int64_t arrived = 0, used = 0;
  const auto all = static_cast<double>(capacity);
  for (const auto& pod : pods) {
    arrived += pod.total_milli();
    if (const auto found = any ? any_place.best(fleet, pod) : fleet.best(pod)) {
      const auto& before = *fleet.state_of(found->node);
      const auto after = pack::with(before, pod, found->choice.device_milli);
      fragment += measure.of(after) - measure.of(before);
      used += pod.total_milli();
      fleet.set(found->node, after);
    }
    const double lost = static_cast<double>(fragment) / static_cast<double>(measure.weight());
    auto& [sum, events] = bins[static_cast<int>(std::lround(100 * static_cast<double>(arrived) / all))];
    sum.allocated += 100 * static_cast<double>(used) / all;
    sum.fragment_total += 100 * lost / all;
    sum.fragment_idle += used == capacity ? 0 : 100 * lost / static_cast<double>(capacity - used);
    ++events;
  }
  Curve out;
  for (const auto& [percent, bin] : bins) {
    const auto n = static_cast<double>(bin.events);
    out[percent] = {bin.sum.allocated / n, bin.sum.fragment_total / n, bin.sum.fragment_idle / n};
  }
  return out;
}

}  // namespace qm::placement::openb
