// The SLO of a NodePool, from its annotations.
#include "qm/autoscaler/shell.hpp"
#include "qm/base/log.hpp"
#include "qm/config/manifest.hpp"
#include "qm/kube/client.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

namespace qm::autoscaler {
namespace {

Result<HeadroomSlo> slo_of(const std::string& wait, const std::string& quantile) {
  const auto refuse = [](std::string_view annotation, std::string what, std::string remedy) {
    return fail(
        Error{Code::kInvalid, std::move(what), fmt::format("metadata.annotations[{}]", annotation), std::move(remedy)});
  };
  if (wait.empty() || quantile.empty())
    return refuse(wait.empty() ? kHeadroomWait : kHeadroomQuantile, "it is missing", "set both annotations, or none");
  const auto duration = config::parse_duration(wait);
  if (!duration || *duration < Duration{0})
    return refuse(kHeadroomWait, fmt::format("\"{}\" is not a duration", wait), "write a duration such as \"60s\"");
  double share = 0;
  const auto [end, error] = std::from_chars(quantile.data(), quantile.data() + quantile.size(), share);
  if (error != std::errc() || end != quantile.data() + quantile.size() || !(share >= 0.01 && share <= 0.9999)) {
    return refuse(kHeadroomQuantile, fmt::format("\"{}\" is not a quantile", quantile),
                  "write a number from 0.01 to 0.9999, such as \"0.95\"");
  }
  constexpr double kOne = 1e6;
  return HeadroomSlo{*duration, std::llround(share * kOne)};
}

}  // namespace

void read_headroom(const Json& object, Pool& pool) {
  const std::string wait = kube::annotation(object, kHeadroomWait);
  const std::string quantile = kube::annotation(object, kHeadroomQuantile);
  if (wait.empty() && quantile.empty()) return;
  auto slo = slo_of(wait, quantile);
  if (slo && pool.is_static()) {
    slo =
        fail(Error{Code::kInvalid, "a NodePool with replicas has no headroom",
                   fmt::format("metadata.annotations[{}]", kHeadroomWait), "remove the annotations, or spec.replicas"});
  }
  if (slo) {
    pool.headroom = *slo;
    return;
  }
  const Error& error = slo.error();
  pool.not_ready = fmt::format("{}: {}; {}", error.field, error.message, error.remedy);
  log::warn("a NodePool is not ready; nothing is launched from it", {{"pool", pool.name}, {"reason", pool.not_ready}});
}

}  // namespace qm::autoscaler
