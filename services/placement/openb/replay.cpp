#include "replay.hpp"

#include "go_random.hpp"
#include "qm/base/assert.hpp"
#include "qm/placement/pack/inventory.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

namespace qm::placement::openb {
namespace {

/// Draws that the paper's program makes for other purposes: one for its log, and one for the
/// duration of each of its scheduler's ten watches.
constexpr int kForItsLog = 1, kForItsWatches = 10;

GoRandom started(std::uint64_t seed) {
  GoRandom draw(static_cast<std::int64_t>(seed));
  for (int i = 0; i < kForItsLog; ++i) draw.next();
  return draw;
}

std::size_t below(GoRandom& draw, std::size_t bound) {
  return static_cast<std::size_t>(draw.below(static_cast<std::int32_t>(bound)));
}

/// The nodes in the order that decides between equally good nodes.
std::vector<pack::NodeState> in_order(const std::vector<pack::NodeState>& nodes, GoRandom& draw) {
  for (int i = 0; i < kForItsWatches; ++i) draw.next();
  const auto place = draw.permutation(nodes.size());
  auto out = nodes;
  for (std::size_t i = 0; i < nodes.size(); ++i) out[place[i]] = nodes[i];
  return out;
}

std::int64_t capacity_of(const Trace& trace) {
  std::int64_t sum = 0;
  for (const auto& node : trace.nodes) sum += node.free_milli();
  return sum;
}

std::vector<pack::PodClass> arriving(const Trace& trace, std::int64_t capacity, double arrivals, GoRandom& draw) {
  const double wanted = arrivals * static_cast<double>(capacity);
  std::vector<pack::PodClass> out = trace.pods;
  draw.shuffle(out);
  std::int64_t asked = 0;
  for (const auto& pod : out) asked += pod.total_milli();
  while (static_cast<double>(asked) > wanted && !out.empty()) {
    const auto gone = out.begin() + static_cast<std::ptrdiff_t>(below(draw, out.size()));
    asked -= gone->total_milli();
    out.erase(gone);
  }
  if (out.size() < trace.pods.size()) return out;
  for (;;) {
    const auto& pod = trace.pods[below(draw, trace.pods.size())];
    // The stop condition of the paper: it counts the share of one device, even if the pod has several.
    if (static_cast<double>(asked + (pod.gpus > 0 ? pod.gpu_milli : 0)) > wanted) return out;
    asked += pod.total_milli();
    out.push_back(pod);
  }
}

/// The paper's policy without a preference: any node that the pod fits, any device there.
class AnyPlace {
 public:
  explicit AnyPlace(GoRandom& draw) : draw_(draw) {}
  std::optional<pack::Found> best(const pack::Inventory& fleet, const pack::PodClass& pod) {
    fitting_.clear();
    for (pack::NodeId node = 0; node < fleet.nodes(); ++node) {
      if (pack::fits(*fleet.state_of(node), pod)) fitting_.push_back(node);
    }
    if (fitting_.empty()) return std::nullopt;
    const auto node = fitting_[below(draw_, fitting_.size())];
    const auto& free = fleet.state_of(node)->free;
    const auto devices = std::ranges::count_if(free, [&](auto milli) { return milli >= pod.gpu_milli; });
    return pack::Found{node, {0, devices == 0 ? 0 : free[below(draw_, static_cast<std::size_t>(devices))]}};
  }

 private:
  GoRandom& draw_;
  std::vector<pack::NodeId> fitting_;
};

}  // namespace

std::vector<pack::PodClass> arrivals_of(const Trace& trace, std::uint64_t seed, double arrivals) {
  auto draw = started(seed);
  return arriving(trace, capacity_of(trace), arrivals, draw);
}

Curve replay(const Trace& trace, const std::string& policy_name, std::uint64_t seed, double arrivals) {
  auto draw = started(seed);
  const std::int64_t capacity = capacity_of(trace);
  const auto pods = arriving(trace, capacity, arrivals, draw);
  const auto nodes = in_order(trace.nodes, draw);

  const pack::Outlook outlook{trace.mix, nodes};
  const pack::Fragmentation measure(pack::typical(trace.mix));
  const bool any = policy_name == "random";
  const auto policy = pack::make_policy(any ? "bestfit" : policy_name, outlook);
  QM_ASSERT(policy != nullptr, "there is no policy {}", policy_name);
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
