#include "qm/admission/metrics.hpp"

#include "qm/admission/codec.hpp"
#include "qm/admission/queries/budget_view.hpp"
#include "qm/admission/queries/queues.hpp"
#include "qm/base/log.hpp"
#include "quartermaster/v1/events.pb.h"

namespace qm::admission {

namespace pb = quartermaster::v1;

Metrics::Metrics(metrics::Registry& registry, service::Host& host, const DomainClock& clock)
    : registry_(registry), host_(host), clock_(clock) {
  const auto handle = host_.follow(host_.feed_position(), [this](const service::FeedEvent& e) { count(e); });
  if (handle) {
    handle_ = *handle;
  } else {
    log::warn("metrics do not follow the events", {{"error", handle.error().to_string()}});
  }
  registry_.on_scrape([this] { scrape(); });
}

Metrics::~Metrics() {
  if (handle_ != 0) host_.unfollow(handle_);
}

void Metrics::count(const service::FeedEvent& event) {
  pb::WorkloadEvent w;
  if (event.topic != kTopic || !w.ParseFromString(event.payload)) return;
  const std::lock_guard lock(mutex_);
  if (event.tombstone) {
    last_.erase(event.key);
    return;
  }
  // A repeated request or command is not counted again.
  const std::pair<std::int32_t, int> state{w.attempt(), w.phase()};
  auto [it, fresh] = last_.emplace(event.key, state);
  if (!fresh && it->second == state) return;
  it->second = state;
  const metrics::Labels queue{{"cluster_queue", w.cluster_queue()}};
  switch (w.phase()) {
    case pb::QUOTA_RESERVED:
      registry_.counter("kueue_quota_reserved_workloads_total", "Workloads whose quota was reserved.", queue).add();
      break;
    case pb::ADMITTED:
      registry_.counter("kueue_admitted_workloads_total", "Workloads that were admitted.", queue).add();
      registry_
          .histogram("kueue_admission_wait_time_seconds", "Time from queueing of the attempt to its admission.",
                     {1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5120, 10240}, queue)
          .observe(static_cast<double>(w.admitted_us() - w.queued_us()) / 1e6);
      break;
    case pb::EVICTING:
      registry_
          .counter("kueue_evicted_workloads_total", "Workloads that were evicted, by reason.",
                   {{"cluster_queue", w.cluster_queue()}, {"reason", w.eviction().reason()}})
          .add();
      break;
    case pb::FINISHED:
      registry_.counter("kueue_finished_workloads_total", "Workloads that finished without an eviction.", queue).add();
      break;
    default:
      break;
  }
}

void Metrics::scrape() {
  if (!host_.ready()) return;
  host_.read([this](const service::Shell& shell) {
    const Engine& engine = static_cast<const AdmissionShell&>(shell).engine();
    for (const auto& [name, queue] : engine.tables().cluster_queues) {
      const auto v = queue_view(engine.state(), queue);
      const auto gauge = [&](const char* metric, const char* help, metrics::Labels labels, double value) {
        labels.insert(labels.begin(), {"cluster_queue", name.value()});
        registry_.gauge(metric, help, labels).set(value);
      };
      gauge("kueue_pending_workloads", "Pending workloads.", {{"status", "active"}},
            static_cast<double>(v.pending_ready));
      gauge("kueue_pending_workloads", "Pending workloads.", {{"status", "inadmissible"}},
            static_cast<double>(v.pending_backed_off));
      gauge("kueue_reserving_active_workloads", "Workloads that hold quota.", {}, static_cast<double>(v.holding));
      gauge("kueue_admitted_active_workloads", "Workloads that are admitted.", {}, static_cast<double>(v.admitted));
      if (v.dominant_share) {
        gauge("qm_queue_dominant_share", "Dominant share of the queue in its pool.", {}, *v.dominant_share);
      }
      for (const auto& [resource, used] : v.used) {
        const double unit = resource == "cpu" || resource == words::kGpuResource ? 1000 : 1;
        gauge("kueue_cluster_queue_resource_usage", "Quota in use.", {{"resource", resource}},
              static_cast<double>(used) / unit);
        gauge("kueue_cluster_queue_nominal_quota", "Own quota.", {{"resource", resource}},
              static_cast<double>(v.nominal.at(resource)) / unit);
      }
    }
    for (const auto& [name, row] : engine.tables().budgets) {
      const auto v = view_of(row, clock_.now());
      const double unit = row.terms.dollars ? 1e9 : 3.6e6;
      const auto gauge = [&, name = name](const char* metric, const char* help, std::int64_t value) {
        registry_.gauge(metric, help, {{"budget", name}, {"unit", row.terms.dollars ? "usd" : "gpu-hours"}})
            .set(static_cast<double>(value) / unit);
      };
      gauge("qm_budget_granted", "Amount of the present period, including carry-over.", v.granted);
      gauge("qm_budget_spent", "Spent part of the amount.", v.spent);
      gauge("qm_budget_held", "Held for running and unsettled workloads, over all periods.", v.held);
      gauge("qm_budget_free", "Free amount.", v.free);
      gauge("qm_budget_owed", "Spent amount that no period has covered.", v.owed);
    }
  });
}

}  // namespace qm::admission
