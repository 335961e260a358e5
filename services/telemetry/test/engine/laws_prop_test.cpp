// Generated histories: for inputs in any order and any number of repetitions, the laws hold after every step.
// Script::step adds the undo and the restart check to each.
#include "qm/testing/histories.hpp"
#include "test/engine/script.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace qm::telemetry::testing {
namespace laws_prop_test {

using qm::testing::Choice, qm::testing::History;

NodeName node_of(int n) { return NodeName(fmt::format("n{}", n % 3)); }

Command command_of(const Choice& c, Instant now) {
  static constexpr std::int32_t kCodes[] = {13, 31, 45, 48, 79, 154, 119, 9999};
  if (c.what < 25) {
    XidUpdated seen{node_of(c.a), kCodes[c.b % 8], c.a % 8, DeviceUuid(fmt::format("GPU-{}", c.a % 2)), "", now};
    seen.standing = c.b % 3 == 0;
    seen.cleared = c.b % 7 == 0;
    seen.boot = c.b % 5 == 0 ? "b2" : "b1";
    seen.at -= std::chrono::seconds(c.a % 11 == 0 ? c.b % 300 : 0);
    if (c.a % 4 == 0) seen.recovery_action = c.b % 3;
    return seen;
  }
  if (c.what < 45) {
    DevicesUpdated seen{node_of(c.a), now, {}};
    for (int i = 0; i < c.b % 3; ++i)
      seen.pods.push_back({Namespace("x"), fmt::format("p{}", i), {{seen.node, c.b % 4, DeviceUuid(), 1000, ""}}});
    return seen;
  }
  if (c.what < 55) return NoticeUpdated{node_of(c.a), InstanceId(fmt::format("i-{}", c.b % 3)), "terminate", now};
  if (c.what < 70) {
    return OrderUpdated{fmt::format("o{}", c.a % 4),
                        {WorkloadUid("w"), 1},
                        {node_of(c.b), node_of(c.b + 1)},
                        "r",
                        now + std::chrono::seconds(c.b % 400 - 100),
                        c.b % 5 == 0};
  }
  if (c.what < 90) {
    AckUpdated ack;
    ack.order = fmt::format("o{}", c.a % 5);
    ack.node = node_of(c.b);
    ack.step = c.b;
    ack.id = {WorkloadUid(c.b % 7 == 6 ? "v" : "w"), 1};
    return ack;
  }
  if (c.what < 95) return NodeDeleted{node_of(c.a)};
  return Tick{};
}

template <class Fn>
void play(const History& history, Fn&& after) {
  Script script;
  for (const auto& choices : history) {
    script.advance(std::chrono::seconds(choices.empty() ? 600 : choices[0].b % 120));
    std::vector<Command> batch;
    for (const auto& c : choices) batch.push_back(command_of(c, script.now()));
    after(script, batch, script.step(batch));
  }
}

TEST(Laws, HoldAfterEveryStep) {
  std::size_t verdicts = 0, acks = 0;
  EXPECT_TRUE(rc::check("laws", [&] {
    std::map<NodeName, Health> observed;
    std::map<NodeName, DevicesUpdated> devices;
    play(*qm::testing::histories(4), [&](Script& script, const std::vector<Command>&, const Output& out) {
      const auto& tables = script.engine().tables();
      for (const auto& h : out.health) {
        if (h.gone) {
          RC_ASSERT(observed.erase(h.node) == 1);
          continue;
        }
        ++verdicts;
        // Verdicts only become more severe, and each event has a change.
        RC_ASSERT((!observed.contains(h.node) ||
                   (observed.at(h.node).action <= h.row.action && observed.at(h.node) != h.row)));
        observed[h.node] = h.row;
      }
      for (const auto& d : out.devices) {
        RC_ASSERT((!devices.contains(d.seen.node) || d.gone || devices.at(d.seen.node).pods != d.seen.pods));
        d.gone ? void(devices.erase(d.seen.node)) : void(devices[d.seen.node] = d.seen);
      }
      for (const auto& a : out.acks) RC_ASSERT(tables.orders.contains(a.order) && a.id.uid == WorkloadUid("w"));
      acks += out.acks.size();
      // The published state equals the stored state: a consumer of the events alone has the same.
      RC_ASSERT(observed == tables.health.rows());
      RC_ASSERT(devices.size() == tables.devices.size());
      for (const auto& [node, pods] : tables.devices) RC_ASSERT(devices.at(node).pods == pods);
      // Acknowledgements are stored for stored orders only, and every entry expires.
      for (const auto& [key, step] : tables.acked) RC_ASSERT(tables.orders.contains(key.first));
      for (const auto& [id, order] : tables.orders) {
        RC_ASSERT(order.deadline + std::chrono::minutes(10) > script.now());
        RC_ASSERT(
            (out.wake_at && *out.wake_at > script.now() && *out.wake_at <= order.deadline + std::chrono::minutes(10)));
      }
      RC_ASSERT(out.wake_at.has_value() == (tables.orders.size() + tables.xids_until.size() > 0));
      for (int n = 0; n < 3; ++n) {
        for (const auto& [id, order] : script.engine().open_orders(node_of(n))) {
          RC_ASSERT((order.deadline > script.now() && !tables.acked.contains({id, node_of(n)})));
        }
      }
    });
  }));
  EXPECT_GT(verdicts, 100U) << "the generated histories hardly judge anything";
  EXPECT_GT(acks, 50U) << "the generated histories hardly acknowledge anything";
}

TEST(Laws, ARepetitionIsPublishedOnce) {
  EXPECT_TRUE(rc::check("repeats", [] {
    play(*qm::testing::histories(4), [&](Script& script, const std::vector<Command>& batch, const Output&) {
      // An agent without a confirmation sends a batch again. Objects that are created and deleted in it are published
      // again.
      for (const auto& c : batch) {
        if (std::holds_alternative<NodeDeleted>(c)) return;
        if (const auto* notice = std::get_if<NoticeUpdated>(&c)) {
          const auto* known = script.engine().tables().notices.find(notice->node);
          if (known != nullptr && known->instance != notice->instance) return;
        }
      }
      std::map<NodeName, std::size_t> lists;
      for (const auto& c : batch) {
        if (const auto* seen = std::get_if<DevicesUpdated>(&c)) ++lists[seen->node];
      }
      if (std::any_of(lists.begin(), lists.end(), [](const auto& l) { return l.second > 1; })) return;
      // An acknowledgement that preceded its order in the batch is accepted the second time.
      std::vector<Command> facts = batch;
      std::erase_if(facts, [](const Command& c) { return std::holds_alternative<AckUpdated>(c); });
      RC_ASSERT(render(script.step(facts)).empty());
    });
  }));
}

TEST(Laws, ARestartChangesNothing) {
  EXPECT_TRUE(rc::check("restart", [] {
    Engine other;
    play(*qm::testing::histories(4), [&](Script& script, const std::vector<Command>& batch, const Output& out) {
      const auto same = other.step(batch, script.now());
      other.commit();
      RC_ASSERT(render(same) == render(out));
      RC_ASSERT(same.wake_at == out.wake_at);
      RC_ASSERT(other.digest() == script.engine().digest());
      other = restarted(other);
    });
  }));
}

}  // namespace laws_prop_test
}  // namespace qm::telemetry::testing
