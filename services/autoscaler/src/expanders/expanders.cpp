// One function ranks an option for each expander: the lowest rank remains.
#include "qm/autoscaler/expanders/expanders.hpp"

#include "qm/base/assert.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace qm::autoscaler {
namespace {

__extension__ typedef __int128 Wide;

constexpr std::array<std::pair<Expander, std::string_view>, 6> kNames{{{Expander::kPriority, "priority"},
                                                                       {Expander::kPrice, "price"},
                                                                       {Expander::kLeastWaste, "least-waste"},
                                                                       {Expander::kMostPods, "most-pods"},
                                                                       {Expander::kLeastNodes, "least-nodes"},
                                                                       {Expander::kRandom, "random"}}};

/// A fraction that is compared exactly; the denominator is positive.
struct Fraction {
  Wide over, under;
};
bool less(const Fraction& a, const Fraction& b) { return a.over * b.under < b.over * a.under; }

/// The unused share of CPU plus that of memory. Memory counts in MiB, so that products stay within 128 bits.
Fraction waste(const Expansion& e) {
  constexpr std::int64_t kMiB = 1 << 20;
  const Wide cpu = std::max<std::int64_t>(e.cpu_milli, 1), memory = std::max<std::int64_t>(e.memory_bytes / kMiB, 1);
  const Wide idle_cpu = e.cpu_milli - e.used_cpu_milli, idle_memory = (e.memory_bytes - e.used_memory_bytes) / kMiB;
  return {idle_cpu * memory + idle_memory * cpu, cpu * memory};
}

/// FNV-1a of the name, then the finalizer of SplitMix64.
std::uint64_t drawn(const std::string& group, std::uint64_t seed) {
  std::uint64_t hash = 14695981039346656037ULL;
  for (const char c : group) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  std::uint64_t x = hash + (seed + 1) * 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

bool better(Expander by, const Expansion& a, const Expansion& b, std::uint64_t seed) {
  switch (by) {
    case Expander::kPriority:
      return a.priority && (!b.priority || *b.priority < *a.priority);
    case Expander::kPrice:
      return a.per_hour < b.per_hour;
    case Expander::kLeastWaste:
      return less(waste(a), waste(b));
    case Expander::kMostPods:
      return b.pods < a.pods;
    case Expander::kLeastNodes:
      return a.nodes < b.nodes;
    case Expander::kRandom:
      return drawn(a.group, seed) < drawn(b.group, seed);
  }
  return false;
}

}  // namespace

std::optional<Expander> expander_of(std::string_view name) {
  const auto* it = std::ranges::find(kNames, name, [](const auto& pair) { return pair.second; });
  return it == kNames.end() ? std::nullopt : std::optional(it->first);
}

std::string_view name_of(Expander expander) {
  return std::ranges::find(kNames, expander, [](const auto& pair) { return pair.first; })->second;
}

std::size_t choose_expansion(std::span<const Expander> chain, std::span<const Expansion> options, std::uint64_t seed) {
  QM_ASSERT(!options.empty(), "a choice among no node groups");
  std::vector<std::size_t> left(options.size());
  for (std::size_t i = 0; i < left.size(); ++i) left[i] = i;
  for (const Expander by : chain) {
    std::vector<std::size_t> best;
    for (const std::size_t i : left) {
      if (!best.empty() && better(by, options[i], options[best.front()], seed)) best.clear();
      if (best.empty() || !better(by, options[best.front()], options[i], seed)) best.push_back(i);
    }
    left = std::move(best);
    if (left.size() == 1) break;
  }
  return left.front();
}

}  // namespace qm::autoscaler
