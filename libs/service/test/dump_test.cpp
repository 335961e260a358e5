// /debug/state of a large state: bounded work in each turn of the engine, and a complete result.
#include "sums.hpp"

#include <algorithm>

namespace qm::service {
namespace dump_test {

constexpr int kKeys = 10 * static_cast<int>(Host::kDumpObjects) + 7;

void fill(World& w) {
  for (int i = 0; i < kKeys; ++i) ASSERT_TRUE(w.add(fmt::format("k{:05}={}", i, i + 1), {}));
  while (w.host->pump()) {
  }
}

TEST(StateDump, ALargeStateIsReadInBoundedParts) {
  World w("dump");
  w.boot();
  fill(w);
  const Json state = w.host->debug_state();
  EXPECT_EQ(w.sums->turns.size(), 11U);
  EXPECT_EQ(std::ranges::max(w.sums->turns), Host::kDumpObjects);
  ASSERT_EQ(state["engine"]["sums"].size(), static_cast<std::size_t>(kKeys));
  EXPECT_EQ(state["engine"]["sums"]["k02000"].integer(), 2001);
  EXPECT_EQ(state["engine"]["keys"].integer(), kKeys);
  EXPECT_EQ(state.path("journal.first").integer(), state.path("journal.last").integer());
}

/// Decides a batch in each turn, as an engine that a dump does not block.
class Busy final : public Shell {
 public:
  explicit Busy(std::function<void()> turn) : turn_(std::move(turn)) {}
  Status load(std::span<const store::StateRow>) override { return {}; }
  void step(std::span<const Input> batch, Instant, Effects& out, std::vector<std::pair<std::size_t, Error>>&) override {
    for (std::size_t i = 0; i < batch.size(); ++i) {
      if (batch[i].source == Source::kRequest) out.answers.push_back({i, std::string("done")});
    }
  }
  void undo() override {}
  void commit() override {}
  [[nodiscard]] std::uint64_t digest() const override { return 0; }
  void debug_state(StateDump& out) const override {
    out.map("rows", rows_, [](int key, int row) { return std::pair(std::to_string(key), Json(row)); });
    turn_();
  }

 private:
  static std::map<int, int> many() {
    std::map<int, int> out;
    for (int i = 0; i < kKeys; ++i) out[i] = i;
    return out;
  }
  std::map<int, int> rows_ = many();
  std::function<void()> turn_;
};

TEST(StateDump, TheEngineDecidesBetweenTheTurns) {
  ManualClock clock{from_micros(1'000'000)};
  Host* at = nullptr;
  std::atomic<int> turns{0};
  std::mutex mutex;
  std::vector<int> answered;  // number of turns until the reply
  // In each turn a request arrives; each is replied to within two turns.
  auto shell = std::make_unique<Busy>([&] {
    ++turns;
    Input in;
    in.source = Source::kRequest;
    EXPECT_TRUE(at->submit(std::move(in), [&](const Result<std::string>& reply) {
      EXPECT_TRUE(reply) << reply.error().to_string();
      const std::lock_guard lock(mutex);
      answered.push_back(turns);
    }));
  });
  Host host({.service = "test"}, std::move(shell), store::open_memory(store::make_memory_disk()), nullptr, clock,
            nullptr);
  at = &host;
  ASSERT_TRUE(host.open());
  host.start();
  const Json state = host.debug_state();
  host.stop();
  EXPECT_EQ(state["engine"]["rows"].size(), static_cast<std::size_t>(kKeys));
  EXPECT_EQ(turns, 11);
  ASSERT_EQ(answered.size(), 11U);
  for (int i = 0; i < 11; ++i) EXPECT_EQ(answered[static_cast<std::size_t>(i)], i + 1) << "request " << i;
  EXPECT_LT(state.path("journal.first").integer(), state.path("journal.last").integer()) << "the dump shows it";
}

TEST(StateDump, TheDigestIsThatOfTheRowsAndSurvivesARestart) {
  World w("digest");
  w.boot();
  const auto digest = [&] { return w.host->debug_state()["digest"].string(); };
  const auto empty = digest();
  ASSERT_TRUE(w.add("a=1", "r1"));
  ASSERT_TRUE(w.add("b=2", "r2"));
  w.settle();
  const auto both = digest();
  EXPECT_NE(both, empty);
  w.boot();
  EXPECT_EQ(digest(), both);
  ASSERT_TRUE(w.add("a=4", "r3"));
  w.settle();
  EXPECT_NE(digest(), both);
  ASSERT_TRUE(w.add("a=-4", "r4"));
  w.settle();
  // Outcomes of intents are counted in a separate row.
  w.boot();
  const auto again = digest();
  w.boot();
  EXPECT_EQ(digest(), again);
  store::plant_outcome(*w.disk, store::CommitOutcome::kNotCommitted);
  ASSERT_TRUE(w.add("c=1", "r5"));
  w.host->pump();
  EXPECT_EQ(digest(), again) << "what is not committed is not in it";
}

TEST(StateDump, PartsOfAnObjectCount) {
  std::map<int, int> rows;
  for (int i = 0; i < 10; ++i) rows[i] = i;
  StateDump dump(100);
  int turns = 0;
  do {
    dump.begin_turn();
    ++turns;
    dump.map("heavy", rows, [&](int key, int) {
      dump.weigh(59);
      return std::pair(std::to_string(key), Json(1));
    });
    dump.once("sum", [] { return Json(45); });
    dump.list("odd", rows, [](int key, int) { return key % 2 == 1 ? std::optional(Json(key)) : std::nullopt; });
    EXPECT_LE(dump.used(), 120U);
  } while (!dump.complete());
  EXPECT_EQ(turns, 6) << "two heavy objects a turn";
  const Json out = dump.take();
  EXPECT_EQ(out["heavy"].size(), 10U);
  EXPECT_EQ(out["sum"].integer(), 45);
  EXPECT_EQ(out["odd"].dump(), "[1,3,5,7,9]");
}

}  // namespace dump_test
}  // namespace qm::service
