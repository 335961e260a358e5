#include "instances/headroom_rows.hpp"

#include "instances/lifecycle_rows.hpp"
#include "qm/wire/encode.hpp"
#include "state/autoscaler_state.pb.h"
#include "stored.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace qm::autoscaler {
namespace st = quartermaster::autoscaler::state;
namespace {

void fill(st::Headroom::Attained& row, const headroom::Attained& attained) {
  row.set_arrivals(attained.arrivals);
  row.set_covered(attained.covered);
}

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

/// "NodePool|day": a day has no bar.
std::string key_of(const std::pair<std::string, std::string>& day) { return day.first + "|" + day.second; }

}  // namespace

void append_changes(const HeadroomTables& tables, std::vector<store::StateRow>& out) {
  tables.pools.changed([&](const std::string& pool, const HeadroomRow* row) {
    out.push_back({"headroom", pool, row == nullptr ? std::nullopt : std::optional(wire::encode(message(*row)))});
  });
  tables.days.changed([&](const auto& day, const HeadroomDay* row) {
    out.push_back(
        {"headroom_day", key_of(day), row == nullptr ? std::nullopt : std::optional(wire::encode(message(*row)))});
  });
}

Result<bool> restore(HeadroomTables& tables, const store::StateRow& row) {
  if (row.kind == "headroom") {
    QM_ASSIGN(const auto m, parsed<st::Headroom>(*row.value, "headroom"));
    tables.pools.restore(row.key, headroom_of(m));
    return true;
  }
  if (row.kind != "headroom_day") return false;
  QM_ASSIGN(const auto m, parsed<st::HeadroomDay>(*row.value, "day of headroom"));
  const auto bar = row.key.rfind('|');
  if (bar == std::string::npos) return fail(Code::kInternal, "the stored key \"{}\" names no day", row.key);
  tables.days.restore({row.key.substr(0, bar), row.key.substr(bar + 1)}, headroom_day_of(m));
  return true;
}

st::HeadroomSlo message(const HeadroomSlo& slo) {
  st::HeadroomSlo row;
  row.set_wait_us(slo.wait.count());
  row.set_quantile_ppm(slo.quantile_ppm);
  return row;
}

HeadroomSlo headroom_slo_of(const st::HeadroomSlo& row) { return {Duration(row.wait_us()), row.quantile_ppm()}; }

std::string buffers_bytes(const std::vector<Buffer>& buffers) {
  st::Buffers all;
  for (const auto& buffer : buffers) *all.add_buffers() = message(buffer);
  return wire::encode(all);
}

Result<BuffersApplied> buffers_from_bytes(const std::string& text) {
  QM_ASSIGN(const auto all, parsed<st::Buffers>(text, "list of CapacityBuffers"));
  BuffersApplied out;
  for (const auto& row : all.buffers()) out.buffers.push_back(buffer_of(row));
  return out;
}

}  // namespace qm::autoscaler
