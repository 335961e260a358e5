#include "scalers.hpp"

#include "qm/model/scalers.hpp"

#include <fmt/format.h>

namespace qm::admission_policy {
namespace {

std::string target_of(const Subject& s) {
  const auto ref = scale_target_of(*s.object);
  return ScaleTargets::key(s.ns, ref.group(), ref.kind, ref.name);
}

}  // namespace

std::string ScaleTargets::key(std::string_view ns, std::string_view group, std::string_view kind,
                              std::string_view name) {
  return fmt::format("{}/{}.{}/{}", ns, kind, group, name);
}

Json mutate_scaler(const Subject& s, const View& view) {
  if (!view.scale_targets.strict.contains(target_of(s))) return *s.object;
  return suspended(*s.object, s.old == nullptr ? Json() : *s.old);
}

void check_scaler(const Subject& s, const View& view, Verdict& out) {
  const auto target = target_of(s);
  const auto found = view.scale_targets.strict.find(target);
  if (found == view.scale_targets.strict.end() || !found->second) return;
  const auto own = ScaleTargets::key(s.ns, {}, s.kind, s.name);
  for (const auto& [scaler, of] : view.scale_targets.scalers) {
    if (of != target || scaler == own) continue;
    out.refusals.push_back(
        {"strict-replicas",
         fmt::format("{} is strict about its replicas and has the scaler {} already", target, scaler),
         "spec.scaleTargetRef",
         "add the metrics to that scaler, or set the annotation quartermaster.dev/replicas of the workload to "
         "quartermaster, so that the largest result counts"});
    return;
  }
}

}  // namespace qm::admission_policy
