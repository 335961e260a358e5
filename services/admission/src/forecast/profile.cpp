// One quota tree is moved forward through time and back. Usage of a cohort follows from usage of its queues, so
// moving back is exact.
#include "qm/admission/forecast/profile.hpp"

#include "qm/base/assert.hpp"

#include <algorithm>

namespace qm::admission::forecast {

Profile::Profile(kueue::Tree tree, Instant now, Settings settings)
    : tree_(std::move(tree)), now_(now), settings_(settings) {}

Instant Profile::rounded(Instant at) const {
  if (at <= now_) return now_;
  const auto most = Instant::max() - settings_.resolution;
  const auto grain = settings_.resolution.count();
  const auto after = (std::min(at, most) - now_).count();
  return now_ + Duration((after + grain - 1) / grain * grain);
}

void Profile::put(Instant at, Change change) { changes_[at].push_back(std::move(change)); }

void Profile::take_back(Instant at, const Change& change) {
  const auto step = changes_.find(at);
  QM_ASSERT(step != changes_.end(), "nothing changes at {}", micros(at));
  const auto found = std::ranges::find(step->second, change);
  QM_ASSERT(found != step->second.end(), "queue {} has no reservation at {}", change.queue, micros(at));
  step->second.erase(found);
  if (step->second.empty()) changes_.erase(step);
}

void Profile::frees(kueue::Node queue, const kueue::Amounts& amounts, Instant at) {
  put(rounded(at), {queue, amounts, false});
}
void Profile::reserve(kueue::Node queue, const kueue::Amounts& amounts, Instant from, Duration run) {
  put(from, {queue, amounts, true});
  put(rounded(from + run), {queue, amounts, false});
}
void Profile::drop(kueue::Node queue, const kueue::Amounts& amounts, Instant from, Duration run) {
  take_back(from, {queue, amounts, true});
  take_back(rounded(from + run), {queue, amounts, false});
}

void Profile::apply(const std::vector<Change>& changes, bool forward) {
  for (const auto& [queue, amounts, takes] : changes) {
    takes == forward ? tree_.add(queue, amounts) : tree_.remove(queue, amounts);
  }
}

/// Advances the tree to `at`; returns the first later change.
Profile::Changes::iterator Profile::go_to(Instant at) {
  auto step = changes_.begin();
  for (; step != changes_.end() && step->first <= at; ++step) apply(step->second, true);
  return step;
}
void Profile::go_back(Changes::iterator from) {
  while (from != changes_.begin()) apply((--from)->second, false);
}

std::optional<Instant> Profile::earliest(kueue::Node queue, const kueue::Amounts& amounts, Duration run,
                                         Instant not_before) {
  if (changes_.size() >= settings_.steps) return {};
  const Instant from = std::max(now_, not_before);
  auto step = go_to(from);
  std::optional<Instant> start;
  if (tree_.fits(queue, amounts)) start = from;
  for (; step != changes_.end(); ++step) {
    if (start ? step->first - *start >= run : step->first - now_ > settings_.horizon) break;
    apply(step->second, true);
    if (!tree_.fits(queue, amounts)) {
      start.reset();
    } else if (!start) {
      start = step->first;
    }
  }
  go_back(step);
  if (start && *start - now_ > settings_.horizon) start.reset();
  return start;
}

std::int64_t Profile::available(kueue::Node queue, kueue::Cell cell, Instant at) {
  const auto step = go_to(at);
  const auto out = tree_.available(queue, cell);
  go_back(step);
  return out;
}

std::vector<kueue::Amounts> remedies_of(const kueue::QuotaState& field, const kueue::Work& work) {
  constexpr std::size_t kMost = 64;
  const auto& rules = field.rules[static_cast<std::size_t>(work.queue)];
  // One choice of flavor: of one resource group, for one pod set or for all pod sets that must use the same flavors.
  struct Part {
    const kueue::QueueRules::Group* group = nullptr;
    std::int32_t common = -1;
    std::vector<std::size_t> sets;
  };
  std::vector<Part> parts;
  for (std::size_t i = 0; i < work.pod_sets.size(); ++i) {
    const auto& set = work.pod_sets[i];
    for (const auto& [resource, each] : set.each) {
      if (each == 0) continue;
      const auto* group = rules.group_of(resource);
      if (group == nullptr) return {};
      const auto same = std::ranges::find_if(parts, [&](const Part& part) {
        return part.group == group && (part.sets.back() == i || (set.group >= 0 && part.common == set.group));
      });
      if (same == parts.end()) {
        parts.push_back({group, set.group, {i}});
      } else if (same->sets.back() != i) {
        same->sets.push_back(i);
      }
    }
  }
  std::vector<kueue::Amounts> out{{}};
  for (const auto& part : parts) {
    std::vector<kueue::Amounts> longer;
    for (const auto& way : out) {
      for (const auto& option : part.group->options) {
        const bool refused = std::ranges::any_of(part.sets, [&](std::size_t i) {
          return std::ranges::any_of(work.pod_sets[i].refused,
                                     [&](const auto& r) { return r.flavor == option.flavor; });
        });
        if (refused || longer.size() == kMost) continue;
        auto& with = longer.emplace_back(way);
        for (const auto i : part.sets) {
          const auto& set = work.pod_sets[i];
          for (const auto& [resource, each] : set.each) {
            const auto index = part.group->index_of(resource);
            if (index && each != 0) kueue::add_to(with, option.cells[*index], each * set.count);
          }
        }
      }
    }
    out = std::move(longer);
  }
  return out;
}

std::optional<Backfill::Reservation> Backfill::next(const Waiting& work) {
  auto& not_before = not_before_.try_emplace(work.queue, profile_.now()).first->second;
  if (reservations_.size() >= depth_ || (work.in_order && !not_before)) return {};
  const Instant from = work.in_order ? *not_before : profile_.now();
  std::optional<Reservation> best;
  for (std::size_t way = 0; way < work.ways.size(); ++way) {
    const auto start = profile_.earliest(work.queue, work.ways[way], work.run, from);
    if (start && (!best || *start < best->start)) best = {work.id, *start, way};
  }
  if (work.in_order) not_before = best ? std::optional(best->start) : std::nullopt;
  if (!best) return {};
  profile_.reserve(work.queue, work.ways[best->way], best->start, work.run);
  reservations_.push_back(*best);
  return best;
}

}  // namespace qm::admission::forecast
