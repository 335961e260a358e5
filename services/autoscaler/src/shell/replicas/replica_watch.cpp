// Samples of targets.
#include "qm/autoscaler/replica_watch.hpp"

#include "qm/base/digest.hpp"
#include "qm/base/log.hpp"
#include "qm/base/wake.hpp"
#include "replicas/replica_rows.hpp"

#include <algorithm>
#include <mutex>

namespace qm::autoscaler {

using namespace std::chrono_literals;

namespace {

constexpr SteadyDuration kLook = 50ms;    // between looks for what is due, in steady time
constexpr SteadyDuration kIdleLook = 1s;  // while there are no targets
constexpr auto kAgain = 1s;               // before the first list of pods is complete, in domain time

ReplicaMode mode_of(const Json& object, std::string& problem) {
  const auto value = kube::annotation(object, kReplicasAnnotation);
  if (value == "quartermaster") return ReplicaMode::kScale;
  if (value == "strict") return ReplicaMode::kStrict;
  if (!value.empty()) {
    problem = fmt::format("the annotation {} has the value \"{}\": use quartermaster or strict, or remove it",
                          kReplicasAnnotation, value);
  }
  return ReplicaMode::kObserve;
}

}  // namespace

ReplicaWatch::ReplicaWatch(kube::Client& client, service::Host& host, const DomainClock& clock, Options options)
    : host_(host),
      clock_(clock),
      options_(std::move(options)),
      client_(client),
      scalers_(client),
      pods_(client),
      scales_(client) {}

ReplicaWatch::~ReplicaWatch() { stop(); }

void ReplicaWatch::start() {
  scalers_.start();
  for (std::size_t i = 0; i < options_.threads; ++i) {
    threads_.emplace_back([this, i](const std::stop_token& stop) { run(i, stop); });
  }
}

void ReplicaWatch::stop() {
  threads_.clear();
  pods_.stop();
  scalers_.stop();
}

void ReplicaWatch::submit(service::Input input, const std::stop_token& stop) {
  // A full mailbox is temporary.
  while (!stop.stop_requested() && !host_.submit(input)) std::this_thread::sleep_for(20ms);
}

// All scalers of the list are submitted before a sample of their targets: the engine drops readings of scalers that it
// does not have.
void ReplicaWatch::submit_scalers(const std::stop_token& stop) {
  const std::scoped_lock lock(submitting_);
  for (auto& input : scalers_.changes()) submit(std::move(input), stop);
}

void ReplicaWatch::run(std::size_t worker, const std::stop_token& stop) {
  MetricSources sources(client_, options_.sources);
  std::map<TargetId, Sampled> sampled;
  bool idle = false;
  for (; !stop.stop_requested(); sleep_unless_stopped(idle ? kIdleLook : kLook, stop)) {
    const auto targets = scalers_.by_target();
    idle = targets.empty();
    submit_scalers(stop);
    if (!scalers_.synced()) continue;
    std::erase_if(sampled, [&](const auto& entry) { return !targets.contains(entry.first); });
    for (const auto& [target, scalers] : targets) {
      if (stop.stop_requested()) return;
      if (stable_hash(target.to_string()) % options_.threads != worker) continue;
      Duration period = options_.period;
      for (const auto& [id, scaler] : scalers) period = std::min(period, scaler->period);
      Sampled& last = sampled[target];
      const Instant now = clock_.now();
      if (last.at != Instant{} && now < last.at + period) continue;
      auto sample_now = sample(target, scalers, sources);
      last.at = now;
      if (!sample_now) {
        if (sample_now.error().code == Code::kFailedPrecondition) {
          last.at = now - period + kAgain;
        } else {
          log::warn("the scale of a target cannot be read",
                    {{"target", target.to_string()}, {"error", sample_now.error().to_string()}});
        }
        continue;
      }
      ++samples_;
      sample_now->at = Instant{};
      const auto bytes = sample_bytes(*sample_now);
      sample_now->at = now;
      if (std::exchange(last.bytes, bytes) == bytes) {
        ReplicasObserved short_form;
        short_form.target = target;
        short_form.at = now;
        short_form.unchanged = true;
        *sample_now = std::move(short_form);
      }
      service::Input in;
      in.source = service::Source::kWatch;
      in.name = "replicas.sample";
      in.key = target.to_string();
      in.bytes = sample_bytes(*sample_now);
      submit(std::move(in), stop);
    }
  }
}

Result<ReplicasObserved> ReplicaWatch::sample(const TargetId& target, const ScalerWatch::Scalers& scalers,
                                              MetricSources& sources) {
  ReplicasObserved out;
  out.target = target;
  out.api_version = scalers.begin()->second->row.api_version;
  const auto read = scales_.read(target, out.api_version);
  if (!read && read.error().code == Code::kNotFound) {
    out.problem = read.error().message;
    return out;
  }
  if (!read) return fail(read.error());
  out.found = true;
  out.uid = kube::uid_of(read->object);
  out.mode = mode_of(read->object, out.problem);
  out.replicas = static_cast<std::int32_t>(read->scale["spec"]["replicas"].integer());
  out.status_replicas = static_cast<std::int32_t>(read->scale["status"]["replicas"].integer());
  const auto group = target.group.empty() ? std::string() : "." + target.group;
  MetricSources::Target described{
      target.ns, read->resource.plural + group, target.name, read->scale["status"]["selector"].string(), {}};
  if (std::ranges::any_of(scalers, [](const auto& entry) { return entry.second->pods; })) {
    auto pods = pods_.matching(target.ns, described.selector);
    if (!pods) return fail(Code::kFailedPrecondition, "the pods are not listed yet");
    out.pods = std::move(*pods);
    for (const auto& pod : out.pods) described.pods.push_back(pod.name);
  }
  for (const auto& [id, scaler] : scalers) out.readings[id] = sources.read(*scaler, described);
  return out;
}

}  // namespace qm::autoscaler
