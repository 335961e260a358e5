// The default policy. It combines three ideas, each with scores as coarse as possible: equal scores
// go to the first node, which keeps whole nodes empty.
//
//   the gradient   the placement where the fragment grows least, as in FGD. A class of whole GPUs
//   counts less in the mix: a
//                  share rarely spoils a placement for them that another share has not spoiled
//                  already.
//   the price      reserves nodes that can serve what others cannot. The price of a node type is
//   the demand that it can serve,
//                  each class divided by the supply of all types that can serve it; the cheapest
//                  type has price 0.
//   the rest       among placements of one level, the capacity that will be left over in the end. A
//   device is filled with
//                  shares until none fits (by the mix, exactly). GPUs are left over when their node
//                  has no CPU left for
//                  them; their expected number is used, since the requests of the next pods are
//                  unknown.
#include "gradient.hpp"
#include "policies.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numbers>
#include <vector>

namespace qm::placement::pack {
namespace {

// Found by search on the openb traces; docs/results/openb.md describes the search and the gain of
// each value.
constexpr std::int64_t kWholeWeight = 31;  // of a class of whole devices, where others weigh 100
constexpr double kPrice = 0.235;           // GPUs of gradient that a price of 1 outweighs
constexpr double kCpuNeed = 0.75;          // of the mean CPU for a GPU, since pods that find no CPU run on other nodes
constexpr double kCpuDoubt =
    0.65;  // GPUs, standard deviation of how many GPUs the CPU of one GPU serves; for n GPUs, root of n times that
constexpr double kCpuWeight = 1.7;  // of a GPU without CPU left for it, compared with a fragmented one
constexpr int kRestLevels = 12;
constexpr double kRestSlope = 3;  // of the logistic curve, for a GPU

using ByType = std::array<double, 256>;

std::vector<Demand> weighted(std::vector<Demand> mix) {
  for (auto& [pod, weight] : mix) weight *= pod.gpus > 0 && !pod.shares() ? kWholeWeight : 100;
  return mix;
}

/// For each node type, demand over supply of the classes that it can serve, relative to the type
/// with the least; 1 = the demand on the average node.
ByType prices(const Outlook& outlook) {
  ByType supply{}, price{};
  std::array<const NodeState*, 256> made{};
  double all = 0, demand = 0;
  for (const auto& node : outlook.capacity) {
    supply[node.type] += node.gpus;
    all += node.gpus;
    made[node.type] = &node;
  }
  for (const auto& [pod, weight] : outlook.mix) demand += static_cast<double>(weight * pod.total_milli());
  for (const auto& [pod, weight] : outlook.mix) {
    std::vector<std::size_t> servants;
    double served = 0;
    for (std::size_t type = 0; type < made.size(); ++type) {
      if (pod.gpus == 0 || made[type] == nullptr || !fits(*made[type], pod)) continue;
      servants.push_back(type);
      served += supply[type];
    }
    for (const auto type : servants)
      price[type] += static_cast<double>(weight * pod.total_milli()) / demand * all / served;
  }
  double least = std::numeric_limits<double>::max();
  for (std::size_t type = 0; type < made.size(); ++type) {
    if (supply[type] > 0) least = std::min(least, price[type]);
  }
  for (std::size_t type = 0; type < made.size(); ++type) price[type] = supply[type] > 0 ? price[type] - least : 0;
  return price;
}

/// What is finally left of a device, by its free milli-GPU now: shares of the mix arrive, each by
/// its weight, until none fits.
std::array<double, kDevice + 1> rest_of_device(std::span<const Demand> mix) {
  std::map<std::size_t, double> asked;  // weight by share: few shares occur
  for (const auto& [pod, weight] : mix) {
    if (pod.gpus > 0) asked[static_cast<std::size_t>(pod.gpu_milli)] += static_cast<double>(weight * pod.gpus);
  }
  std::array<double, kDevice + 1> rest{};
  for (std::size_t free = 1; free < rest.size(); ++free) {
    double weight = 0, sum = 0;
    for (const auto& [share, of] : asked) {
      if (share > free) break;
      weight += of;
      sum += of * rest[free - share];
    }
    rest[free] = weight > 0 ? sum / weight : static_cast<double>(free);
  }
  return rest;
}

/// The expected excess of a standard normal variable over a bound of -y, zero where it does not
/// exceed it: the loss function of the newsvendor problem. Read from a table, because decisions
/// need it often.
class ExpectedExcess {
 public:
  ExpectedExcess() {
    for (std::size_t i = 0; i < at_.size(); ++i) {
      const double y = static_cast<double>(i) / kSteps - kFar;
      at_[i] = std::exp(-y * y / 2) / std::sqrt(2 * std::numbers::pi) + y * std::erfc(-y / std::numbers::sqrt2) / 2;
    }
  }
  [[nodiscard]] double operator()(double y) const {
    if (y <= -kFar) return 0;
    if (y >= kFar) return y;
    const double at = (y + kFar) * kSteps;
    const auto i = static_cast<std::size_t>(at);
    return at_[i] + (at - static_cast<double>(i)) * (at_[i + 1] - at_[i]);
  }

 private:
  static constexpr int kFar = 4, kSteps = 64;
  std::array<double, std::size_t{2} * kFar * kSteps + 1> at_{};
};
const ExpectedExcess kExpectedExcess;

class Quartermaster final : public Policy {
 public:
  explicit Quartermaster(const Outlook& outlook)
      : gradient_(weighted(typical(outlook.mix)), outlook.capacity, Fragmentation::Remainders::kLost),
        rest_(rest_of_device(outlook.mix)) {
    const auto price = prices(outlook);
    for (std::size_t type = 0; type < price.size(); ++type) {
      price_[type] = std::llround(kPrice * price[type] * static_cast<double>(gradient_.weight()));
    }
    double cpu = 0, gpu = 0, all_cpu = 0;  // requested: by pods with GPUs, and by all pods
    for (const auto& [pod, weight] : outlook.mix) {
      const auto asked = static_cast<double>(weight * pod.cpu_milli);
      cpu += pod.gpus > 0 ? asked : 0;
      all_cpu += asked;
      gpu += static_cast<double>(weight * pod.total_milli());
    }
    double has_cpu = 0, has_gpu = 0;
    for (const auto& node : outlook.capacity) {
      has_cpu += static_cast<double>(node.cpu_milli);
      has_gpu += static_cast<double>(node.gpus * kDevice);
    }
    cpu_need_ = gpu > 0 ? kCpuNeed * cpu / gpu : 0;
    // Where CPU is scarce in the whole fleet there is no uncertainty: other pods will use what a
    // node has left.
    if (all_cpu * has_gpu < gpu * has_cpu) doubt_ = kCpuDoubt * std::sqrt(kDevice);
    for (int level = 1; level < kRestLevels; ++level) {
      const double odds = static_cast<double>(level) / (kRestLevels - level);
      least_saved_[static_cast<std::size_t>(level) - 1] = std::log(odds) / kRestSlope * kDevice;
    }
  }
  [[nodiscard]] std::string_view name() const override { return "quartermaster"; }

  /// The fragment, and what is finally left of all devices by themselves.
  [[nodiscard]] NodeScores scores_of(const NodeState& node) const override {
    double devices = 0;
    for (std::size_t i = 0; i < node.gpus; ++i) devices += rest_[node.free[i]];
    return {gradient_.fragment(node), devices};
  }
  [[nodiscard]] Choice weigh(const NodeState& node, const NodeScores& scores, const PodClass& pod) const override {
    const auto total = pod.total_milli();
    const auto scarcity = price_[node.type] * total;
    const double devices = scores.rest, free = static_cast<double>(node.free_milli());
    const double before = rest(devices, free, node.cpu_milli);
    // The first allocation on an empty node reduces the uncertainty of its rest. That is not a
    // reason to prefer the node.
    const bool whole = node.free_milli() == node.gpus * kDevice;
    return gradient_.best(node, scores.fragment, pod, [&](std::int32_t device_milli, std::int64_t less) {
      const double taken = pod.shares() ? rest_[static_cast<std::size_t>(device_milli)] -
                                              rest_[static_cast<std::size_t>(device_milli - pod.gpu_milli)]
                                        : rest_[kDevice] * pod.gpus;
      const double after = rest(devices - taken, free - static_cast<double>(total), node.cpu_milli - pod.cpu_milli);
      auto finer = std::ranges::upper_bound(least_saved_, before - after) - least_saved_.begin();
      if (whole) finer = std::min<std::ptrdiff_t>(finer, kRestLevels / 2 - 1);
      return gradient_.level(less - scarcity) * kRestLevels + finer;
    });
  }

 private:
  /// Milli-GPU of a node that will stay unused: what is left of its devices, plus the other GPUs
  /// for which its CPU does not suffice.
  [[nodiscard]] double rest(double devices, double free, std::int64_t cpu_milli) const {
    if (cpu_need_ <= 0) return devices;
    const double beyond = free - devices - static_cast<double>(cpu_milli) / cpu_need_;
    const double doubt = doubt_ * std::sqrt(free);
    return devices + kCpuWeight * (doubt > 0 ? doubt * kExpectedExcess(beyond / doubt) : std::max(0.0, beyond));
  }

  Gradient gradient_;
  std::array<std::int64_t, 256> price_{};  ///< fragment that a milli-GPU there must reduce, in milli times weight
  std::array<double, kDevice + 1> rest_;
  double cpu_need_ = 0;  // milli-cores for a milli-GPU
  double doubt_ = 0;     // standard deviation for one milli-GPU, in milli-GPU
  std::array<double, kRestLevels - 1> least_saved_{};
};

}  // namespace

std::unique_ptr<Policy> make_quartermaster(const Outlook& outlook) { return std::make_unique<Quartermaster>(outlook); }

}  // namespace qm::placement::pack
