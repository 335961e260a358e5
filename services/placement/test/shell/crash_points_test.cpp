// The executor stops at each of its named crash points and is called again, as after a restart: the
// effect exists once.
#include "little_kube.hpp"
#include "qm/base/crash_point.hpp"
#include "qm/placement/shell.hpp"

#include <gtest/gtest.h>

#include <set>

namespace qm::placement {
namespace crash_points_test {

using testing::make_pod;
using testing::pod_path;

struct Death {};

TEST(CrashPoints, EachPlacementPointIsSurvived) {
  std::set<std::string_view> points;
  for (const auto name : crash_points())
    if (name.starts_with("placement.")) points.insert(name);
  EXPECT_FALSE(points.empty());
  const Json bind = Json::object({{"uid", "w"},
                                  {"attempt", 2},
                                  {"namespace", "team"},
                                  {"pod", "p"},
                                  {"pod_uid", "uid-p"},
                                  {"node", "a"},
                                  {"devices", "0,3"}});
  const Json remove = Json::object({{"namespace", "team"}, {"pod", "p"}, {"pod_uid", "uid-p"}, {"grace_s", 0}});
  for (const auto point : points) {
    testing::LittleKube kube;
    kube::Client client{{kube.origin()}};
    KubeExecutor executor{client};
    kube.put(pod_path("p"), make_pod("p", "w", 2, 0, 2));
    bool died = false;
    for (const auto& [kind, order] : {std::pair{"pod.bind", &bind}, std::pair{"pod.delete", &remove}}) {
      const store::IntentRow intent{"placement/1", kind, "k", 1, order->dump()};
      arm_crash_point(point, 1, [](std::string_view) { throw Death{}; });
      try {
        (void)executor.execute(intent);
      } catch (const Death&) {
        died = true;
      }
      disarm_crash_points();
      const auto again = executor.execute(intent);
      ASSERT_TRUE(again) << point << " " << kind << ": " << again.error().to_string();
      EXPECT_EQ((*Json::parse(again->bytes))["code"].integer(-1), 0) << point;
      EXPECT_TRUE(order != &bind || kube.get(pod_path("p")).path("spec.nodeName").string() == "a") << point;
    }
    EXPECT_TRUE(died) << point << " is reached by neither a bind nor a deletion";
  }
}

}  // namespace crash_points_test
}  // namespace qm::placement
