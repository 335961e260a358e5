#include "pattern.hpp"

#include "units.hpp"

#include <algorithm>
#include <numeric>

namespace qm::placement::bound {
namespace {

__extension__ typedef __int128 Wide;

constexpr std::int64_t kCpuSteps = 64;
constexpr std::int64_t kFewCpuSteps = 16;  // where shares of a device need many steps
constexpr std::int64_t kManyShareSteps = 250;
/// The most that can be earned with each number of CPU steps, and the last decision that earns it.
struct Row {
  std::vector<std::int64_t> parts;
  std::vector<std::int32_t> choice;  ///< index of an offer; kFill: shares, for which `spent` CPU steps are used
  std::vector<std::size_t> spent;
  explicit Row(std::size_t steps) : parts(steps + 1, 0), choice(steps + 1, -1), spent(steps + 1, 0) {}
};
constexpr std::int32_t kFill = -2;

}  // namespace

Pricer::Pricer(const pack::NodeState& node, std::span<const Wanted> wanted) : node_(node) {
  memory_mebi_ = (node.memory_bytes + kMebi - 1) / kMebi;
  // The step sizes are exact if the requests have a common divisor that is coarse enough.
  std::int64_t cpu = 0, share = 0;
  const auto takes = [&](const pack::PodClass& pod) {
    auto empty = node;
    empty.pods = 1;
    return pack::fits(empty, pod);
  };
  for (const auto& one : wanted) {
    if (!takes(one.pod) || one.most == 0) continue;
    cpu = std::gcd(cpu, one.pod.cpu_milli);
    if (one.pod.shares()) share = std::gcd(share, std::int64_t{one.pod.gpu_milli});
  }
  const auto share_step = std::max<std::int64_t>(share, 1);
  const auto steps = share > 0 && pack::kDevice / share_step > kManyShareSteps ? kFewCpuSteps : kCpuSteps;
  const auto cpu_step = std::max({cpu, (node.cpu_milli + steps - 1) / steps, std::int64_t{1}});
  cpu_steps_ = static_cast<std::size_t>(std::max<std::int64_t>(node.cpu_milli, 0) / cpu_step);
  for (std::size_t i = 0; i < node.gpus; ++i) {
    if (node.free[i] == 0) continue;
    whole_ += node.free[i] == pack::kDevice ? 1 : 0;
    free_.push_back(static_cast<std::size_t>(share == 0 ? 0 : node.free[i] / share_step));
  }
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const auto& pod = wanted[i].pod;
    if (!takes(pod) || wanted[i].most == 0) continue;
    Ask ask{};
    ask.number = i;
    ask.cpu_milli = pod.cpu_milli;
    ask.memory_mebi = pod.memory_bytes / kMebi;
    ask.milli = pod.gpus == 0 ? 0 : pod.total_milli();
    ask.cpu = static_cast<std::size_t>(pod.cpu_milli / cpu_step);
    ask.gpus = static_cast<std::size_t>(pod.gpus);
    ask.shares = pod.shares();
    ask.share = ask.shares ? static_cast<std::size_t>(pod.gpu_milli / share_step) : 0;
    ask.most = pod.cpu_milli == 0 ? wanted[i].most : std::min(wanted[i].most, node.cpu_milli / pod.cpu_milli);
    asks_.push_back(ask);
  }
}

/// Removes the offers that another offer with the same GPU count dominates: it requests no more of
/// any resource and earns at least as much.
std::vector<Pricer::Offer> Pricer::undominated(std::vector<Offer> offers) {
  std::ranges::stable_sort(offers, [](const Offer& a, const Offer& b) {
    return std::tie(b.parts, a.ask->cpu, a.ask->share) < std::tie(a.parts, b.ask->cpu, b.ask->share);
  });
  std::vector<Offer> out;
  for (const auto& offer : offers) {
    const bool worse = std::ranges::any_of(out, [&](const Offer& other) {
      return other.ask->gpus == offer.ask->gpus && other.ask->cpu <= offer.ask->cpu &&
             other.ask->share <= offer.ask->share;
    });
    if (!worse) out.push_back(offer);
  }
  return out;
}

Pattern Pricer::best(std::span<const std::int64_t> pods, const NodePrices& prices) const {
  std::vector<Offer> shares, several, without;
  Pattern out;
  const auto put = [&](std::size_t number, std::int64_t count) {
    const auto it = std::ranges::find(out.pods, number, &std::pair<std::size_t, std::int64_t>::first);
    if (it != out.pods.end()) {
      it->second += count;
    } else {
      out.pods.emplace_back(number, count);
    }
  };
  for (const auto& ask : asks_) {
    const Wide earned = Wide{ask.milli} * kPart - pods[ask.number] - Wide{prices.cpu} * ask.cpu_milli -
                        Wide{prices.memory} * ask.memory_mebi;
    if (earned <= 0) continue;
    const Offer offer{&ask, static_cast<std::int64_t>(earned)};
    if (ask.shares) {
      shares.push_back(offer);
    } else if (ask.gpus > 0) {
      several.push_back(offer);
    } else if (ask.cpu > 0) {
      without.push_back(offer);
    } else {  // less than one step: as many as fit on the node
      out.parts += offer.parts * ask.most;
      put(ask.number, ask.most);
    }
  }
  shares = undominated(std::move(shares));
  several = undominated(std::move(several));
  without = undominated(std::move(without));

  // What shares earn on one device, for each device size up to the largest.
  const std::size_t width = cpu_steps_ + 1;
  const std::size_t largest = free_.empty() || shares.empty() ? 0 : *std::ranges::max_element(free_);
  std::vector<std::int64_t> fill((largest + 1) * width, 0);
  std::vector<std::int32_t> filled(fill.size(), -1);
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const auto& [ask, parts] = shares[i];
    for (std::size_t size = ask->share; size <= largest; ++size) {
      const auto* from = &fill[(size - ask->share) * width];
      auto* to = &fill[size * width];
      for (std::size_t cpu = ask->cpu; cpu < width; ++cpu) {
        const auto with = from[cpu - ask->cpu] + parts;
        if (with <= to[cpu]) continue;
        to[cpu] = with;
        filled[size * width + cpu] = static_cast<std::int32_t>(i);
      }
    }
  }
  // Device after device.
  std::vector<Row> rows{Row(cpu_steps_)};
  for (std::size_t device = 0; device < free_.size(); ++device) {
    Row next(cpu_steps_);
    const Row& before = rows.back();
    const auto* earns = shares.empty() ? nullptr : &fill[free_[device] * width];
    for (std::size_t cpu = 0; cpu < width; ++cpu) {
      next.parts[cpu] = before.parts[cpu];
      next.choice[cpu] = kFill;
      if (earns != nullptr) {
        for (std::size_t spent = 0; spent <= cpu; ++spent) {
          const auto with = before.parts[cpu - spent] + earns[spent];
          if (with > next.parts[cpu]) next.parts[cpu] = with, next.spent[cpu] = spent;
        }
      }
      for (std::size_t i = 0; device < whole_ && i < several.size(); ++i) {
        const auto& [ask, parts] = several[i];
        if (ask->gpus > device + 1 || ask->cpu > cpu) continue;
        const auto with = rows[device + 1 - ask->gpus].parts[cpu - ask->cpu] + parts;
        if (with > next.parts[cpu]) next.parts[cpu] = with, next.choice[cpu] = static_cast<std::int32_t>(i);
      }
    }
    rows.push_back(std::move(next));
  }
  // Pods without GPUs use the CPU that is left.
  Row rest(cpu_steps_);
  for (std::size_t i = 0; i < without.size(); ++i) {
    const auto& [ask, parts] = without[i];
    for (std::size_t cpu = ask->cpu; cpu < width; ++cpu) {
      const auto with = rest.parts[cpu - ask->cpu] + parts;
      if (with > rest.parts[cpu]) rest.parts[cpu] = with, rest.choice[cpu] = static_cast<std::int32_t>(i);
    }
  }
  std::size_t left = 0;
  for (std::size_t cpu = 1; cpu < width; ++cpu) {
    if (rest.parts[cpu] + rows.back().parts[cpu_steps_ - cpu] >
        rest.parts[left] + rows.back().parts[cpu_steps_ - left]) {
      left = cpu;
    }
  }
  out.parts += rest.parts[left] + rows.back().parts[cpu_steps_ - left];

  // Trace the decisions back to the pods.
  for (std::size_t cpu = left; rest.choice[cpu] >= 0;) {
    const auto* ask = without[static_cast<std::size_t>(rest.choice[cpu])].ask;
    put(ask->number, 1);
    cpu -= ask->cpu;
  }
  std::size_t cpu = cpu_steps_ - left;
  for (std::size_t device = free_.size(); device > 0;) {
    const Row& row = rows[device];
    if (row.choice[cpu] >= 0) {
      const auto* ask = several[static_cast<std::size_t>(row.choice[cpu])].ask;
      put(ask->number, 1);
      device -= ask->gpus;
      cpu -= ask->cpu;
      continue;
    }
    const std::size_t spent = row.spent[cpu];
    --device;
    std::size_t size = shares.empty() ? 0 : free_[device];
    for (std::size_t own = spent; filled[size * width + own] >= 0;) {
      const auto* ask = shares[static_cast<std::size_t>(filled[size * width + own])].ask;
      put(ask->number, 1);
      size -= ask->share;
      own -= ask->cpu;
    }
    cpu -= spent;
  }
  return out;
}

}  // namespace qm::placement::bound
