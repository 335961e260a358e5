#include "instances/headroom_rows.hpp"

#include <algorithm>

namespace qm::autoscaler {
namespace st = quartermaster::autoscaler::state;
namespace {

void fill(st::Headroom::Attained& row, const headroom::Attained& attained) {
  row.set_arrivals(attained.arrivals);
  row.set_covered(attained.covered);
}

}  // namespace

st::HeadroomSlo message(const HeadroomSlo& slo) {
  st::HeadroomSlo row;
  row.set_wait_us(slo.wait.count());
  row.set_quantile_ppm(slo.quantile_ppm);
  return row;
}

HeadroomSlo headroom_slo_of(const st::HeadroomSlo& row) { return {Duration(row.wait_us()), row.quantile_ppm()}; }

st::Headroom message(const HeadroomRow& headroom) {
  st::Headroom row;
  *row.mutable_slo() = message(headroom.slo);
  row.set_since_us(micros(headroom.since));
  row.set_planned_us(micros(headroom.planned));
  row.set_target_ppm(headroom.target_ppm);
  fill(*row.mutable_recent(), headroom.recent);
  fill(*row.mutable_total(), headroom.total);
  for (const Duration boot : headroom.boots) row.add_boots_us(boot.count());
  for (const auto& [type, levels] : headroom.levels) {
    auto& of_type = (*row.mutable_levels())[type];
    for (const std::int64_t level : levels) of_type.add_free(level);
  }
  return row;
}

HeadroomRow headroom_of(const st::Headroom& row) {
  HeadroomRow out;
  out.slo = headroom_slo_of(row.slo());
  out.since = from_micros(row.since_us());
  out.planned = from_micros(row.planned_us());
  out.target_ppm = row.target_ppm();
  out.recent = {row.recent().arrivals(), row.recent().covered()};
  out.total = {row.total().arrivals(), row.total().covered()};
  for (const std::int64_t boot : row.boots_us()) out.boots.emplace_back(boot);
  for (const auto& [type, of_type] : row.levels()) {
    const auto bands = std::min<std::ptrdiff_t>(of_type.free_size(), headroom::kBands);
    std::copy_n(of_type.free().begin(), bands, out.levels[type].begin());
  }
  return out;
}

st::HeadroomDay message(const HeadroomDay& day) {
  st::HeadroomDay row;
  for (const HeadroomChange& change : day.changes) {
    auto* to = row.add_changes();
    to->set_at_us(micros(change.at));
    to->set_type(change.type);
    to->set_nodes(change.nodes);
  }
  return row;
}

HeadroomDay headroom_day_of(const st::HeadroomDay& row) {
  HeadroomDay out;
  for (const auto& change : row.changes())
    out.changes.push_back({from_micros(change.at_us()), change.type(), change.nodes()});
  return out;
}

}  // namespace qm::autoscaler
