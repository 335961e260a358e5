// Faults that are injected into the world.
#include "qm/kube/client.hpp"
#include "world.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace qm::sim {

void World::lose_node(const std::string& name) {
  if (Node* at = node(name); at != nullptr && !at->sliced && !at->cuttable) stop_instance(instances.at(at->instance));
}

void World::silence_node(const std::string& name, Duration for_how_long) {
  Node* at = node(name);
  if (at == nullptr || !at->ready || !at->alive) return;
  at->ready = false;
  at->back_at = now_ + for_how_long;
  for (auto& [uid, pod] : pods) {
    if (pod.node == name && pod.phase == Pod::Phase::kRunning) {
      pod.left_us = std::max<std::int64_t>(1'000'000, pod.left_us - (now_ - pod.started).count());
    }
  }
  publish_node(*at);
}

void World::forge_pod(const std::string& uid, bool succeeded) {
  const Job& job = jobs.at(uid);
  const Json& of = job.body["spec"]["template"];
  Pod pod;
  pod.uid = number("pod-uid-");
  pod.ns = "intruder";
  pod.name = job.name + "-forged-" + std::to_string(counter_);
  pod.job = uid;
  pod.forged = true;
  if (const std::string attempt = kube::annotation(of, words::kAttempt); !attempt.empty())
    pod.attempt = std::stoi(attempt);
  pod.index = static_cast<int>(random_.between(0, job.pods - 1));
  pod.phase = succeeded ? Pod::Phase::kSucceeded : Pod::Phase::kPending;
  Json meta = of["metadata"];
  // The pod as a product that does not compare namespaces would see it.
  meta.set("name", pod.name).set("namespace", bug_ == Bug::kForgedPod ? job.ns : pod.ns).set("uid", pod.uid);
  meta.set("annotations").set(words::kJobIndex, std::to_string(pod.index));
  meta.set("ownerReferences",
           Json::array({Json::object({{"kind", "Job"}, {"name", job.name}, {"uid", uid}, {"controller", true}})}));
  pod.body = Json::object({{"metadata", std::move(meta)}, {"spec", of["spec"]}});
  const std::string key = pod.uid;
  note(fmt::format("a tenant forges pod {} of {}", pod.name, job.name));
  publish_pod(pods.emplace(key, std::move(pod)).first->second);
}

void World::spot_notice(const std::string& id, Duration notice) {
  auto& instance = instances.at(id);
  if (!instance.taken_at && !instance.stopped) instance.taken_at = now_ + notice;
}

}  // namespace qm::sim
