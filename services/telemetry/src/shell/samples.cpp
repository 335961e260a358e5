#include "qm/telemetry/shell.hpp"
#include "qm/wire/sample.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace qm::telemetry {
namespace {

/// The longest recent interval: a burst after a pause does not make a node appear fast, and a node with a shorter
/// period is detected within a few frames.
template <class D>
void follow_pace(std::optional<D>& period, D gap) {
  period = period ? std::max(gap, *period - *period / 4) : gap;
}

std::string holder_of(const pb::GpuSample& sample) {
  return sample.pod().empty() ? std::string() : sample.namespace_() + "/" + sample.pod();
}

/// The energy counter, if the sample has one. Agents that do not report missing fields send a zero for it; a counter
/// of millijoules is never at zero.
std::optional<std::int64_t> counter_of(const pb::GpuSample& sample) {
  if (sample.energy_mj() <= 0 || !wire::has_value(sample, pb::GpuSample::kEnergyMjFieldNumber)) return std::nullopt;
  return sample.energy_mj();
}

}  // namespace

void Samples::on_closed(Closed fn) {
  const std::lock_guard lock(mutex_);
  closed_ = std::move(fn);
}

void Samples::close(const std::string& node, Gpu& gpu, std::int64_t to_us) {
  if (gpu.n > 0 && to_us > gpu.from_us && closed_) {
    pb::UsageInterval u;
    u.set_node(node);
    u.set_gpu_index(gpu.last.gpu_index());
    u.set_gpu_uuid(gpu.last.gpu_uuid());
    u.set_from_us(gpu.from_us);
    u.set_to_us(to_us);
    const auto slash = gpu.pod.find('/');
    if (slash != std::string::npos) {
      u.set_namespace_(gpu.pod.substr(0, slash));
      u.set_pod(gpu.pod.substr(slash + 1));
    }
    u.set_utilization(gpu.sum / static_cast<double>(gpu.n));
    u.set_samples(gpu.n);
    u.set_energy_mj(gpu.energy_mj);
    closed_(u);
  }
  gpu.from_us = to_us;
  gpu.n = 0;
  gpu.sum = 0;
  gpu.energy_mj = 0;
}

SteadyDuration Samples::life(const Node& node) {
  return std::max(kLeastLife, kPeriods * node.steady_period.value_or(kFirstPeriod));
}

/// Removes the GPUs without a sample for longer than their life in both times: a scaled clock may slow down between
/// two frames, and a fast one passes many periods while an agent is delayed for a moment.
void Samples::sweep(const std::string& name, Node& node, SteadyInstant now) {
  const std::int64_t silent_since =
      micros(clock_.now()) - Duration(kPeriods * node.period.value_or(kFirstPeriod)).count();
  for (auto at = node.gpus.begin(); at != node.gpus.end();) {
    Gpu& gpu = at->second;
    const bool silent = gpu.at_us < silent_since && now - gpu.seen > life(node);
    if (silent) close(name, gpu, gpu.at_us);
    at = silent ? node.gpus.erase(at) : std::next(at);
  }
}

void Samples::pace(Node& node, std::int64_t at_us, SteadyInstant seen) const {
  // A pause longer than the life of the readings is not a period.
  if (node.at_us != 0 && !node.gpus.empty()) {
    if (at_us > node.at_us) follow_pace(node.period, Duration(at_us - node.at_us));
    follow_pace(node.steady_period, seen - node.seen);
  }
  node.at_us = at_us;
  node.seen = seen;
}

/// Two agents may send for a node for a while, the old one its backlog. A new one counts from its first frame on, and
/// from then on the previous one is late whatever the time of its frames: the clock may have been set back between
/// them. Agents without a name cannot be distinguished, so of those only older frames are late.
bool Samples::late(const Node& node, const pb::SampleFrame& frame) {
  const bool older = frame.at_us() <= node.at_us;
  if (frame.agent() != node.agent) return frame.agent() == node.agent_before && (older || !frame.agent().empty());
  if (frame.sequence() > node.sequence) return false;
  return older || !frame.agent().empty();
}

/// The node's clock continues at an earlier time: open intervals are closed, and their life continues from there.
void Samples::set_back(const std::string& name, Node& node, std::int64_t at_us) {
  for (auto& [index, gpu] : node.gpus) {
    if (gpu.at_us <= at_us) continue;
    close(name, gpu, gpu.at_us);
    gpu.at_us = gpu.from_us = at_us;
  }
}

void Samples::take(const pb::SampleFrame& frame, SteadyInstant seen) {
  const std::lock_guard lock(mutex_);
  ++counters_.frames;
  if (frame.at_us() <= 0) {
    counters_.late += static_cast<std::uint64_t>(frame.gpus_size());
    return;
  }
  const auto [at, first] = nodes_.try_emplace(frame.node());
  Node& node = at->second;
  if (!first && late(node, frame)) {
    counters_.late += static_cast<std::uint64_t>(frame.gpus_size());
    return;
  }
  if (frame.at_us() < node.at_us) set_back(frame.node(), node, frame.at_us());
  sweep(frame.node(), node, seen);
  if (!first && frame.agent() == node.agent && frame.sequence() > node.sequence + 1) ++counters_.gaps;
  if (!first && frame.agent() != node.agent) node.agent_before = std::exchange(node.agent, frame.agent());
  if (first) node.agent = frame.agent();
  node.sequence = frame.sequence();
  pace(node, frame.at_us(), seen);
  for (const auto& sample : frame.gpus()) {
    if (!std::isfinite(sample.utilization())) continue;
    add(frame.node(), node.gpus[sample.gpu_index()], sample, frame.at_us(), seen);
    ++counters_.samples;
  }
}

void Samples::add(const std::string& name, Gpu& gpu, const pb::GpuSample& sample, std::int64_t at_us,
                  SteadyInstant seen) {
  std::string holder = holder_of(sample);
  const auto counter = counter_of(sample);
  if (gpu.at_us == 0) {
    gpu.from_us = at_us;
  } else if (!gpu.last.gpu_uuid().empty() && !sample.gpu_uuid().empty() && gpu.last.gpu_uuid() != sample.gpu_uuid()) {
    close(name, gpu, gpu.at_us);
    gpu.from_us = at_us;
    gpu.counter.reset();
  } else if (holder != gpu.pod || at_us - gpu.from_us >= interval_.count()) {
    close(name, gpu, at_us);
    // The energy used while the counter was missing cannot be attributed.
    if (holder != gpu.pod && !counter_of(gpu.last)) gpu.counter.reset();
  }
  gpu.pod = std::move(holder);
  // A decreased counter was reset: its use is not known.
  if (counter && gpu.counter && *counter > *gpu.counter) gpu.energy_mj += *counter - *gpu.counter;
  if (counter) gpu.counter = counter;
  gpu.last = sample;
  gpu.at_us = at_us;
  gpu.seen = seen;
  gpu.sum += sample.utilization();
  ++gpu.n;
}

void Samples::forget(const std::string& node) {
  const std::lock_guard lock(mutex_);
  const auto at = nodes_.find(node);
  if (at == nodes_.end()) return;
  for (auto& [index, gpu] : at->second.gpus) close(node, gpu, gpu.at_us);
  nodes_.erase(at);
}

std::vector<Samples::OfNode> Samples::by_node(SteadyInstant now) {
  const std::lock_guard lock(mutex_);
  std::vector<OfNode> out;
  for (auto& [name, node] : nodes_) {
    sweep(name, node, now);
    if (node.gpus.empty()) continue;
    auto& of = out.emplace_back(OfNode{name, life(node), {}});
    for (const auto& [index, gpu] : node.gpus) {
      auto& r = of.readings.emplace_back();
      r.set_node(name);
      *r.mutable_sample() = gpu.last;
      r.set_at_us(gpu.at_us);
    }
  }
  return out;
}

std::vector<pb::GpuReading> Samples::readings(const std::string& node, SteadyInstant now) {
  std::vector<pb::GpuReading> out;
  for (auto& of : by_node(now)) {
    if (node.empty() || of.node == node) std::move(of.readings.begin(), of.readings.end(), std::back_inserter(out));
  }
  return out;
}

Samples::Counters Samples::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

}  // namespace qm::telemetry
