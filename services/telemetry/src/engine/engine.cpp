#include "qm/telemetry/engine.hpp"

#include "qm/base/assert.hpp"
#include "qm/base/digest.hpp"

#include <algorithm>
#include <tuple>

namespace qm::telemetry {
namespace {

constexpr const char* kRebalance = "rebalance";              // kind of a notice
constexpr Duration kOrderMemory = std::chrono::minutes(10);  // of acknowledgements after the deadline

template <class T, class Fn>
void each(T& t, Fn&& fn) {
  fn(t.health), fn(t.notices), fn(t.orders), fn(t.acked), fn(t.devices), fn(t.report), fn(t.xids), fn(t.xids_until);
}

bool names(const OpenOrder& order, const NodeName& node) {
  return std::find(order.nodes.begin(), order.nodes.end(), node) != order.nodes.end();
}

}  // namespace

Output Engine::step(std::span<const Command> batch, Instant now) {
  QM_ASSERT(now >= now_, "time went back from {} to {}", micros(now_), micros(now));
  now_ = now;
  out_ = {};
  drop_old_orders();
  forget_xids();
  for (const auto& command : batch) std::visit([this](const auto& c) { apply(c); }, command);
  for (const auto& [id, order] : tables_.orders) {
    const Instant end = order.deadline + kOrderMemory;
    if (!out_.wake_at || end < *out_.wake_at) out_.wake_at = end;
  }
  for (const auto& [node, until] : tables_.xids_until) {
    if (!out_.wake_at || until < *out_.wake_at) out_.wake_at = until;
  }
  return std::move(out_);
}

void Engine::undo() {
  each(tables_, [](auto& table) { table.rollback(); });
}
void Engine::commit() {
  each(tables_, [](auto& table) { table.commit(); });
}

void Engine::apply(const DevicesUpdated& c) {
  const auto* known = tables_.devices.find(c.node);
  if (known != nullptr ? *known == c.pods : c.pods.empty()) return;
  tables_.devices.insert(c.node, c.pods);
  out_.devices.push_back({c});
}

void Engine::apply(const NodeReportUpdated& c) {
  const auto* known = tables_.report.find(c.node);
  if (known != nullptr ? *known == c.report : c.report == NodeReport{}) return;
  tables_.report.insert(c.node, c.report);
  out_.report.push_back({c});
}

/// Whether the report is of an XID that was not reported before. An agent repeats unconfirmed reports, so an older one
/// may arrive after a newer one; and its node's clock may be set back. A report dropped in error is lost, one
/// processed twice is not: so only known repetitions are dropped.
bool Engine::remember(const XidUpdated& c) {
  // Without any identity a later host with the same name would be considered this one.
  if (c.gpu.empty() && c.boot.empty()) return !c.cleared;
  const std::string gpu = c.gpu.empty() ? fmt::format("#{}", c.gpu_index) : c.gpu.value();
  const LastXids* known = tables_.xids.find(c.node);
  if (tables_.xids_until.contains(c.node)) tables_.xids_until.erase(c.node);  // the node has reappeared
  const bool same_boot = known != nullptr && known->boot == c.boot;
  if (known != nullptr && !same_boot && !known->boot.empty() && !c.boot.empty() && known->boot_before == c.boot)
    return !c.cleared && !c.standing;
  const std::vector<LastXids::Last>* reports = nullptr;
  if (same_boot) {
    if (const auto at = known->gpus.find(gpu); at != known->gpus.end()) reports = &at->second;
  }
  if (c.cleared && reports == nullptr) return false;
  LastXids::Last next{c.at, c.cleared ? 0 : c.xid, {}};
  if (catalog::xid::recovery_decides(next.xid))
    next.recovery_action =
        c.recovery_action ? c.recovery_action : catalog::xid::details_in(c.xid, c.line).recovery_action;
  const bool repeated = reports != nullptr && std::ranges::find(*reports, next) != reports->end();
  const bool old = repeated || (reports != nullptr && next.same(reports->front()));
  const bool is_new = !c.cleared && !(c.standing && old);
  if (repeated || (reports == nullptr && same_boot && known->gpus.size() >= kMostXids)) return is_new;
  LastXids& row = tables_.xids.edit(c.node);
  if (!same_boot) row = LastXids{c.boot, row.boot.empty() ? row.boot_before : row.boot, {}};
  auto& of = row.gpus[gpu];
  // Reports with the same time have no order.
  const auto at = std::ranges::find_if(of, [&](const auto& one) { return one.at != next.at || one < next; });
  of.insert(at, next);
  if (of.size() > kMostReports) of.pop_back();
  return is_new;
}

void Engine::forget_xids() {
  std::vector<NodeName> over;
  for (const auto& [node, until] : tables_.xids_until) {
    if (until <= now_) over.push_back(node);
  }
  for (const auto& node : over) {
    tables_.xids_until.erase(node);
    tables_.xids.erase(node);
  }
}

void Engine::apply(const XidUpdated& c) {
  if (!remember(c)) return;
  namespace xids = catalog::xid;
  const xids::Xid* xid = xids::find(c.xid);
  xids::Details details = xids::details_in(c.xid, c.line);
  if (c.recovery_action) details.recovery_action = c.recovery_action;
  const Action action = xids::action_for(c.xid, details);
  if (action == Action::kNone) return;
  const std::string reason =
      fmt::format("XID {} {} on GPU {}", c.xid, xid != nullptr ? xid->name : "unknown", c.gpu_index);
  const Health* known = tables_.health.find(c.node);
  Health row = known == nullptr ? Health{} : *known;
  if (action >= Action::kResetGpu && c.gpu_index >= 0) {
    const auto at = std::ranges::lower_bound(row.gpus, c.gpu_index, {}, &GpuFault::gpu_index);
    const bool fresh = at == row.gpus.end() || at->gpu_index != c.gpu_index;
    GpuFault fault{c.gpu_index, c.gpu, action, c.xid, reason, c.at};
    if (fresh && row.gpus.size() < kMostXids) {
      row.gpus.insert(at, std::move(fault));
    } else if (!fresh && std::tuple(at->action, at->at, at->xid) < std::tuple(action, c.at, c.xid)) {
      *at = std::move(fault);
    }
  }
  if (row.action < action) row = {action, c.xid, c.gpu_index, c.gpu, reason, c.at, std::move(row.gpus)};
  if (known != nullptr && *known == row) return;  // more severe verdicts are valid
  tables_.health.insert(c.node, row);
  out_.health.push_back({c.node, std::move(row)});
}

void Engine::apply(const NoticeUpdated& c) {
  const Notice* known = tables_.notices.find(c.node);
  if (known != nullptr && known->instance == c.instance) {
    // Of one kind the first counts. A recommendation has no deadline; of several kinds with one the earliest counts.
    const bool earlier = known->kind == kRebalance || c.at < known->at;
    if (c.kind == known->kind || c.kind == kRebalance || !earlier) return;
  }
  Notice row{c.instance, c.action, c.kind, c.at, now_};
  tables_.notices.insert(c.node, row);
  out_.notices.push_back({c.node, std::move(row)});
}

void Engine::apply(const AckUpdated& c) {
  const OpenOrder* order = tables_.orders.find(c.order);
  const auto key = std::pair(c.order, c.node);
  if (order == nullptr || !names(*order, c.node) || tables_.acked.contains(key)) return;
  // The workload resumes from the URI: an acknowledgement for another workload is not valid.
  const bool stale = c.number != 0 && c.number != order->number;
  if (c.id != order->id || c.ns != order->ns || stale) {
    out_.foreign_acks.push_back(c);
    return;
  }
  tables_.acked.insert(key, c.step);
  out_.acks.push_back(c);
}

void Engine::apply(const OrderUpdated& c) {
  if (c.settled || c.deadline + kOrderMemory <= now_) return;  // drop_old_orders removes it later
  const OpenOrder row{c.id, c.nodes, c.reason, c.deadline, c.ns, c.kind, c.number};
  if (const OpenOrder* known = tables_.orders.find(c.order); known == nullptr || !(*known == row))
    tables_.orders.insert(c.order, row);
}

void Engine::apply(const NodeDeleted& c) {
  out_.gone.push_back(c.node);
  if (tables_.health.contains(c.node)) {
    tables_.health.erase(c.node);
    Health row;
    row.reason = "the node is gone";
    row.at = now_;
    out_.health.push_back({c.node, std::move(row), true});
  }
  if (tables_.devices.contains(c.node)) {
    tables_.devices.erase(c.node);
    out_.devices.push_back({{c.node, now_, {}}, true});
  }
  if (tables_.report.contains(c.node)) {
    tables_.report.erase(c.node);
    out_.report.push_back({{c.node, now_, {}}, true});
  }
  if (tables_.xids.contains(c.node) && !tables_.xids_until.contains(c.node))
    tables_.xids_until.insert(c.node, now_ + kXidMemory);
  if (const Notice* notice = tables_.notices.find(c.node)) {
    out_.notices.push_back({c.node, *notice, true});
    tables_.notices.erase(c.node);
  }
}

void Engine::drop_old_orders() {
  std::vector<std::string> old;
  for (const auto& [id, order] : tables_.orders) {
    if (order.deadline + kOrderMemory <= now_) old.push_back(id);
  }
  for (const auto& id : old) {
    // By the order's id, not its nodes: a later version of the order may have fewer nodes.
    std::vector<std::pair<std::string, NodeName>> acks;
    const auto& acked = tables_.acked.rows();
    for (auto it = acked.lower_bound({id, NodeName()}); it != acked.end() && it->first.first == id; ++it)
      acks.push_back(it->first);
    for (const auto& key : acks) tables_.acked.erase(key);
    out_.ended_acks.insert(out_.ended_acks.end(), acks.begin(), acks.end());
    tables_.orders.erase(id);
  }
}

std::vector<std::pair<std::string, OpenOrder>> Engine::open_orders(const NodeName& node) const {
  std::vector<std::pair<std::string, OpenOrder>> out;
  for (const auto& [id, order] : tables_.orders) {
    if (names(order, node) && order.deadline > now_ && !tables_.acked.contains({id, node})) out.emplace_back(id, order);
  }
  return out;
}

std::uint64_t Engine::digest() const {
  Digest d;
  // The sizes prevent rows of one table from being read as rows of the next.
  each(tables_, [&](const auto& table) { d.add(static_cast<std::int64_t>(table.size())); });
  for (const auto& [node, h] : tables_.health) {
    d.add(node.value())
        .add(static_cast<std::int64_t>(h.action))
        .add(h.xid)
        .add(h.gpu_index)
        .add(h.gpu.value())
        .add(h.reason)
        .add(micros(h.at))
        .add(static_cast<std::int64_t>(h.gpus.size()));
    for (const auto& gpu : h.gpus) {
      d.add(gpu.gpu_index)
          .add(gpu.gpu.value())
          .add(static_cast<std::int64_t>(gpu.action))
          .add(gpu.xid)
          .add(gpu.reason)
          .add(micros(gpu.at));
    }
  }
  for (const auto& [node, n] : tables_.notices) {
    d.add(node.value()).add(n.instance.value()).add(n.action).add(micros(n.at)).add(micros(n.seen)).add(n.kind);
  }
  for (const auto& [id, o] : tables_.orders) {
    d.add(id)
        .add(o.id.uid.value())
        .add(o.id.attempt)
        .add(o.reason)
        .add(micros(o.deadline))
        .add(o.ns)
        .add(o.kind)
        .add(o.number)
        .add(static_cast<std::int64_t>(o.nodes.size()));
    for (const auto& node : o.nodes) d.add(node.value());
  }
  for (const auto& [key, step] : tables_.acked) d.add(key.first).add(key.second.value()).add(step);
  for (const auto& [node, pods] : tables_.devices) {
    d.add(node.value()).add(static_cast<std::int64_t>(pods.size()));
    for (const auto& p : pods) {
      d.add(p.ns.value()).add(p.pod).add(static_cast<std::int64_t>(p.devices.size()));
      for (const auto& v : p.devices)
        d.add(v.node.value()).add(v.index).add(v.uuid.value()).add(v.milli).add(v.mig_profile);
    }
  }
  const auto words = [&](const Labels& labels) {
    d.add(static_cast<std::int64_t>(labels.size()));
    for (const auto& [key, value] : labels) d.add(key).add(value);
  };
  for (const auto& [node, report] : tables_.report) {
    d.add(node.value()).add(static_cast<std::int64_t>(report.owned_prefixes.size()));
    for (const auto& prefix : report.owned_prefixes) d.add(prefix);
    words(report.labels), words(report.annotations);
  }
  for (const auto& [node, xids] : tables_.xids) {
    d.add(node.value()).add(xids.boot).add(xids.boot_before).add(static_cast<std::int64_t>(xids.gpus.size()));
    for (const auto& [gpu, reports] : xids.gpus) {
      d.add(gpu).add(static_cast<std::int64_t>(reports.size()));
      for (const auto& one : reports)
        d.add(one.xid).add(micros(one.at)).add(one.recovery_action ? 1 : 0).add(one.recovery_action.value_or(0));
    }
  }
  for (const auto& [node, until] : tables_.xids_until) d.add(node.value()).add(micros(until));
  return d.value();
}

}  // namespace qm::telemetry
