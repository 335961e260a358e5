// The time that a bound takes, by the number of groups and classes.
#include "fleets.hpp"

#include <benchmark/benchmark.h>

namespace qm::placement::bound::testing {
namespace {

void upper_bound_of(benchmark::State& state) {
  Random random(1);
  GapQuery question;
  const auto groups = static_cast<std::size_t>(state.range(0)), classes = static_cast<std::size_t>(state.range(1));
  while (question.nodes.size() < groups) {
    for (const auto& group : random_query(random, {8, 400, 8, 1, 1}).nodes) question.nodes.push_back(group);
  }
  while (question.wanted.size() < classes) {
    for (const auto& one : random_query(random, {1, 1, 1, 8, 40}).wanted) question.wanted.push_back(one);
  }
  Bound bound;
  for (auto _ : state) bound = upper_bound(question.nodes, question.wanted);
  state.counters["rounds"] = bound.rounds;
  state.counters["close"] = bound.close ? 1 : 0;
}
BENCHMARK(upper_bound_of)
    ->Args({4, 20})
    ->Args({16, 100})
    ->Args({64, 250})
    ->Args({500, 5'000})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace qm::placement::bound::testing
