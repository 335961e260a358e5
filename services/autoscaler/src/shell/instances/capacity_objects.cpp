#include "qm/autoscaler/capacity_objects.hpp"

#include "json_values.hpp"
#include "qm/config/needs.hpp"
#include "qm/kube_objects/rules.hpp"
#include "qm/model/quantity.hpp"

#include <algorithm>
#include <array>

namespace qm::autoscaler {
namespace {

constexpr std::string_view kActiveCapacity = "buffer.x-k8s.io/active-capacity";
constexpr std::int64_t kMostPods = 100'000;

tl::unexpected<Error> refused(std::string field, std::string message, std::string remedy) {
  return fail(Error{Code::kInvalid, std::move(message), std::move(field), std::move(remedy)});
}

std::string text_of(const Json& value) { return value.is_string() ? value.string() : value.dump(); }

Result<std::int64_t> amount_of(const std::string& resource, const Json& value, const std::string& field) {
  const auto amount = Quantity::parse(text_of(value));
  if (!amount) return refused(field, amount.error().message, amount.error().remedy);
  return resource == "cpu" ? amount->milli() : amount->units();
}

std::string key_of(const Json& object) { return kube::namespace_of(object) + "/" + kube::name_of(object); }

ConditionWriter::Key parted(const std::string& key) {
  const auto slash = key.find('/');
  return {key.substr(0, slash), key.substr(slash + 1)};
}

/// What a pod of the shape requests of a resource of `limits`.
std::int64_t requested(const PodShape& shape, const std::string& resource) {
  if (resource == "cpu") return shape.cpu_milli;
  if (resource == "memory") return shape.memory_bytes;
  if (resource == words::kGpuResource) return shape.gpu.whole;
  if (resource == "pods") return 1;
  const auto at = shape.extended.find(resource);
  return at == shape.extended.end() ? 0 : at->second;
}

struct Scalable {
  std::string_view kind, plural, count;  ///< the field of spec with the number of pods
};
constexpr std::array<Scalable, 4> kScalables{{{"Deployment", "deployments", "replicas"},
                                              {"ReplicaSet", "replicasets", "replicas"},
                                              {"StatefulSet", "statefulsets", "replicas"},
                                              {"Job", "jobs", "parallelism"}}};

}  // namespace

Result<Overlay> overlay_from(const Json& object) {
  const Json& spec = object["spec"];
  Overlay out;
  out.name = kube::name_of(object);
  out.weight = static_cast<std::int32_t>(spec["weight"].integer());
  std::size_t i = 0;
  for (const Json& item : spec["requirements"].items()) {
    const std::string field = fmt::format("spec.requirements[{}]", i++);
    const auto op = operator_of(item["operator"].string());
    if (!op) {
      return refused(field + ".operator", fmt::format("\"{}\" is not an operator", item["operator"].string()),
                     "use one of In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte, Lte");
    }
    const auto requirement = requirement_of({item["key"].string(), *op, texts_of(item["values"]), {}});
    if (!requirement) return refused(field, requirement.error().message, requirement.error().remedy);
    out.requirements.add(*requirement);
  }
  const Json &price = spec["price"], &adjustment = spec["priceAdjustment"];
  if (!price.is_null() && !adjustment.is_null())
    return refused("spec.price", "price and priceAdjustment are both set", "set one of them");
  if (!price.is_null()) {
    const auto amount = Money::parse_usd(text_of(price));
    if (!amount || *amount < Money())
      return refused("spec.price", fmt::format("\"{}\" is not a price", text_of(price)), "write dollars per hour");
    out.price = *amount;
  }
  if (!adjustment.is_null()) {
    QM_ASSIGN(out.adjustment, price_adjustment_of(text_of(adjustment)));
  }
  for (const auto& [resource, value] : spec["capacity"].members()) {
    const std::string field = fmt::format("spec.capacity[{}]", resource);
    if (resource.find('/') == std::string::npos)
      return refused(field, fmt::format("{} is not an extended resource", resource),
                     "remove it: the instance type determines it");
    QM_ASSIGN(out.capacity[resource], amount_of(resource, value, field));
  }
  return out;
}

Result<Buffer> buffer_from(const Json& object, const BufferSource& source) {
  const Json& spec = object["spec"];
  const std::string& strategy = spec["provisioningStrategy"].string();
  if (!strategy.empty() && strategy != kActiveCapacity) {
    return refused("spec.provisioningStrategy", fmt::format("the strategy {} is not supported", strategy),
                   fmt::format("use {}", kActiveCapacity));
  }
  Buffer out;
  out.name = key_of(object);
  out.pods.name = "buffer";
  QM_ASSIGN(out.pods.shape, config::shape_held_by(source.pod_template));
  Json pod = source.pod_template;
  pod.set("metadata").set("namespace", kube::namespace_of(object));
  QM_ASSIGN(out.pods.rules, kube_objects::rules_text_of_pod(pod));
  std::int64_t count = -1;
  if (const Json& replicas = spec["replicas"]; !replicas.is_null()) {
    count = replicas.integer();
    out.explanation = fmt::format("replicas {}", count);
  }
  if (const Json& percentage = spec["percentage"]; !percentage.is_null()) {
    if (!source.replicas)
      return refused("spec.percentage", "a PodTemplate has no replicas of which it would be a share", "set replicas");
    const std::int64_t share = (percentage.integer() * *source.replicas + 99) / 100;
    if (share > count) out.explanation = fmt::format("{} % of {} replicas", percentage.integer(), *source.replicas);
    count = std::max(count, share);
  }
  for (const auto& [resource, value] : spec["limits"].members()) {
    QM_ASSIGN(const auto limit, amount_of(resource, value, fmt::format("spec.limits[{}]", resource)));
    const std::int64_t each = requested(out.pods.shape, resource);
    if (each <= 0 || (count >= 0 && limit / each >= count)) continue;
    count = limit / each;
    out.explanation = fmt::format("the limit {} {}", resource, text_of(value));
  }
  if (count < 0) return refused("spec", "it has neither replicas nor percentage nor limits", "set one of them");
  out.pods.count = static_cast<std::int32_t>(std::min(count, kMostPods));
  return out;
}

OverlayWatch::OverlayWatch(kube::Client& client, const DomainClock& clock)
    : feed_(client, "qm-autoscaler", {{"karpenter.sh", "nodeoverlays", "NodeOverlay", {"v1alpha1"}}},
            {[this](const auto&, const Json& object) { return take(object); },
             [this](const auto&, const auto& at) {
               const std::scoped_lock lock(mutex_);
               seen_.erase(at.second);
               refused_.erase(at.second);
             }}),
      status_(
          client, [this] { return feed_.resource("NodeOverlay"); }, clock) {}

Status OverlayWatch::take(const Json& object) {
  auto overlay = overlay_from(object);
  const std::string name = kube::name_of(object);
  const std::scoped_lock lock(mutex_);
  seen_.erase(name);
  refused_.erase(name);
  if (overlay) {
    seen_.emplace(name, std::move(*overlay));
    return {};
  }
  refused_[name] = overlay.error().to_string();
  return fail(overlay.error());
}

std::optional<std::vector<Overlay>> OverlayWatch::overlays() {
  if (!feed_.synced()) return std::nullopt;
  std::vector<Overlay> all;
  std::map<std::string, std::pair<std::string, std::string>> faults;  // reason and message
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& [name, overlay] : seen_) all.push_back(overlay);
    for (const auto& [name, why] : refused_) faults[name] = {"ValidationFailed", why};
  }
  auto result = ordered(std::move(all));
  for (const auto& [name, why] : result.faults) faults[name] = {"Conflict", why};
  std::set<ConditionWriter::Key> keys;
  const auto publish = [&](const std::string& name, const std::string& reason, const std::string& why) {
    const bool valid = why.empty();
    const ConditionWriter::Key key{"", name};
    keys.insert(key);
    status_.write(key, {{"ValidationSucceeded", valid ? "True" : "False", valid ? "ValidationSucceeded" : reason, why},
                        {"Ready", valid ? "True" : "False", valid ? "Ready" : reason, why}});
  };
  for (const Overlay& one : result.accepted) publish(one.name, {}, {});
  for (const auto& [name, fault] : faults) publish(name, fault.first, fault.second);
  status_.forget_others(keys);
  return std::move(result.accepted);
}

BufferWatch::BufferWatch(kube::Client& client, const DomainClock& clock, SteadyDuration period)
    : client_(client),
      period_(period),
      feed_(client, "qm-autoscaler",
            {{"autoscaling.x-k8s.io", "capacitybuffers", "CapacityBuffer", {"v1beta1", "v1alpha1"}}},
            {[this](const auto&, const Json& object) {
               const std::scoped_lock lock(mutex_);
               objects_[key_of(object)] = object;
               changed_ = true;
               return Status{};
             },
             [this](const auto&, const auto& at) {
               const std::scoped_lock lock(mutex_);
               objects_.erase(at.first + "/" + at.second);
               changed_ = true;
             }}),
      status_(
          client, [this] { return feed_.resource("CapacityBuffer"); }, clock) {}

Result<BufferSource> BufferWatch::source_of(const Json& object) {
  const std::string ns = kube::namespace_of(object);
  const Json& spec = object["spec"];
  if (const std::string& name = spec["podTemplateRef"]["name"].string(); !name.empty()) {
    const kube::Resource templates{"", "v1", "podtemplates", true};
    QM_ASSIGN(const Json found, client_.get(templates, ns, name));
    return BufferSource{found["template"], std::nullopt};
  }
  const Json& ref = spec["scalableRef"];
  const auto scalable = std::ranges::find(kScalables, ref["kind"].string(), &Scalable::kind);
  if (scalable == kScalables.end()) {
    return refused("spec.scalableRef.kind", fmt::format("the kind \"{}\" is not supported", ref["kind"].string()),
                   "use Deployment, ReplicaSet, StatefulSet or Job, or a podTemplateRef");
  }
  const kube::Resource kind{scalable->kind == "Job" ? "batch" : "apps", "v1", std::string(scalable->plural), true};
  QM_ASSIGN(const Json found, client_.get(kind, ns, ref["name"].string()));
  const Json& count = found["spec"][scalable->count];
  return BufferSource{found["spec"]["template"], count.is_null() ? 1 : count.integer()};
}

// A PodTemplate, or a Deployment, may change without the buffer: all are read again.
void BufferWatch::refresh() {
  std::map<std::string, Json> objects;
  {
    const std::scoped_lock lock(mutex_);
    const auto now = std::chrono::steady_clock::now();
    if (!changed_ && now < due_) return;
    changed_ = false;
    due_ = now + period_;
    objects = objects_;
  }
  std::map<std::string, Buffer> read;
  std::map<std::string, std::string> faults;
  for (const auto& [key, object] : objects) {
    const auto source = source_of(object);
    auto buffer = source ? buffer_from(object, *source) : Result<Buffer>(fail(source.error()));
    if (buffer) {
      read.emplace(key, std::move(*buffer));
    } else {
      faults[key] = buffer.error().to_string();
      // A buffer that cannot be read now keeps its previous number.
      const bool passing = buffer.error().retryable() && read_.contains(key);
      if (passing) read.emplace(key, read_.at(key));
    }
  }
  read_ = std::move(read);
  faults_ = std::move(faults);
}

std::optional<std::vector<Buffer>> BufferWatch::buffers() {
  if (!feed_.synced()) return std::nullopt;
  refresh();
  std::vector<Buffer> out;
  for (const auto& [key, buffer] : read_) out.push_back(buffer);
  return out;
}

void BufferWatch::write_status(const std::map<std::string, BufferState>& states) {
  std::set<ConditionWriter::Key> keys;
  for (const auto& [name, why] : faults_) {
    keys.insert(parted(name));
    status_.write(parted(name), {{"ReadyForProvisioning", "False", "Invalid", why}});
  }
  for (const auto& [name, buffer] : read_) {
    if (faults_.contains(name)) continue;
    keys.insert(parted(name));
    const auto state = states.find(name);
    std::vector<Condition> conditions{{"ReadyForProvisioning", "True", "Accepted", buffer.explanation}};
    if (state != states.end()) {
      const bool whole = state->second.covered >= state->second.pods;
      conditions.push_back(
          {"Provisioning", whole ? "True" : "False", whole ? "Provisioned" : "CapacityMissing", state->second.missing});
    }
    status_.write(parted(name), conditions,
                  Json::object({{"replicas", std::int64_t{buffer.pods.count}},
                                {"provisioningStrategy", std::string(kActiveCapacity)}}));
  }
  status_.forget_others(keys);
}

}  // namespace qm::autoscaler
