// Jobs, changes and the bill of a journal.
#include "qm/autoscaler/history/recorder.hpp"

#include "qm/autoscaler/shell.hpp"
#include "qm/wire/model.hpp"
#include "quartermaster/v1/events.pb.h"

#include <algorithm>

namespace qm::autoscaler {
namespace {

namespace pb = quartermaster::v1;

std::int64_t whole_seconds(Duration d) { return std::chrono::duration_cast<std::chrono::seconds>(d).count(); }

std::int64_t gpu_seconds(const std::vector<PodSet>& sets, Duration time) {
  constexpr std::int64_t kMilli = 1000;
  std::int64_t milli = 0;
  for (const PodSet& set : sets)
    milli += set.count * (set.shape.gpu.milli > 0 ? set.shape.gpu.milli : set.shape.gpu.whole * kMilli);
  return milli * whole_seconds(time) / kMilli;
}

/// Inputs that a replayed time repeats.
bool is_change(const service::Input& input) {
  if (input.source != service::Source::kWatch) return false;
  return input.name == "pools" || input.name == "daemonsets" || input.name == "overlays" || input.name == "buffers" ||
         input.name == "spot_prices";
}

}  // namespace

Recorder::Recorder(const std::vector<InstanceType>& catalog) {
  for (const auto& type : catalog) on_demand_.emplace(type.name, type.on_demand.per_hour);
}

Recorder::Job& Recorder::job_of(const AttemptId& id, Instant now) {
  Job& job = jobs_[id];
  if (!job.arrives) job.arrives = now;
  if (job.item.pod_sets.empty()) {
    const auto workload = workloads_.find(id.uid);
    job.item.id = id;
    if (workload != workloads_.end()) {
      job.item.pod_sets = workload->second.second;
      job.item.ns = workload->second.first.ns;
      job.item.type = workload->second.first.type;
    }
    if (const auto priority = priorities_.find(id.uid); priority != priorities_.end())
      job.item.priority = priority->second;
  }
  return job;
}

void Recorder::observe_workload(const service::Input& input) {
  pb::WorkloadEvent event;
  if (!event.ParseFromString(input.bytes)) return;
  const WorkloadUid uid(event.spec().uid());
  auto& [workload, sets] = workloads_[uid];
  const auto commands = Codec().decode(input);
  if (!commands || commands->empty()) return;
  if (const auto* update = std::get_if<WorkloadUpdated>(&commands->front())) workload = *update;
  sets.clear();
  for (const auto& set : event.spec().pod_sets()) sets.push_back(wire::from_pb(set));
  priorities_[uid] = event.spec().priority();
}

void Recorder::observe_placement(const service::Input& input, Instant now) {
  const auto commands = Codec().decode(input);
  if (!commands) return;
  for (const auto& command : *commands) {
    if (const auto* demand = std::get_if<DemandUpdated>(&command)) {
      for (const auto& item : demand->items) {
        if (item.runs) continue;  // pods of a running gang, which is a job already
        Job& job = job_of(item.id, now);
        const bool known = !job.item.pod_sets.empty();
        if (!known || job.item.pod_sets.front().rules.empty()) job.item.pod_sets = item.pod_sets;
        job.item.priority = item.priority;
      }
    } else if (const auto* assignment = std::get_if<AssignmentUpdated>(&command)) {
      if (assignment->live) {
        Job& job = job_of(assignment->id, now);
        if (!job.starts) job.starts = now;
      } else if (const auto at = jobs_.find(assignment->id);
                 at != jobs_.end() && at->second.starts && !at->second.ends) {
        at->second.ends = now;
      }
    }
  }
}

void Recorder::observe(const service::Input& input, Instant now) {
  if (!from_) from_ = now;
  to_ = std::max(to_, now);
  if (is_change(input)) {
    auto commands = Codec().decode(input);
    if (!commands) return;
    for (auto& command : *commands) changes_.push_back({now, std::move(command)});
  } else if (input.source == service::Source::kBus && input.name == "qm.workload") {
    observe_workload(input);
  } else if (input.source == service::Source::kBus && input.name == "qm.placement") {
    observe_placement(input, now);
  }
}

void Recorder::observe(const service::Publish& event) {
  pb::CapacityEvent read;
  if (event.topic != "qm.capacity" || !read.ParseFromString(event.payload)) return;
  if (read.has_price()) {
    spot_[{read.price().instance_type(), read.price().zone()}] = Money::nano(read.price().nano_usd_hour());
  }
  if (!read.has_instance()) return;
  const auto& i = read.instance();
  if (i.launched_us() == 0 || i.node_pool().empty()) return;
  auto [at, fresh] = instances_.try_emplace(i.claim());
  Instance& one = at->second;
  if (fresh) {
    const auto spot = spot_.find({i.instance_type(), i.zone()});
    const auto on_demand = on_demand_.find(i.instance_type());
    if (on_demand != on_demand_.end()) one.rate = on_demand->second;
    if (i.capacity_type() == name_of(Market::kSpot) && spot != spot_.end()) one.rate = spot->second;
    one.gpus = i.gpus();
    one.launched = from_micros(i.launched_us());
  }
  if (i.stopped_us() > 0) one.stopped = from_micros(i.stopped_us());
}

History Recorder::history() const {
  History out;
  out.from = from_.value_or(Instant{});
  out.to = to_;
  out.changes = changes_;
  for (const auto& [id, job] : jobs_) {
    if (!job.starts || job.item.pod_sets.empty()) continue;  // nothing tells how long it would run
    History::Job one{job.item, {}, job.ends.value_or(to_) - *job.starts};
    one.item.since = *job.arrives;
    if (const auto workload = workloads_.find(id.uid); workload != workloads_.end())
      one.workload = workload->second.first;
    one.workload.uid = id.uid;
    out.jobs.push_back(std::move(one));
  }
  std::ranges::sort(out.jobs, std::less<>{});
  return out;
}

Bill Recorder::bill() const {
  Bill out;
  for (const auto& [claim, one] : instances_) {
    const Instant end = one.stopped.value_or(to_);
    ++out.launches;
    out.cost += HourlyRate{one.rate}.accrued(*one.launched, std::max(end, *one.launched));
    out.gpu_seconds += one.gpus * whole_seconds(std::max(end - *one.launched, Duration{0}));
  }
  for (const auto& [id, job] : jobs_) {
    if (!job.starts) continue;
    ++out.jobs, ++out.started;
    out.finished += job.ends ? 1 : 0;
    const Duration waited = *job.starts - *job.arrives;
    out.waited += waited;
    out.longest_wait = std::max(out.longest_wait, waited);
    out.used_gpu_seconds += gpu_seconds(job.item.pod_sets, job.ends.value_or(to_) - *job.starts);
  }
  return out;
}

}  // namespace qm::autoscaler
