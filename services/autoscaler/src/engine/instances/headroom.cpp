// Headroom of CapacityBuffers and SLOs.
//
//   free nodes (empty and not planned, or starting)  ->  each buffer in order of name takes those that fit its pods
//   pods without a node                              ->  the cheapest offering that fits them, within limits
#include "instances/headroom.hpp"

#include <algorithm>

namespace qm::autoscaler {

std::string Buffer::subject() const {
  constexpr std::string_view kPool = "NodePool ";
  if (!name.starts_with(kPool)) return "CapacityBuffer " + name;
  const auto slash = name.rfind('/');
  return fmt::format("headroom of {} for {}", name.substr(0, slash), name.substr(slash + 1));
}

std::vector<Buffer> Headroom::wanted() const {
  std::vector<Buffer> out;
  for (const auto& [name, buffer] : tables_.buffers) out.push_back(buffer);
  for (Buffer& buffer : slos_.buffers()) out.push_back(std::move(buffer));
  return out;
}

std::vector<ClaimName> Headroom::free_claims() const {
  const auto planned = facts_.planned();
  std::vector<ClaimName> out;
  for (const auto& [name, c] : tables_.claims) {
    if (!tables_.pools.contains(c.pool) || facts_.type(c.type) == nullptr || facts_.doomed(c)) continue;
    if (planned.contains(name) || !c.life.replaces.empty() || !c.life.replaced_by.empty()) continue;
    const NodeRow* node = facts_.node_of(c);
    const bool empty = c.state == ClaimState::kReady && node != nullptr && node->ready && node->pods == 0 &&
                       !node->cordoned && !tables_.pools.find(c.pool)->is_static();
    if (is_launching(c) || empty) out.push_back(name);
  }
  std::ranges::stable_partition(out, [&](const ClaimName& name) { return !is_launching(*tables_.claims.find(name)); });
  return out;
}

Headroom::Cover Headroom::cover(const Buffer& buffer, std::vector<ClaimName>& free) const {
  Cover out;
  const PodNeeds& needs = nodes_.needs(buffer.pods);
  std::erase_if(free, [&](const ClaimName& name) {
    const std::int64_t left = buffer.pods.count - out.pods;
    const NodeSide side = nodes_.side_of(*tables_.claims.find(name));
    if (left <= 0 || !nodes_.accepts(buffer.pods, side)) return false;
    FreeCapacity capacity = nodes_.empty(side);
    const std::int64_t pods = capacity.take(buffer.pods.shape, needs, left);
    if (pods == 0) return false;
    out.pods += pods;
    out.claims.push_back(name);
    return true;
  });
  return out;
}

void Headroom::keep_buffers() {
  state_.headroom.clear();
  const auto buffers = wanted();
  if (buffers.empty() || !facts_.scales_somewhere()) return;
  auto free = free_claims();
  auto in_use = facts_.usage();
  std::int64_t launches = 0;
  for (const auto& [name, c] : tables_.claims) launches += c.requested == state_.now ? 1 : 0;
  for (const Buffer& buffer : buffers) {
    const Cover covered = cover(buffer, free);
    state_.headroom.insert(covered.claims.begin(), covered.claims.end());
    std::int64_t want = buffer.pods.count - covered.pods;
    PodSet rest = buffer.pods;
    std::optional<Offer> offer;
    // As many pods as the limits allow.
    while (want > 0 && !offer) {
      rest.count = static_cast<std::int32_t>(want);
      offer = offers_.cheapest({rest}, in_use, nullptr);
      if (offer && launches + offer->nodes > options_.max_launches) {
        offer.reset();
        state_.more_launches = true;  // the rest is launched a moment later
      }
      if (!offer) want /= 2;
    }
    if (!offer) continue;
    launches += offer->nodes;
    in_use[offer->pool->name].add(*offer->type, offer->nodes);
    for (std::int64_t i = 0; i < offer->nodes; ++i) {
      const std::int64_t number = tables_.counters.edit("claim") += 1;
      const ClaimName claim(fmt::format("{}-{:05}", offer->pool->name, number));
      Claim c;
      c.pool = offer->pool->name;
      c.type = offer->type->name;
      c.market = offer->offering.market;
      c.zone = offer->offering.zone;
      c.requested = c.changed = state_.now;
      c.reason =
          fmt::format("{}: {} x {} {} is the cheapest at {} USD/h{}",
                      (tables_.buffers.contains(buffer.name) ? "headroom of " : "") + buffer.subject(), offer->nodes,
                      c.type, capacity_type_of(offer->offering), offer->per_hour.to_usd(2), offer->remarks);
      c.group = offer->pool->group;
      c.labels = offer->labels;
      c.reservation = offer->offering.reservation;
      claims_.launch(claim, c, *offer->pool);
      state_.headroom.insert(claim);
    }
  }
}

std::map<std::string, BufferState> Headroom::buffers() const {
  std::map<std::string, BufferState> out;
  const auto buffers = wanted();
  if (buffers.empty()) return out;
  auto free = free_claims();
  const auto in_use = facts_.usage();
  for (const Buffer& buffer : buffers) {
    BufferState& one = out[buffer.name];
    one.subject = buffer.subject();
    one.pods = buffer.pods.count;
    const Cover covered = cover(buffer, free);
    one.covered = covered.pods;
    one.nodes = static_cast<std::int64_t>(covered.claims.size());
    for (const ClaimName& name : covered.claims) {
      const Claim& claim = *tables_.claims.find(name);  // of a known type: see free_claims()
      one.per_hour += offers_.price_of(claim).value_or(facts_.type(claim.type)->on_demand).per_hour;
    }
    if (one.covered >= one.pods) continue;
    PodSet rest = buffer.pods;
    rest.count = static_cast<std::int32_t>(one.pods - one.covered);
    if (!facts_.scales_somewhere()) {
      one.missing = "another autoscaler launches nodes here";
    } else if (!offers_.cheapest({rest}, in_use, &one.missing) && one.missing.empty()) {
      one.missing = "no offering fits its pods";
    }
  }
  return out;
}

void Headroom::explain_buffers(std::vector<std::string>& lines) const {
  for (const auto& [name, one] : buffers()) {
    const std::string price = fmt::format("{} node(s) at {} USD/h", one.nodes, one.per_hour.to_usd(2));
    if (one.missing.empty()) {
      lines.push_back(fmt::format("{} has capacity for {} of {} pods: {}", one.subject, one.covered, one.pods, price));
    } else {
      lines.push_back(fmt::format("{} has capacity for {} of {} pods ({}): {}", one.subject, one.covered, one.pods,
                                  price, one.missing));
    }
  }
  slos_.explain(lines);
}

}  // namespace qm::autoscaler
