#pragma once
#include "fleet.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace qm::fleet {

/// A fleet on a manual clock, with helper functions. Nothing runs outside advance().
struct Rig {
  explicit Rig(Fleet::Options options = {})
      : fleet(std::move(options), PriceTable::built_in(), manual_clock(*from_rfc3339("2026-11-21T09:00:00Z"))),
        world(fleet.world),
        store(fleet.store),
        cluster(fleet.cluster) {
    make("namespaces", "", Json::object({{"metadata", Json::object({{"name", "team-a"}})}}));
  }

  void advance(std::int64_t seconds) { world.advance(std::chrono::seconds(seconds)); }
  void settle() { world.advance(Duration(0)); }

  Instance launch(const std::string& type = "p5.48xlarge", Market market = Market::kOnDemand) {
    LaunchSpec spec;
    spec.type = type;
    spec.market = market;
    spec.initial = true;
    return *world.launch_instance(spec);
  }
  ObjectPtr make(std::string_view plural, const std::string& ns, Json object) {
    auto made = store.create(kind_of(plural), ns, std::move(object));
    EXPECT_TRUE(made.has_value()) << made.error().message;
    return made ? *made : nullptr;
  }
  Json get(std::string_view plural, const std::string& ns, const std::string& name) {
    const auto object = store.find(kind_of(plural), ns, name);
    return object ? *object : Json();
  }
  /// A merge patch, as the API applies it.
  Answered<ObjectPtr> merge(const Kind& kind, const std::string& ns, const std::string& name, const Json& change,
                            Part part) {
    FLEET_ASSIGN(const auto before, store.get(kind, ns, name));
    Json after = *before;
    after.merge_patch(change);
    return store.update(kind, ns, name, std::move(after), part);
  }
  void patch(std::string_view plural, const std::string& ns, const std::string& name, const char* change) {
    const auto done = merge(kind_of(plural), ns, name, *Json::parse(change), Part::kMain);
    EXPECT_TRUE(done.has_value()) << done.error().message;
  }

  static Json pod_spec(int gpus) {
    return Json::object(
        {{"restartPolicy", "Never"},
         {"schedulerName", "quartermaster"},
         {"containers", Json::array({Json::object(
                            {{"name", "main"},
                             {"image", "trainer:1"},
                             {"resources", Json::object({{"limits", Json::object({{"nvidia.com/gpu", gpus}})}})}})})}});
  }
  ObjectPtr make_pod(const std::string& name, int gpus, Json annotations = Json::object()) {
    return make("pods", "team-a",
                Json::object({{"metadata", Json::object({{"name", name}, {"annotations", std::move(annotations)}})},
                              {"spec", pod_spec(gpus)}}));
  }
  ObjectPtr make_job(const std::string& name, int ranks, int gpus, Json annotations = Json::object(),
                     bool suspend = false) {
    return make(
        "jobs", "team-a",
        Json::object(
            {{"metadata", Json::object({{"name", name}, {"labels", Json::object({{"quartermaster.dev/team", "a"}})}})},
             {"spec",
              Json::object(
                  {{"parallelism", ranks},
                   {"completions", ranks},
                   {"completionMode", "Indexed"},
                   {"backoffLimit", 100},
                   {"suspend", suspend},
                   {"template", Json::object({{"metadata", Json::object({{"annotations", std::move(annotations)}})},
                                              {"spec", pod_spec(gpus)}})}})}}));
  }
  /// Names of the job's pods that exist, by index.
  std::vector<std::string> pods_of(const ObjectPtr& job) {
    std::map<std::string, std::string> by_index;
    for (const auto& pod : store.owned_by(uid_of(*job), kind_of("pods"))) {
      by_index[annotation_of(*pod, words::kJobIndex).string() + "/" + name_of(*pod)] = name_of(*pod);
    }
    std::vector<std::string> names;
    for (auto& [index, name] : by_index) names.push_back(name);
    return names;
  }
  Answered<ObjectPtr> bind(const std::string& pod, const std::string& node, const std::string& devices = "") {
    Json binding = Json::object({{"metadata", Json::object()}, {"target", Json::object({{"name", node}})}});
    if (!devices.empty()) {
      binding.set("metadata").set("annotations", Json::object({{"quartermaster.dev/devices", devices}}));
    }
    return store.bind("team-a", pod, binding);
  }
  std::string phase(const std::string& pod) { return get("pods", "team-a", pod)["status"]["phase"].string(); }
  /// Lines of the history of one event, with an optional kind.
  std::vector<Json> history(std::string_view event, std::string_view kind = {}) {
    std::vector<Json> found;
    for (const auto& text : world.history().lines()) {
      Json line = *Json::parse(text);
      if (line["e"].string() == event && (kind.empty() || line["kind"].string() == kind))
        found.push_back(std::move(line));
    }
    return found;
  }

  Fleet fleet;
  World& world;
  ObjectStore& store;
  Cluster& cluster;
};

inline Json annotations(std::initializer_list<Json::Member> members) { return Json(Json::Object(members)); }
inline Json run_for(int seconds) {
  return annotations({{"fleet.quartermaster.dev/run-seconds", std::to_string(seconds)}});
}

}  // namespace qm::fleet
