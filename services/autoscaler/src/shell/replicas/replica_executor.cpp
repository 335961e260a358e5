// Scale subresources, and the execution of intents about replicas.
#include "qm/autoscaler/replica_watch.hpp"
#include "qm/base/crash_point.hpp"
#include "qm/base/log.hpp"
#include "qm/kube/errors.hpp"
#include "qm/model/scalers.hpp"

#include <algorithm>
#include <array>
#include <cctype>

namespace qm::autoscaler {
namespace {

constexpr int kScaleTries = 3;

/// The plural of a kind, as most definitions form it.
std::array<std::string, 2> plurals_of(const std::string& kind) {
  std::string word = kind;
  std::ranges::transform(word, word.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (word.ends_with('y')) return {word.substr(0, word.size() - 1) + "ies", word + "s"};
  if (word.ends_with('s') || word.ends_with("ch") || word.ends_with('x')) return {word + "es", word};
  return {word + "s", word};
}

kube::Resource scaler_resource(const std::string& kind) {
  return kind == name_of(ScalerKind::kHpa) ? kube::Resource{"autoscaling", "v2", "horizontalpodautoscalers", true}
                                           : kube::Resource{"keda.sh", "v1alpha1", "scaledobjects", true};
}

TargetId target_of(const Json& want) {
  return {want["namespace"].string(), want["group"].string(), want["kind"].string(), want["name"].string()};
}

service::Outcome changed(const Json& want, std::string error) {
  Json out = want;
  return {out.set("error", std::move(error)).dump()};
}

}  // namespace

Result<kube::Resource> ScaleClient::resource_of(const TargetId& target, const std::string& api_version) {
  const std::string key = api_version + "/" + target.kind;
  {
    const std::scoped_lock lock(mutex_);
    if (const auto known = known_.find(key); known != known_.end()) return known->second;
  }
  const auto slash = api_version.find('/');
  const std::string version = slash == std::string::npos ? api_version : api_version.substr(slash + 1);
  Error last{Code::kNotFound, fmt::format("{} is not served", key), {}, {}};
  for (const auto& plural : plurals_of(target.kind)) {
    auto found = client_.find_kind(target.group, plural, {version});
    if (found) {
      const std::scoped_lock lock(mutex_);
      return known_[key] = *found;
    }
    last = found.error();
  }
  return fail(last);
}

Result<ScaleClient::Scale> ScaleClient::read(const TargetId& target, const std::string& api_version) {
  Scale out;
  QM_ASSIGN(out.resource, resource_of(target, api_version));
  QM_ASSIGN(out.object, client_.get(out.resource, target.ns, target.name));
  kube::Resource scale = out.resource;
  scale.plural += "/" + http::url_encode(target.name) + "/scale";
  auto read = client_.get(scale, target.ns, {});
  if (!read) return fail(read.error().with_context(fmt::format("the scale subresource of {}", target.to_string())));
  out.scale = std::move(*read);
  return out;
}

Status ScaleClient::write(const TargetId& target, const Scale& read, std::int32_t replicas) {
  const Json patch =
      Json::object({{"metadata", Json::object({{"resourceVersion", kube::resource_version_of(read.scale)}})},
                    {"spec", Json::object({{"replicas", replicas}})}});
  auto done = client_.merge_patch(read.resource, target.ns, target.name, patch, "scale");
  if (!done) return fail(done.error());
  return {};
}

Result<service::Outcome> ReplicaExecutor::execute(const store::IntentRow& intent) {
  QM_ASSIGN(const Json want, Json::parse(intent.payload));
  return intent.kind == "replicas.scale" ? scale(want) : switch_scaler(want);
}

// A status update between read and write changes the resource version too: the numbers decide, and are read again.
Result<service::Outcome> ReplicaExecutor::scale(const Json& want) {
  const TargetId target = target_of(want);
  const auto to = want["to"].integer(), from = want["from"].integer();
  for (int i = 0; i < kScaleTries; ++i) {
    const auto read = scales_.read(target, want["api_version"].string());
    if (!read && read.error().code == Code::kNotFound) return changed(want, read.error().message);
    if (!read) return fail(kube::for_start(read.error()).with_context("scale " + target.to_string()));
    if (kube::uid_of(read->object) != want["uid"].string()) {
      return changed(want, "the target was created again");
    }
    const auto has = read->scale["spec"]["replicas"].integer();
    if (has == to) return changed(want, {});
    if (has != from) {
      return changed(want,
                     fmt::format("the target has {} replicas and not {}: another client changed them", has, from));
    }
    QM_CRASH_POINT("autoscaler.before_scale");
    const auto done = scales_.write(target, *read, static_cast<std::int32_t>(to));
    if (done) return changed(want, {});
    if (done.error().code != Code::kAborted) {
      return fail(kube::for_start(done.error()).with_context("scale " + target.to_string()));
    }
  }
  return fail(Code::kUnavailable, "{} changes with each read of its scale", target.to_string());
}

Result<service::Outcome> ReplicaExecutor::switch_scaler(const Json& want) {
  const auto resource = scaler_resource(want["kind"].string());
  const auto ns = want["namespace"].string(), name = want["name"].string();
  const auto found = client_.get(resource, ns, name);
  if (!found && found.error().code == Code::kNotFound) return service::Outcome{"{}"};
  if (!found) return fail(kube::for_release(found.error()));
  if (kube::uid_of(*found) != want["uid"].string()) return service::Outcome{"{}"};
  const bool suspend = want["suspend"].boolean();
  const Json next = suspend ? qm::suspended(*found) : qm::restored(*found);
  if (next == *found) return service::Outcome{"{}"};
  const auto done = client_.update(resource, ns, name, next);
  if (done || done.error().code == Code::kNotFound) return service::Outcome{"{}"};
  const Error error = done.error().with_context(
      fmt::format("{} {} {}/{}", suspend ? "suspend" : "give back", want["kind"].string(), ns, name));
  return fail(error.code == Code::kAborted ? Error{Code::kUnavailable, error.message, {}, {}}
                                           : kube::for_release(error));
}

service::Outcome ReplicaExecutor::failed(const store::IntentRow& intent, const Error& error) {
  const auto want = Json::parse(intent.payload).value_or(Json());
  if (intent.kind == "replicas.scale") return changed(want, error.to_string());
  log::warn("a scaler was not switched", {{"scaler", want["name"].string()}, {"error", error.to_string()}});
  return {"{}"};
}

}  // namespace qm::autoscaler
