#include "qm/autoscaler/replicas/scaler.hpp"

#include "qm/autoscaler/replicas/manifests.hpp"

#include <algorithm>

namespace qm::autoscaler::replicas {
namespace {

constexpr std::int64_t kPollingSeconds = 30;  // KEDA's default

bool needs_pods(const Metric& metric) {
  using enum MetricSource;
  return metric.source == kResource || metric.source == kContainerResource || metric.source == kPods ||
         metric.type == TargetType::kValue;
}

/// Readings have the name of their metric: selectors that differ cannot be distinguished by it.
Status check_names(const HpaSpec& spec) {
  using enum MetricSource;
  for (auto one = spec.metrics.begin(); one != spec.metrics.end(); ++one) {
    if (one->source != kPods && one->source != kObject && one->source != kExternal) continue;
    const bool twice = std::any_of(spec.metrics.begin(), one, [&](const Metric& other) {
      return other.source == one->source && other.name == one->name;
    });
    if (twice) {
      return fail({Code::kInvalid,
                   fmt::format("spec.metrics has two metrics of one source with the name {}", one->name),
                   "spec.metrics", "give each of them a name of its own"});
    }
  }
  return {};
}

}  // namespace

struct Scaler::Impl {
  std::optional<HpaSpec> autoscaler;
  std::optional<ScaledObject> object;
  ScalingAnnotations annotations;
  Duration polling{};
  std::vector<std::string> metrics;
};

Result<Scaler> Scaler::read_autoscaler(const std::string& manifest) {
  QM_ASSIGN(const Json json, Json::parse(manifest));
  QM_ASSIGN(auto read, read_hpa(json));
  QM_TRY(check_names(read.spec));
  Impl out;
  for (const auto& metric : read.spec.metrics) {
    out.metrics.push_back(metric.container.empty() ? metric.name : metric.container + "/" + metric.name);
  }
  out.autoscaler = std::move(read.spec);
  return Scaler(std::make_shared<const Impl>(std::move(out)));
}

Result<Scaler> Scaler::read_object(const std::string& manifest) {
  QM_ASSIGN(const Json json, Json::parse(manifest));
  Impl out;
  QM_ASSIGN(auto read, read_scaled_object(json));
  QM_ASSIGN(out.annotations, read_annotations(json.path("metadata.annotations")));
  out.polling =
      std::chrono::seconds(std::max<std::int64_t>(1, json.path("spec.pollingInterval").integer(kPollingSeconds)));
  for (const auto& trigger : read.triggers) {
    if (trigger.is_resource() || !read.modifiers) out.metrics.push_back(trigger.name);
  }
  if (read.modifiers) out.metrics.emplace_back(kCompositeMetric);
  out.object = std::move(read);
  return Scaler(std::make_shared<const Impl>(std::move(out)));
}

const HpaSpec* Scaler::autoscaler() const { return impl_->autoscaler ? &*impl_->autoscaler : nullptr; }
const ScaledObject* Scaler::object() const { return impl_->object ? &*impl_->object : nullptr; }
const ScalingAnnotations& Scaler::annotations() const { return impl_->annotations; }
Duration Scaler::polling() const { return impl_->polling; }
std::int32_t Scaler::min() const { return impl_->object ? impl_->object->min : impl_->autoscaler->min; }
std::int32_t Scaler::max() const { return impl_->object ? impl_->object->max : impl_->autoscaler->max; }
std::optional<std::int32_t> Scaler::idle() const { return impl_->object ? impl_->object->idle : std::nullopt; }
const std::vector<std::string>& Scaler::metrics() const { return impl_->metrics; }

std::vector<std::string> Scaler::triggers() const {
  std::vector<std::string> out;
  if (!impl_->object) return out;
  for (const auto& trigger : impl_->object->triggers) out.push_back(trigger.name);
  return out;
}

bool Scaler::needs_pods() const {
  if (impl_->autoscaler) return std::ranges::any_of(impl_->autoscaler->metrics, replicas::needs_pods);
  const ScaledObject& read = *impl_->object;
  return (read.modifiers && read.modifiers->value_target) ||
         std::ranges::any_of(read.triggers, [](const Trigger& t) { return t.is_resource() || t.value_target; });
}

}  // namespace qm::autoscaler::replicas
