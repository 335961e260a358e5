#include "claims.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace qm::agent {
namespace claims_test {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;
using Kind = Judgement::Kind;

const GpuOf kFour = {{"a", 0}, {"b", 1}, {"c", 2}, {"d", 3}};
const GpuOf kShares = {{"a::0", 0}, {"a::1", 0}, {"b::0", 1}, {"b::1", 1}};

Claim claim(const std::string& uid, std::vector<std::int32_t> gpus, std::vector<std::int32_t> asks,
            std::set<std::string> given = {}) {
  return {uid,
          "team/" + uid,
          "2026-01-01T00:00:0" + uid.substr(uid.size() - 1) + "Z",
          "quartermaster",
          std::move(gpus),
          std::move(asks),
          std::move(given)};
}

TEST(Claims, TheOldestThatWaitsForSoManyIsPreferred) {
  const std::vector<Claim> claims = {claim("p2", {3}, {1}), claim("p1", {1}, {1}), claim("p0", {0, 2}, {2})};
  EXPECT_THAT(prefer(claims, kFour, {"a", "b", "c", "d"}, {}, 1), ElementsAre("b"));
  EXPECT_THAT(prefer(claims, kFour, {"a", "b", "c", "d"}, {}, 2), ElementsAre("a", "c"));
  EXPECT_THAT(prefer(claims, kFour, {"a", "c", "d"}, {}, 1), ElementsAre("d")) << "p1's is not available";
}

TEST(Claims, ForeignPodsGetUnassignedDevicesFromTheHighestIndex) {
  const std::vector<Claim> claims = {claim("p1", {3}, {1}), claim("s2", {}, {2})};
  EXPECT_THAT(prefer(claims, kFour, {"a", "b", "c", "d"}, {}, 2), ElementsAre("c", "b"));
  EXPECT_THAT(prefer(claims, kFour, {"a", "d"}, {}, 2), ElementsAre("a", "d")) << "but there are no others";
  EXPECT_THAT(prefer(claims, kFour, {"a"}, {}, 2), ElementsAre("a")) << "fewer than were asked";
}

TEST(Claims, WhatMustBeInIsIn) {
  const std::vector<Claim> claims = {claim("p1", {0, 2}, {2})};
  EXPECT_THAT(prefer(claims, kFour, {"a", "b", "c", "d"}, {"c"}, 2), ElementsAre("c", "a"));
  EXPECT_THAT(prefer(claims, kFour, {"a", "b", "c", "d"}, {"b"}, 2), ElementsAre("b", "d"))
      << "b is not of the claim, so the request is of a foreign pod";
}

TEST(Claims, ContainersOfAPodShareItsAssignment) {
  const std::vector<Claim> first = {claim("p1", {0, 1, 2}, {1, 2})};
  EXPECT_THAT(prefer(first, kFour, {"a", "b", "c", "d"}, {}, 2), ElementsAre("a", "b"));
  const std::vector<Claim> second = {claim("p1", {0, 1, 2}, {1, 2}, {"a", "b"})};
  EXPECT_FALSE(second[0].awaits(2));
  EXPECT_THAT(prefer(second, kFour, {"c", "d"}, {}, 1), ElementsAre("c"));
  EXPECT_EQ(judge(second, kFour, {"d"}).kind, Kind::kDiffers);
  EXPECT_EQ(judge(second, kFour, {"c"}).kind, Kind::kHonored);
}

TEST(Claims, SharesAndInstancesGoByTheirGpu) {
  EXPECT_THAT(prefer({claim("p1", {1}, {1})}, kShares, {"a::0", "a::1", "b::1"}, {}, 1), ElementsAre("b::1"));
  EXPECT_THAT(prefer({claim("p1", {1}, {2})}, kShares, {"a::0", "a::1", "b::0", "b::1"}, {}, 2),
              UnorderedElementsAre("b::0", "b::1"))
      << "two instances of the one GPU that was assigned";
  EXPECT_THAT(prefer({claim("p1", {0, 1}, {2})}, kShares, {"a::0", "a::1", "b::0", "b::1"}, {}, 2),
              UnorderedElementsAre("a::0", "b::0"));
}

TEST(Claims, JudgedByTheDevicesNotByTheOrder) {
  const std::vector<Claim> claims = {claim("p1", {0}, {1}), claim("p2", {1}, {1})};
  EXPECT_EQ(judge(claims, kFour, {"b"}).claim->uid, "p2");
  const auto differs = judge(claims, kFour, {"c"});
  EXPECT_EQ(differs.kind, Kind::kDiffers);
  EXPECT_EQ(differs.claim->uid, "p1");
  EXPECT_EQ(judge(claims, kFour, {"c", "d"}).claim, nullptr) << "no pod is pending for two";
}

TEST(Claims, TheServedPodMayBeForeign) {
  const std::vector<Claim> claims = {claim("p1", {0}, {1}), claim("s2", {}, {1})};
  const auto found = judge(claims, kFour, {"d"});
  EXPECT_EQ(found.kind, Kind::kFree);
  EXPECT_EQ(found.claim->uid, "s2");
}

// ---- validation of assignments ----

using Reasons = std::map<std::string, std::string>;
const std::set<std::string> kOurs = {"quartermaster"};

TEST(Unusable, AnAssignmentOfAnotherScheduler) {
  std::vector<Claim> claims = {claim("p1", {0}, {1}), claim("s2", {1}, {1})};
  claims[1].scheduler = "default-scheduler";
  EXPECT_EQ(drop_unusable(claims, kFour, kOurs), (Reasons{{"s2", "OtherScheduler"}}));
  EXPECT_THAT(claims[0].gpus, ElementsAre(0));
  EXPECT_TRUE(claims[1].gpus.empty());
  // The pod is treated as one without an assignment and gets no device that is assigned to another pod.
  EXPECT_THAT(prefer({claims[1]}, kFour, {"a", "b", "c", "d"}, {}, 1), ElementsAre("d"));
  claims[1].gpus = {1};
  EXPECT_EQ(drop_unusable(claims, kFour, {"quartermaster", "default-scheduler"}), Reasons());
}

TEST(Unusable, WhatPlacementNeverWrites) {
  std::vector<Claim> claims = {claim("p1", {0, 1, 2, 3}, {1}), claim("p2", {4}, {1}), claim("p3", {3, 3}, {2}),
                               claim("p4", {0, 2}, {2})};
  EXPECT_EQ(drop_unusable(claims, kFour, kOurs),
            (Reasons{{"p1", "Malformed"}, {"p2", "Malformed"}, {"p3", "Malformed"}}));
  EXPECT_THAT(claims[3].gpus, ElementsAre(0, 2));
}

TEST(Unusable, TheSameDeviceTwice) {
  // The pod with the forged annotation is the older one and would receive its devices first.
  std::vector<Claim> claims = {claim("p5", {1}, {1}), claim("x1", {1}, {1}), claim("p6", {2}, {1})};
  EXPECT_EQ(drop_unusable(claims, kFour, kOurs), (Reasons{{"p5", "Conflict"}, {"x1", "Conflict"}}));
  EXPECT_THAT(prefer(claims, kFour, {"a", "b", "c", "d"}, {}, 1), ElementsAre("c")) << "p6 has what it was assigned";
  // A unit that the kubelet allocated belongs to its pod, even if another pod names it.
  claims = {claim("p5", {1}, {1}, {"b"}), claim("x1", {1}, {1})};
  EXPECT_EQ(drop_unusable(claims, kFour, kOurs), (Reasons{{"x1", "Conflict"}}));
  EXPECT_THAT(claims[0].gpus, ElementsAre(1));
}

TEST(Unusable, SharesOfAGpuMayHaveSeveralPods) {
  std::vector<Claim> claims = {claim("p1", {0}, {1}), claim("p2", {0}, {1})};
  EXPECT_EQ(drop_unusable(claims, kShares, kOurs), Reasons());
  claims.push_back(claim("x3", {0}, {1}));
  EXPECT_EQ(drop_unusable(claims, kShares, kOurs).size(), 3U) << "it has two";
}

}  // namespace claims_test
}  // namespace qm::agent
