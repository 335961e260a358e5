// Event lines: their text, and that each is published once, without earlier messages.
#include "qm/telemetry/shell.hpp"
#include "qm/testing/testing.hpp"
#include "quartermaster/v1/events.pb.h"
#include "test/shell/little_service.hpp"

#include <gtest/gtest.h>

namespace qm::telemetry::testing {
namespace observer_test {

using qm::testing::wait_until;

template <class Message, class Fill>
std::string line_of(const std::string& topic, Fill fill) {
  Message m;
  fill(m);
  return summary_of(topic, m.SerializeAsString());
}

TEST(Summary, OfWorkloads) {
  EXPECT_EQ(line_of<pb::WorkloadEvent>("qm.workload",
                                       [](auto& e) {
                                         e.mutable_spec()->set_namespace_("team");
                                         e.mutable_spec()->set_name("train");
                                         e.set_attempt(2);
                                         e.set_phase(pb::PENDING);
                                         e.set_reason("waits for quota");
                                       }),
            "team/train attempt 2 Pending waits for quota");
}

TEST(Summary, OfEachPlacementEvent) {
  const auto line = [](auto fill) { return line_of<pb::PlacementEvent>("qm.placement", fill); };
  EXPECT_EQ(line([](auto& e) {
              auto* a = e.mutable_assignment();
              a->set_namespace_("team");
              a->set_workload("train");
              a->set_attempt(1);
              a->set_state(pb::SHORT);
              a->add_members();
              a->set_short_reason("no capacity");
            }),
            "team/train attempt 1 Short on 1 pod no capacity");
  EXPECT_EQ(line([](auto& e) { e.mutable_demand()->add_items(); }), "1 workload pending for lack of nodes");
  EXPECT_EQ(line([](auto& e) {
              e.mutable_eviction()->set_uid("w");
              e.mutable_eviction()->set_attempt(3);
              e.mutable_eviction()->set_reason("NodeFailure");
              e.mutable_eviction()->set_message("node a is gone");
            }),
            "w attempt 3: eviction requested: NodeFailure node a is gone");
  EXPECT_EQ(line([](auto& e) {
              e.mutable_proposal()->set_number(7);
              e.mutable_proposal()->set_uid("w");
              e.mutable_proposal()->set_attempt(3);
              e.mutable_proposal()->add_victims();
              e.mutable_proposal()->set_micro_usd(410'000);
            }),
            "w attempt 3: preemption proposal 7: 1 victim, $0.41");
}

TEST(Summary, OfEachCapacityEvent) {
  const auto line = [](auto fill) { return line_of<pb::CapacityEvent>("qm.capacity", fill); };
  EXPECT_EQ(line([](auto& e) {
              auto* i = e.mutable_instance();
              i->set_claim("c1");
              i->set_instance_type("p5.48xlarge");
              i->set_capacity_type("spot");
              i->set_state(pb::INSTANCE_FAILED);
              i->set_reason("no capacity");
            }),
            "c1 p5.48xlarge spot Failed no capacity");
  EXPECT_EQ(line([](auto& e) {
              e.mutable_price()->set_instance_type("p5.48xlarge");
              e.mutable_price()->set_zone("us-east-1a");
              e.mutable_price()->set_nano_usd_hour(42);
            }),
            "spot price of p5.48xlarge in us-east-1a: 42 nano-dollars an hour");
  EXPECT_EQ(line([](auto& e) {
              e.mutable_promise()->set_uid("w");
              e.mutable_promise()->set_attempt(1);
              e.mutable_promise()->add_claims("c1");
            }),
            "w attempt 1: 1 instance expected");
  EXPECT_EQ(line([](auto& e) {
              e.mutable_promise()->set_uid("w");
              e.mutable_promise()->set_attempt(1);
              e.mutable_promise()->set_withdrawn(true);
            }),
            "w attempt 1: no instances are expected any more");
  EXPECT_EQ(line([](auto& e) {
              e.mutable_eviction()->set_uid("w");
              e.mutable_eviction()->set_attempt(1);
              e.mutable_eviction()->set_reason("SpotInterruption");
            }),
            "w attempt 1: eviction requested: SpotInterruption");
  const auto checkpoint = [&](const std::string& outcome) {
    return line([&](auto& e) {
      e.mutable_checkpoint()->set_uid("w");
      e.mutable_checkpoint()->set_attempt(1);
      e.mutable_checkpoint()->set_outcome(outcome);
      e.mutable_checkpoint()->set_step(outcome.empty() ? 0 : 70);
    });
  };
  EXPECT_EQ(checkpoint(""), "w attempt 1: checkpoint ordered");
  EXPECT_EQ(checkpoint("Acked"), "w attempt 1: checkpoint Acked step 70");
  const auto drain = [&](bool lifted) {
    return line([&](auto& e) {
      e.mutable_drain()->set_node("a");
      e.mutable_drain()->set_reason("SpotInterruption");
      e.mutable_drain()->set_lifted(lifted);
    });
  };
  EXPECT_EQ(drain(false), "drain of a requested: SpotInterruption");
  EXPECT_EQ(drain(true), "drain of a withdrawn: SpotInterruption");
}

TEST(Summary, OfNodesGpusSpotAndCost) {
  EXPECT_EQ(line_of<pb::NodeEvent>("qm.node",
                                   [](auto& e) {
                                     e.set_node("a");
                                     e.set_state(pb::NODE_CORDONED);
                                     e.set_pods(2);
                                     e.set_reason("drain");
                                   }),
            "a Cordoned 2 pods drain");
  EXPECT_EQ(line_of<pb::GpuEvent>("qm.gpu",
                                  [](auto& e) {
                                    e.mutable_health()->set_node("a");
                                    e.mutable_health()->set_reason("XID 79 on GPU 3");
                                  }),
            "a: XID 79 on GPU 3");
  EXPECT_EQ(line_of<pb::GpuEvent>("qm.gpu",
                                  [](auto& e) {
                                    e.mutable_devices()->set_node("a");
                                    e.mutable_devices()->add_pods();
                                  }),
            "a: 1 pod with devices");
  EXPECT_EQ(line_of<pb::GpuEvent>("qm.gpu",
                                  [](auto& e) {
                                    e.mutable_node_report()->set_node("a");
                                    (*e.mutable_node_report()->mutable_labels())["k"] = "v";
                                  }),
            "a: 1 label and 0 annotations of its agent");
  const auto usage = [](const std::string& pod) {
    return line_of<pb::GpuEvent>("qm.gpu", [&](auto& e) {
      e.mutable_usage()->set_node("a");
      e.mutable_usage()->set_gpu_index(3);
      e.mutable_usage()->set_utilization(0.256);
      e.mutable_usage()->set_pod(pod);
    });
  };
  EXPECT_EQ(usage("p"), "a GPU 3: 26 % used by p");
  EXPECT_EQ(usage(""), "a GPU 3: 26 % used by no pod");
  EXPECT_EQ(line_of<pb::SpotEvent>("qm.spot",
                                   [](auto& e) {
                                     e.mutable_notice()->set_node("a");
                                     e.mutable_notice()->set_at_us(1'000'000);
                                   }),
            "a is interrupted at 1970-01-01T00:00:01Z");
  const auto ack = [](bool ok) {
    return line_of<pb::SpotEvent>("qm.spot", [&](auto& e) {
      auto* a = e.mutable_ack();
      a->set_node("a");
      a->set_ranks(4);
      a->set_step(70);
      a->set_uid("w");
      a->set_attempt(1);
      a->set_ok(ok);
      a->set_message("rank 2 answered 500");
    });
  };
  EXPECT_EQ(ack(true), "w attempt 1: 4 ranks on a saved step 70");
  EXPECT_EQ(ack(false), "w attempt 1: no checkpoint on a: rank 2 answered 500");
  EXPECT_EQ(line_of<pb::CostEvent>("qm.cost",
                                   [](auto& e) {
                                     e.mutable_totals()->set_period("2026-11");
                                     e.mutable_totals()->set_team("research");
                                     e.mutable_totals()->set_nano_usd(7);
                                   }),
            "2026-11 research: 7 nano-dollars");
  const auto grant = [](bool withdrawn) {
    return line_of<pb::CostEvent>("qm.cost", [&](auto& e) {
      e.mutable_grant()->set_budget("b");
      e.mutable_grant()->set_withdrawn(withdrawn);
    });
  };
  EXPECT_EQ(grant(false), "budget b is granted");
  EXPECT_EQ(grant(true), "budget b is withdrawn");
  EXPECT_EQ(line_of<pb::CostEvent>("qm.cost",
                                   [](auto& e) {
                                     e.mutable_spent()->set_uid("w");
                                     e.mutable_spent()->set_attempt(2);
                                     e.mutable_spent()->set_nano_usd(9);
                                     e.mutable_spent()->set_final(true);
                                   }),
            "w attempt 2 spent 9 nano-dollars in total");
}

// Every kind of event with the uid of a workload shows its name once it is known.
TEST(Summary, NamesTheWorkloadAndNotItsUid) {
  WorkloadNames names;
  pb::WorkloadEvent workload;
  workload.mutable_spec()->set_uid("uid-of-train");
  workload.mutable_spec()->set_namespace_("team");
  workload.mutable_spec()->set_name("train");
  names.learn("qm.workload", "uid-of-train", workload.SerializeAsString());
  int judged = 0;
  const auto judge = [&](const std::string& topic, const google::protobuf::Message& prototype) {
    const auto* oneof = prototype.GetDescriptor()->FindOneofByName("event");
    for (int i = 0; i < oneof->field_count(); ++i) {
      const std::unique_ptr<google::protobuf::Message> event(prototype.New());
      auto* one = event->GetReflection()->MutableMessage(event.get(), oneof->field(i));
      const auto* uid = one->GetDescriptor()->FindFieldByName("uid");
      if (uid == nullptr) continue;
      one->GetReflection()->SetString(one, uid, "uid-of-train");
      if (auto* assignment = dynamic_cast<pb::AssignmentEvent*>(one); assignment != nullptr) {
        assignment->set_namespace_("team");
        assignment->set_workload("train");
      }
      const auto line = summary_of(topic, event->SerializeAsString(), names);
      EXPECT_EQ(line.find("uid-of"), std::string::npos) << line;
      EXPECT_NE(line.find("team/train"), std::string::npos) << oneof->field(i)->name() << ": " << line;
      ++judged;
    }
  };
  judge("qm.placement", pb::PlacementEvent());
  judge("qm.capacity", pb::CapacityEvent());
  judge("qm.spot", pb::SpotEvent());
  judge("qm.cost", pb::CostEvent());
  EXPECT_GE(judged, 8);
  names.learn("qm.workload", "uid-of-train", "");  // it is deleted
  EXPECT_EQ(names.name_of("uid-of-train"), "uid-of-train");
}

TEST(Summary, OfWhatCannotBeRead) {
  for (const std::string topic :
       {"qm.workload", "qm.placement", "qm.capacity", "qm.node", "qm.gpu", "qm.spot", "qm.cost"}) {
    EXPECT_EQ(summary_of(topic, "\x01\xff"), "(not readable)") << topic;
  }
  EXPECT_EQ(summary_of("qm.capacity", ""), "");
  EXPECT_EQ(summary_of("qm.other", "x"), "");
}

struct Lines {
  std::mutex mutex;
  std::vector<std::string> keys;
  std::size_t size() {
    const std::lock_guard lock(mutex);
    return keys.size();
  }
  std::vector<std::string> all() {
    const std::lock_guard lock(mutex);
    return keys;
  }
};

TEST(Observer, ReportsChangesFromTheStartOnce) {
  LittleService service;
  ASSERT_TRUE(wait_until([&] { return service.observer->caught_up(); }));
  service.publish("qm.cost", "before", "");
  RedisMirror none("", service.samples);
  Lines lines, others;  // it receives lines until it is destroyed
  Observer late(service.bus, none, "other");
  const auto handle = late.follow([&](const pb::EventLine& line) {
    const std::lock_guard lock(lines.mutex);
    lines.keys.push_back(line.topic() + " " + line.key() + " " + std::to_string(line.key_version()) + " " +
                         line.source());
  });
  late.start();
  ASSERT_TRUE(wait_until([&] { return late.caught_up(); }));
  service.publish("qm.workload", "w", "");
  service.publish("qm.workload", "w", "");
  service.publish("qm.cost", "after", "");
  ASSERT_TRUE(wait_until([&] { return lines.size() == 3; }));
  auto got = lines.all();
  std::sort(got.begin(), got.end());
  EXPECT_EQ(got, (std::vector<std::string>{"qm.cost after 1 owner", "qm.workload w 1 owner", "qm.workload w 2 owner"}));
  late.unfollow(handle);
  service.publish("qm.cost", "unheard", "");
  (void)late.follow([&](const pb::EventLine& line) {
    const std::lock_guard lock(others.mutex);
    others.keys.push_back(line.key());
  });
  service.publish("qm.cost", "unheard", "");
  ASSERT_TRUE(wait_until([&] { return others.size() > 0; }));
  EXPECT_EQ(lines.size(), 3U);
}

/// A bus whose consumer fails on request.
class FragileBus final : public bus::Bus {
 public:
  explicit FragileBus(std::shared_ptr<bus::Bus> real) : real_(std::move(real)) {}
  std::atomic<int> fail_polls = 0, consumers = 0;
  Status ensure_topics(std::span<const std::string> topics, int partitions) override {
    return real_->ensure_topics(topics, partitions);
  }
  Result<std::unique_ptr<bus::Producer>> producer(const std::string& id) override { return real_->producer(id); }
  Result<std::unique_ptr<bus::Consumer>> consumer(bus::ConsumerOptions options) override {
    ++consumers;
    QM_ASSIGN(auto real, real_->consumer(std::move(options)));
    return std::make_unique<Fragile>(*this, std::move(real));
  }
  [[nodiscard]] std::string name() const override { return "fragile"; }

 private:
  struct Fragile final : bus::Consumer {
    Fragile(FragileBus& b, std::unique_ptr<bus::Consumer> r) : bus(b), real(std::move(r)) {}
    Result<std::vector<bus::Message>> poll(std::size_t max, SteadyDuration timeout) override {
      if (bus.fail_polls > 0) {
        --bus.fail_polls;
        return fail(Code::kUnavailable, "planted");
      }
      return real->poll(max, timeout);
    }
    void report(const bus::TopicPartition& at, std::int64_t next) override { real->report(at, next); }
    [[nodiscard]] std::vector<bus::TopicPartition> assignment() const override { return real->assignment(); }
    [[nodiscard]] std::int64_t lag() const override { return real->lag(); }
    [[nodiscard]] std::map<bus::TopicPartition, std::int64_t> ends() const override { return real->ends(); }
    Result<std::optional<std::string>> value_at(const bus::TopicPartition& at, std::int64_t offset,
                                                SteadyDuration timeout) override {
      return real->value_at(at, offset, timeout);
    }
    FragileBus& bus;
    std::unique_ptr<bus::Consumer> real;
  };
  std::shared_ptr<bus::Bus> real_;
};

TEST(Observer, ReadsOnWhereItWasAfterAFailureOfTheBus) {
  LittleService service;
  const auto fragile = std::make_shared<FragileBus>(service.bus);
  RedisMirror none("", service.samples);
  Lines lines;
  Observer observer(fragile, none, "other");
  (void)observer.follow([&](const pb::EventLine& line) {
    const std::lock_guard lock(lines.mutex);
    lines.keys.push_back(line.key());
  });
  observer.start();
  ASSERT_TRUE(wait_until([&] { return observer.caught_up(); }));
  service.publish("qm.cost", "one", "");
  ASSERT_TRUE(wait_until([&] { return lines.size() == 1; }));
  fragile->fail_polls = 2;
  ASSERT_TRUE(wait_until([&] { return fragile->consumers == 3; }));
  service.publish("qm.cost", "two", "");
  ASSERT_TRUE(wait_until([&] { return lines.size() >= 2; }));
  EXPECT_EQ(lines.all(), (std::vector<std::string>{"one", "two"}));
}

}  // namespace observer_test
}  // namespace qm::telemetry::testing
