// The digest of decisions: equal where only texts differ, and another where a decision does.
#include "decisions.hpp"

#include "quartermaster/v1/events.pb.h"

#include <gtest/gtest.h>

namespace qm::sim {
namespace decisions_test {

namespace pb = quartermaster::v1;

service::FeedEvent evicting(const std::string& message, const std::string& node, std::int32_t attempt) {
  pb::PlacementEvent event;
  event.mutable_eviction()->set_uid("w");
  event.mutable_eviction()->set_attempt(attempt);
  event.mutable_eviction()->set_message(message);
  event.mutable_eviction()->set_node(node);
  service::FeedEvent out;
  out.topic = "qm.placement";
  out.key = "evict/w/1";
  out.payload = event.SerializeAsString();
  return out;
}

service::FeedEvent labeled(std::initializer_list<const char*> labels) {
  pb::GpuEvent event;
  for (const auto* label : labels) (*event.mutable_node_report()->mutable_labels())[label] = "true";
  service::FeedEvent out;
  out.topic = "qm.gpu";
  out.payload = event.SerializeAsString();
  return out;
}

std::string digest(std::initializer_list<service::FeedEvent> events) {
  Decisions decisions;
  for (const auto& event : events) decisions.add("placement", event);
  return decisions.hex();
}

TEST(DecisionDigest, IgnoresTexts) {
  EXPECT_EQ(digest({evicting("the node is lost", "a", 1)}), digest({evicting("node a was deleted", "a", 1)}));
}

TEST(DecisionDigest, DependsOnNamesNumbersKeysAndOrder) {
  const auto one = evicting("lost", "a", 1);
  const auto base = digest({one});
  EXPECT_NE(digest({evicting("lost", "b", 1)}), base);
  EXPECT_NE(digest({evicting("lost", "a", 2)}), base);
  auto other_key = one, last = one;
  other_key.key = "evict/w/2";
  last.tombstone = true;
  EXPECT_NE(digest({other_key}), base);
  EXPECT_NE(digest({last}), base);
  EXPECT_NE(digest({one, other_key}), digest({other_key, one}));
}

TEST(DecisionDigest, SortsMaps) {
  EXPECT_EQ(digest({labeled({"a", "b", "c"})}), digest({labeled({"c", "b", "a"})}));
  EXPECT_NE(digest({labeled({"a", "b"})}), digest({labeled({"a", "c"})}));
}

}  // namespace decisions_test
}  // namespace qm::sim
