#include "qm/admission/status.hpp"

#include "qm/admission/codec.hpp"
#include "qm/admission/queries/queues.hpp"
#include "qm/admission/watch/periodic.hpp"
#include "qm/base/log.hpp"
#include "qm/model/quantity.hpp"

#include <algorithm>
#include <map>

namespace qm::admission {
namespace {

std::string amount_text(const std::string& resource, std::int64_t amount) {
  const bool milli = resource == "cpu" || resource == words::kGpuResource;
  if (milli) return Quantity::of_milli(amount).to_string();
  return Quantity::of(amount, resource == "memory" ? Quantity::Format::kBinarySi : Quantity::Format::kDecimalSi)
      .to_string();
}

/// [{name, resources: [{name, total, borrowed}]}] in the order of the resource groups of the queue. A LocalQueue
/// cannot borrow, so its entries have no `borrowed`.
Json usage_of(const std::vector<ResourceGroup>& groups, const Usage& usage, const ClusterQueue* borrower) {
  Json out = Json::array();
  for (const auto& group : groups) {
    for (const auto& flavor : group.flavors) {
      Json resources = Json::array();
      for (const auto& [resource, quota] : flavor.resources) {
        const auto used = usage.find({flavor.flavor, resource});
        const auto total = used == usage.end() ? std::int64_t{0} : used->second;
        Json item = Json::object({{"name", resource}, {"total", amount_text(resource, total)}});
        if (borrower != nullptr) {
          item.set("borrowed", amount_text(resource, borrowed(*borrower, total, quota.nominal)));
        }
        resources.push_back(std::move(item));
      }
      out.push_back(Json::object({{"name", flavor.flavor.value()}, {"resources", std::move(resources)}}));
    }
  }
  return out;
}

/// The condition without its timestamp, which the writer adds.
Json active(bool yes, const char* reason, const std::string& message) {
  return Json::array({Json::object(
      {{"type", "Active"}, {"status", yes ? "True" : "False"}, {"reason", reason}, {"message", message}})});
}

}  // namespace

std::optional<Cause> inactive_condition(const Engine& engine, const ClusterQueue& queue) {
  auto obstacle = inactive_reason(engine.state(), queue);
  if (obstacle) {
    if (obstacle->code == "QueueStopped" || obstacle->code == "QueueTerminating") obstacle->code.erase(0, 5);
    return obstacle;
  }
  for (const auto& group : queue.groups) {
    for (const auto& flavor : group.flavors) {
      if (engine.tables().flavors.contains(flavor.flavor)) continue;
      obstacle.emplace();
      obstacle->code = "FlavorNotFound";
      obstacle->message = fmt::format("ResourceFlavor {} does not exist", flavor.flavor);
      return obstacle;
    }
  }
  return std::nullopt;
}

Json unreadable(const std::string& why) {
  return Json::object(
      {{"type", kTaken},
       {"status", "False"},
       {"reason", "Unreadable"},
       {"message", fmt::format("{}; the last version that could be read stays in force", why.substr(0, 900))}});
}

Json cluster_queue_status(const Engine& engine, const ClusterQueue& queue, const QueueCounts& counts) {
  const auto groups = current_groups(engine.state(), queue);
  Json out = Json::object({{"pendingWorkloads", counts.pending},
                           {"reservingWorkloads", counts.reserving},
                           {"admittedWorkloads", counts.admitted},
                           {"flavorsReservation", usage_of(groups, counts.reserved, &queue)},
                           {"flavorsUsage", usage_of(groups, counts.used, &queue)}});
  if (const auto obstacle = inactive_condition(engine, queue)) {
    out.set("conditions", active(false, obstacle->code.c_str(), obstacle->message));
  } else {
    out.set("conditions", active(true, "Ready", "it can admit workloads"));
  }
  return out;
}

Json local_queue_status(const Engine& engine, const LocalQueue& queue, const QueueCounts& counts,
                        const std::string& version) {
  Json out = Json::object({{"pendingWorkloads", counts.pending},
                           {"reservingWorkloads", counts.reserving},
                           {"admittedWorkloads", counts.admitted}});
  const auto* cluster_queue = engine.tables().cluster_queues.find(queue.cluster_queue);
  if (cluster_queue != nullptr) {
    out.set("flavorsReservation", usage_of(cluster_queue->groups, counts.reserved, nullptr));
    out.set(version == "v1beta1" ? "flavorUsage" : "flavorsUsage",
            usage_of(cluster_queue->groups, counts.used, nullptr));
  }
  if (queue.stop != StopPolicy::kNone) {
    out.set("conditions", active(false, "Stopped", "it is stopped by its stopPolicy"));
  } else if (cluster_queue == nullptr) {
    out.set("conditions", active(false, "ClusterQueueDoesNotExist",
                                 fmt::format("ClusterQueue {} does not exist", queue.cluster_queue)));
  } else if (const auto obstacle = inactive_condition(engine, *cluster_queue)) {
    out.set("conditions", active(false, "ClusterQueueIsInactive", obstacle->message));
  } else {
    out.set("conditions", active(true, "Ready", "it can admit workloads"));
  }
  return out;
}

struct StatusWriter::Impl {
  kube::Client& client;
  service::Host& host;
  const ConfigWatch& config;
  const DomainClock& clock;
  kube::Ownership* quota;
  StatusOptions options;

  struct Target {
    std::string kind, ns, name;
    Json status;
  };
  struct Written {
    std::string print;  // without timestamps
    Json conditions;
  };
  std::map<std::string, Written> written;
  bool applies = true;  // the server supports server-side apply
  std::string complained;
  Periodic writer{options.period, [this] { write(); }};

  std::vector<Target> targets(const std::string& local_version) {
    std::vector<Target> out;
    host.read([&](const service::Shell& shell) {
      const Engine& engine = static_cast<const AdmissionShell&>(shell).engine();
      std::map<std::pair<Namespace, std::string>, QueueCounts> local;
      std::map<QueueName, QueueCounts> cluster;
      for (const auto& [uid, w] : engine.tables().workloads) {
        if (w.ended()) continue;
        for (auto* c : {&local[{w.spec.ns, w.spec.queue}], &cluster[w.cluster_queue]}) {
          c->pending += w.phase == Phase::kPending ? 1 : 0;
          c->reserving += w.holds_quota() ? 1 : 0;
          c->admitted += w.phase == Phase::kAdmitted ? 1 : 0;
          for (const auto& [at, amount] : w.usage) {
            c->reserved[at] += amount;
            if (w.phase != Phase::kQuotaReserved) c->used[at] += amount;
          }
        }
      }
      for (const auto& [name, queue] : engine.tables().cluster_queues) {
        if (!queue.from_cluster || queue.closing || queue.volcano) continue;  // its status is Volcano's
        out.push_back({"ClusterQueue", "", name.value(), cluster_queue_status(engine, queue, cluster[name])});
      }
      for (const auto& [key, queue] : engine.tables().local_queues) {
        if (!queue.from_cluster) continue;
        out.push_back({"LocalQueue", key.first.value(), key.second,
                       local_queue_status(engine, queue, local[key], local_version)});
      }
    });
    for (const char* kind : {"ClusterQueue", "LocalQueue"}) {
      for (const auto& [at, why] : config.refused(kind)) {
        auto known = std::find_if(out.begin(), out.end(), [&](const Target& t) {
          return t.kind == kind && t.ns == at.first && t.name == at.second;
        });
        if (known == out.end()) {
          // The object was never readable, so no other status exists.
          out.push_back({kind, at.first, at.second,
                         Json::object({{"conditions", active(false, "Unreadable", why.substr(0, 900))}})});
          known = std::prev(out.end());
        }
        known->status.set("conditions").push_back(unreadable(why));
      }
    }
    return out;
  }

  /// A condition keeps the time of its last transition while its value stays the same.
  void date(Json& conditions, const Json& before) const {
    for (auto& condition : conditions.items_mut()) {
      std::string since = to_rfc3339(from_micros(micros(clock.now()) / 1'000'000 * 1'000'000));
      for (const auto& old : before.items()) {
        const bool same = old["type"] == condition["type"] && old["status"] == condition["status"];
        if (same && !old["lastTransitionTime"].string().empty()) since = old["lastTransitionTime"].string();
      }
      condition.set("lastTransitionTime", std::move(since));
    }
  }

  Result<Json> put(const kube::Resource& resource, const Target& target, const Json& status) {
    if (applies) {
      const Json object = Json::object(
          {{"apiVersion", resource.group + "/" + resource.version},
           {"kind", target.kind},
           {"metadata", target.ns.empty() ? Json::object({{"name", target.name}})
                                          : Json::object({{"name", target.name}, {"namespace", target.ns}})},
           {"status", status}});
      kube::Client::ApplyOptions apply;
      apply.subresource = "status";
      auto done = client.apply(resource, target.ns, target.name, object, apply);
      if (done || done.error().code != Code::kUnimplemented) return done;
      log::info("the API server has no server-side apply; statuses are patched");
      applies = false;
    }
    return client.merge_patch(resource, target.ns, target.name, Json::object({{"status", status}}), "status");
  }

  int write() {
    if (!host.ready()) return 0;
    std::map<std::string, kube::Resource> resources;
    for (const char* kind : {"ClusterQueue", "LocalQueue"}) {
      if (auto found = config.resource(kind)) resources[kind] = std::move(*found);
    }
    if (resources.empty()) return 0;
    // Where another controller owns the quota of the cluster, it also writes the status.
    if (quota != nullptr && !quota->of("").ours) return 0;
    int count = 0;
    for (auto& target : targets(resources["LocalQueue"].version)) {
      const auto resource = resources.find(target.kind);
      if (resource == resources.end() || resource->second.plural.empty()) continue;
      const std::string key = target.kind + "/" + target.ns + "/" + target.name;
      auto print = target.status.dump();
      auto& last = written[key];
      if (last.print == print) continue;
      if (count == options.most) break;
      if (last.print.empty()) {
        const auto now = client.get(resource->second, target.ns, target.name);
        if (!now) continue;  // deleted or unavailable: the next round retries
        last.conditions = (*now)["status"]["conditions"];
      }
      Json conditions = target.status["conditions"];
      date(conditions, last.conditions);
      target.status.set("conditions", conditions);
      ++count;
      if (const auto done = put(resource->second, target, target.status); !done) {
        if (done.error().code == Code::kNotFound || complained == done.error().message) continue;
        complained = done.error().message;
        log::warn("status not written", {{"object", key}, {"error", done.error().to_string()}});
        continue;
      }
      last = {std::move(print), std::move(conditions)};
    }
    return count;
  }
};

StatusWriter::StatusWriter(kube::Client& client, service::Host& host, const ConfigWatch& config,
                           const DomainClock& clock, kube::Ownership* quota, StatusOptions options)
    : impl_(new Impl{client, host, config, clock, quota, options}) {}
StatusWriter::~StatusWriter() { stop(); }
int StatusWriter::write() { return impl_->write(); }
void StatusWriter::start() { impl_->writer.start(); }
void StatusWriter::stop() { impl_->writer.stop(); }

}  // namespace qm::admission
