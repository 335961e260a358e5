#include "qm/telemetry/shell.hpp"

namespace qm::telemetry {

void Samples::close(const std::string& node, Gpu& gpu, std::int64_t to_us) {
  if (gpu.n > 0 && to_us > gpu.from_us) {
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
    u.set_energy_mj(std::max<std::int64_t>(0, gpu.last.energy_mj() - gpu.energy_from));
    closed_(u);
  }
  gpu.from_us = to_us;
  gpu.n = 0;
  gpu.sum = 0;
  gpu.energy_from = gpu.last.energy_mj();
}

void Samples::take(const pb::SampleFrame& frame) {
  const std::lock_guard lock(mutex_);
  auto [sequence, first] = sequence_.try_emplace(frame.node(), frame.sequence());
  // An agent that starts again counts from the beginning; only a jump ahead is a gap.
  if (!first && frame.sequence() > sequence->second + 1) ++counters_.gaps;
  sequence->second = frame.sequence();
  ++counters_.frames;
  for (const auto& sample : frame.gpus()) {
    auto& gpu = gpus_[frame.node()][sample.gpu_index()];
    if (frame.at_us() <= gpu.at_us) {
      ++counters_.late;
      continue;
    }
    const std::string pod = sample.pod().empty() ? std::string() : sample.namespace_() + "/" + sample.pod();
    if (gpu.at_us == 0) {
      gpu.from_us = frame.at_us();
      gpu.energy_from = sample.energy_mj();
      gpu.pod = pod;
    } else if (pod != gpu.pod || frame.at_us() - gpu.from_us >= interval_.count()) {
      close(frame.node(), gpu, frame.at_us());
      gpu.pod = pod;
    }
    gpu.last = sample;
    gpu.at_us = frame.at_us();
    gpu.sum += sample.utilization();
    ++gpu.n;
    ++counters_.samples;
  }
}

void Samples::forget(const std::string& node) {
  const std::lock_guard lock(mutex_);
  gpus_.erase(node);
  sequence_.erase(node);
}

std::vector<pb::GpuReading> Samples::readings(const std::string& node) const {
  const std::lock_guard lock(mutex_);
  std::vector<pb::GpuReading> out;
  for (const auto& [name, gpus] : gpus_) {
    if (!node.empty() && name != node) continue;
    for (const auto& [index, gpu] : gpus) {
      auto& r = out.emplace_back();
      r.set_node(name);
      *r.mutable_sample() = gpu.last;
      r.set_at_us(gpu.at_us);
    }
  }
  return out;
}

std::vector<std::string> Samples::nodes() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> out;
  for (const auto& [name, gpus] : gpus_) out.push_back(name);
  return out;
}

Samples::Counters Samples::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

}  // namespace qm::telemetry
