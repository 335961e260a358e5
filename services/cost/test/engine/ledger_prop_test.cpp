// Random fleets: for any order, repetitions and batches of facts the ledger is the same, and the
// bill equals one that is computed here by brute force, second by second of the facts and without the engine.
#include "qm/cost/engine.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <random>

namespace qm::cost {
namespace ledger_prop_test {

constexpr std::int64_t kSecond = 1'000'000;
constexpr std::int64_t kHour = 3600 * kSecond;
__extension__ typedef __int128 Wide;

Instant second(std::int64_t s) { return from_micros(s * kSecond); }

struct World {
  std::vector<Engine::Command> facts;      // newest versions and the older ones before them
  std::vector<InstanceUpdated> instances;  // final versions
  std::map<std::int64_t, std::int64_t> spot,
      plan;  // second -> nano per hour; a plan entry is for on-demand
  Instant end{};
};

/// A fleet of a few instances on few node names over some hours, with stays, prices and node states.
World make_world(std::uint32_t seed) {
  std::mt19937 random(seed);
  const auto pick = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  World w;
  const std::int64_t day = pick(2, 5) * 3600;
  w.end = second(day + 1200);
  for (int i = 0, n = static_cast<int>(pick(1, 3)); i < n; ++i) {
    const std::int64_t from = i == 0 ? 0 : pick(1, day), nano = pick(1, 99'999'999'999);
    if (w.plan.contains(from)) continue;
    w.plan[from] = nano;
    w.facts.push_back(
        PriceApplied{PricePlan{"p", {{"t", "on-demand", "", HourlyRate{Money::nano(nano)}}}}, second(from)});
  }
  for (int i = 0, n = static_cast<int>(pick(0, 4)); i < n; ++i) {
    const std::int64_t from = pick(1, day), nano = pick(1, 9'999'999'999);
    if (w.spot.contains(from)) continue;
    w.spot[from] = nano;
    w.facts.push_back(SpotPriceUpdated{{"t", "z"}, HourlyRate{Money::nano(nano)}, second(from), 1});
  }
  const int count = static_cast<int>(pick(1, 5));
  int stays = 0;
  for (int i = 0; i < count; ++i) {
    InstanceUpdated update;
    update.id = InstanceId(fmt::format("i-{}", i));
    update.claim = ClaimName(fmt::format("c-{}", i));
    update.type = "t";
    update.zone = "z";
    update.capacity_type = pick(0, 1) == 0 ? "spot" : "on-demand";
    update.gpus = static_cast<std::int32_t>(pick(0, 4));
    const std::int64_t launched = pick(1, day - 10), stopped = pick(launched, day);
    const bool runs = pick(0, 3) == 0;
    update.launched = second(launched);
    update.version = 1;
    w.facts.push_back(update);  // first event: it runs
    if (!runs) {
      update.stopped = second(stopped);
      update.version = 2;
      w.facts.push_back(update);
    }
    w.instances.push_back(update);

    // Two instances may use one node name one after the other; the name of a running one is unique.
    const NodeName node(fmt::format("n-{}", i));
    const std::int64_t last = runs ? day : stopped;
    std::uint64_t version = 0;
    std::set<std::int64_t> since;
    for (int k = 0, n = static_cast<int>(pick(0, 4)); k < n; ++k) since.insert(pick(launched, last));
    for (const auto s : since) {
      w.facts.push_back(
          NodeUpdated{node, update.id, static_cast<NodeState>(pick(0, 3)), second(s), update.gpus, ++version});
    }
    for (int k = 0, n = static_cast<int>(pick(0, 5)); k < n && update.gpus > 0 && last > launched; ++k) {
      AssignmentUpdated a;
      a.id = {WorkloadUid(fmt::format("w-{}", stays++)), 1};
      a.owner = {fmt::format("team-{}", pick(0, 2)), fmt::format("ns-{}", pick(0, 1)), a.id.uid.value()};
      const std::int64_t bound = pick(launched, last), released = pick(bound, last);
      Member member{node, {}, second(bound), {}};
      for (std::int32_t d = 0; d < update.gpus; ++d) {
        if (pick(0, 1) == 0) member.devices.push_back({d, static_cast<std::int32_t>(pick(1, 1000))});
      }
      a.version = 1;
      w.facts.push_back(AssignmentUpdated{a});  // reserved: no member yet
      a.members = {member};
      a.version = 2;
      w.facts.push_back(a);
      if (pick(0, 3) != 0) {
        a.members[0].released = second(released);
        a.version = 3;
        w.facts.push_back(a);
      }
    }
  }
  return w;
}

/// floor(rate * seconds) as differences since launch, second by second where the price may change.
std::int64_t brute_bill(const World& w, std::int64_t as_of) {
  std::int64_t sum = 0;
  for (const auto& i : w.instances) {
    const std::int64_t launched = micros(i.launched) / kSecond;
    const std::int64_t stopped = i.stopped == Instant{} ? as_of : std::min(as_of, micros(i.stopped) / kSecond);
    const auto& table = i.capacity_type == "spot" && !w.spot.empty() ? w.spot : w.plan;
    for (std::int64_t s = launched; s < stopped; ++s) {
      auto it = table.upper_bound(s);
      if (it != table.begin()) --it;
      const auto charge = [&](std::int64_t at) {
        return static_cast<std::int64_t>(static_cast<Wide>(it->second) * (at - launched) * kSecond / kHour);
      };
      sum += charge(s + 1) - charge(s);
    }
  }
  return sum;
}

std::string text_of(const Statement& s) {
  std::string out;
  for (const auto& [team, amount] : s.lines) {
    out += fmt::format("{} {} {}\n", team, amount.nano.nano(), amount.gpu_micros);
  }
  return out + fmt::format("total {} {} bill {} imbalance {} open {}", s.total.nano.nano(), s.total.gpu_micros,
                           s.provider.nano(), s.imbalance.nano(), s.open_instances);
}

/// Applies the facts to an engine: in one step, or in a random order, with repetitions, in random batches at increasing
/// times and with few slices in a step.
Engine play(const World& w, std::uint32_t seed, bool shuffled) {
  std::mt19937 random(seed);
  auto facts = w.facts;
  if (shuffled) {
    const std::size_t once = facts.size();
    for (std::size_t i = 0; i < once; ++i) {
      if (random() % 3 == 0) facts.push_back(facts[i]);
    }
    std::shuffle(facts.begin(), facts.end(), random);
  }
  Options options;
  if (shuffled) {
    options.max_slices = 1 + random() % 4;
    options.max_due = 1 + random() % 4;
  }
  Engine engine(options);
  std::int64_t now = 0;
  for (std::size_t i = 0; i < facts.size();) {
    const std::size_t n = shuffled ? 1 + random() % 4 : facts.size();
    std::vector<Engine::Command> batch(facts.begin() + static_cast<std::ptrdiff_t>(i),
                                       facts.begin() + static_cast<std::ptrdiff_t>(std::min(i + n, facts.size())));
    i += n;
    now += shuffled ? random() % (micros(w.end) / static_cast<std::int64_t>(facts.size())) : 0;
    const auto before = engine.digest();
    engine.step(batch, from_micros(now));
    engine.undo();
    RC_ASSERT(engine.digest() == before);
    const auto out = engine.step(batch, from_micros(now));
    engine.commit();
    RC_ASSERT(engine.audit() == "");
    for (const auto& entry : out.entries) {
      Amount sum;
      for (const auto& line : entry.lines) sum += line.amount;
      RC_ASSERT(sum.zero());
    }
  }
  const std::vector<Engine::Command> tick{Tick{}};
  for (bool more = true; more;) {
    const auto before = engine.digest();
    const auto out = engine.step(tick, w.end);
    engine.commit();
    RC_ASSERT(engine.audit() == "");
    more = out.wake_at && *out.wake_at <= w.end;
    RC_ASSERT(!more || engine.digest() != before);  // each step settles something, so that the loop ends
  }
  return engine;
}

RC_GTEST_PROP(LedgerProperty, AnyOrderAndRepeatsGiveTheSameBooks, (std::uint32_t seed)) {
  const World w = make_world(seed);
  const Engine straight = play(w, seed, false);
  const Engine shuffled = play(w, seed + 1, true);
  const std::int64_t end = micros(w.end) / kSecond;
  for (const std::int64_t s : {end, end - 700, end / 2, std::int64_t{1}}) {
    const auto a = straight.statement("", second(s));
    const auto b = shuffled.statement("", second(s));
    RC_ASSERT(a.has_value() && b.has_value());
    RC_ASSERT(text_of(*a) == text_of(*b));
    RC_ASSERT(a->total.nano.nano() == brute_bill(w, s));
    RC_ASSERT(a->imbalance.nano() == 0);
  }
}

RC_GTEST_PROP(LedgerProperty, GpuTimeIsGpusTimesLifeInAnyWindow, (std::uint32_t seed)) {
  const World w = make_world(seed);
  const Engine engine = play(w, seed, true);
  std::mt19937 random(seed);
  const std::int64_t a = random() % micros(w.end), b = a + 1 + random() % (micros(w.end) - a);
  std::int64_t expected = 0;
  for (const auto& i : w.instances) {
    const std::int64_t stop = i.stopped == Instant{} ? micros(w.end) : micros(i.stopped);
    const std::int64_t from = std::max(a, micros(i.launched)), to = std::min(b, stop);
    if (from < to) expected += (to - from) * i.gpus;
  }
  for (const auto group : {Group::kTeam, Group::kNamespace, Group::kWorkload, Group::kNode}) {
    const auto rows = engine.allocate(from_micros(a), from_micros(b), group);
    RC_ASSERT(rows.has_value());
    Amount sum;
    for (const auto& [key, amount] : *rows) sum += amount;
    RC_ASSERT(sum.gpu_micros == expected);
  }
}

RC_GTEST_PROP(LedgerProperty, WindowsThatTouchAddUp, (std::uint32_t seed)) {
  const World w = make_world(seed);
  const Engine engine = play(w, seed, true);
  std::mt19937 random(seed);
  std::set<std::int64_t> cuts{0, micros(w.end)};
  for (int i = 0; i < 6; ++i) cuts.insert(static_cast<std::int64_t>(random()) % micros(w.end));
  std::map<std::string, Amount> sums;
  for (auto it = cuts.begin(); std::next(it) != cuts.end(); ++it) {
    const auto part = engine.allocate(from_micros(*it), from_micros(*std::next(it)), Group::kTeam);
    RC_ASSERT(part.has_value());
    for (const auto& [key, amount] : *part) sums[key] += amount;
  }
  std::erase_if(sums, [](const auto& entry) { return entry.second.zero(); });
  RC_ASSERT(sums == *engine.allocate(Instant{}, w.end, Group::kTeam));
}

}  // namespace ledger_prop_test
}  // namespace qm::cost
