#include "qm/placement/mig/fleet.hpp"

#include "qm/base/assert.hpp"

#include <tuple>

namespace qm::placement::mig {

void Fleet::check(const Gpu& gpu) const {
  QM_ASSERT(gpu.used < table_->size(), "state {}", gpu.used);
  QM_ASSERT(gpu.layout == kNoState ||
                (gpu.layout < table_->size() && (table_->mask(gpu.used) & ~table_->mask(gpu.layout)) == 0),
            "layout {} does not hold {}", gpu.layout, gpu.used);
}

GpuId Fleet::add(const Gpu& gpu) {
  check(gpu);
  const auto id = static_cast<GpuId>(gpus_.size());
  gpus_.push_back(gpu);
  kinds_[gpu].insert(id);
  return id;
}

void Fleet::set(GpuId id, const Gpu& gpu) {
  check(gpu);
  QM_ASSERT(id < gpus_.size(), "there is no GPU {}", id);
  const auto kind = kinds_.find(gpus_[id]);
  kind->second.erase(id);
  if (kind->second.empty()) kinds_.erase(kind);
  gpus_[id] = gpu;
  kinds_[gpu].insert(id);
}

bool Fleet::can_take(const Gpu& gpu, SpotId spot) const {
  return table_->place(gpu.used, spot) != kNoState && (gpu.layout == kNoState || table_->has(gpu.layout, spot));
}

void Fleet::take(GpuId id, SpotId spot) {
  QM_ASSERT(id < gpus_.size() && can_take(gpus_[id], spot), "GPU {} cannot take spot {}", id, spot);
  set(id, {table_->place(gpus_[id].used, spot), gpus_[id].layout});
}

void Fleet::give_back(GpuId id, SpotId spot) {
  QM_ASSERT(id < gpus_.size() && table_->has(gpus_[id].used, spot), "GPU {} does not use spot {}", id, spot);
  set(id, {table_->free(gpus_[id].used, spot), gpus_[id].layout});
}

std::optional<Choice> choose(const Fleet& fleet, ProfileId profile, const Policy& policy) {
  const StateTable& table = fleet.table();
  std::optional<std::tuple<std::int64_t, Choice>> best;
  for (const auto& [kind, gpus] : fleet.kinds()) {
    if (!table.fits(kind.used, profile)) continue;
    for (const SpotId spot : table.spots_of(profile)) {
      if (!fleet.can_take(kind, spot)) continue;
      const std::tuple here(policy.loss(kind.used, table.place(kind.used, spot)), Choice{*gpus.begin(), spot});
      if (!best || here < *best) best = here;
    }
  }
  if (!best) return std::nullopt;
  return std::get<Choice>(*best);
}

}  // namespace qm::placement::mig
