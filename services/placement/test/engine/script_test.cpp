// The runner of the text tables; its own test is at the end.
#include "test/engine/script.hpp"

#include "qm/kube_rules/text.hpp"
#include "qm/testing/table.hpp"
#include "qm/testing/text.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace qm::placement::testing {
namespace {

using qm::testing::split;
using qm::testing::trimmed;
using qm::testing::Words;

std::string devices_text(const std::vector<DeviceRef>& devices) {
  std::string out;
  for (const DeviceRef& device : devices) {
    out += out.empty() ? "" : ",";
    out += std::to_string(device.index);
    if (device.milli != 1000 && device.milli != 0) out += ":" + std::to_string(device.milli);
    if (device.milli == 0) out += "=" + device.uuid.value();
  }
  return "[" + out + "]";
}

std::string assignment_text(const AssignmentChanged& event) {
  const Assignment& a = event.state;
  std::string out = fmt::format("{}{} {}", event.forgotten ? "forget " : "", name_of(a.state), event.id.to_string());
  if (a.state == AssignmentState::kShort) return out + " " + a.short_reason;
  for (const Member& member : a.members) {
    out += fmt::format(" {}:{}{}{}{}", member.index, member.node, devices_text(member.devices),
                       member.bound != Instant{} ? "*" : "", member.live() ? "" : "-");
  }
  return out;
}

}  // namespace

std::vector<Command> zoned_nodes(int count) {
  std::vector<Command> out;
  NodesSynced synced;
  for (int n = 0; n < count; ++n) {
    auto facts = node_facts(8);
    facts.labels = {{"zone", n % 2 == 0 ? "x" : "y"}};
    const NodeName name(fmt::format("n{}", n));
    out.emplace_back(NodeUpdated{name, facts});
    synced.nodes.insert(name);
  }
  out.emplace_back(synced);
  out.emplace_back(PodsSynced{});
  return out;
}

AttemptId attempt_id(const std::string& text) {
  const auto slash = text.find('/');
  return {WorkloadUid(text.substr(0, slash)), std::stoi(text.substr(slash + 1))};
}

PodSet pod_set(std::int32_t count, std::int64_t whole, std::int64_t milli) {
  PodSet set;
  set.count = count;
  set.shape.cpu_milli = 1000;
  set.shape.memory_bytes = 1LL << 30;
  set.shape.gpu.whole = whole;
  set.shape.gpu.milli = milli;
  return set;
}

NodeFacts node_facts(std::int32_t gpus) {
  NodeFacts facts;
  facts.cpu_milli = 64'000;
  facts.memory_bytes = 256LL << 30;
  facts.gpus = facts.gpus_installed = gpus;
  facts.ready = true;
  facts.model = "H100";
  return facts;
}

std::vector<std::string> render(const Output& output, bool nodes) {
  std::vector<std::string> lines;
  for (const Event& event : output.events) {
    if (const auto* a = std::get_if<AssignmentChanged>(&event)) {
      lines.push_back(assignment_text(*a));
    } else if (const auto* d = std::get_if<DemandChanged>(&event)) {
      std::string line = "demand";
      for (const DemandItem& item : d->items) {
        line += " " + item.id.to_string();
        for (const PodSet& set : item.runs ? item.pod_sets : std::vector<PodSet>()) {
          line += fmt::format("+{}", set.count);
          for (const auto& [label, value] : set.shape.node_selector) line += fmt::format("@{}={}", label, value);
        }
      }
      lines.push_back(line);
    } else if (const auto* r = std::get_if<RequeueChanged>(&event)) {
      std::string line = "requeue";
      for (const RequeueItem& item : r->items) line += " " + item.id.to_string();
      lines.push_back(line);
    } else if (const auto* e = std::get_if<EvictionRequested>(&event)) {
      lines.push_back(fmt::format("{}evict {} {}{}{}{}", e->forgotten ? "forget " : "", e->id.to_string(),
                                  e->ask.reason, e->ask.node.empty() ? "" : " " + e->ask.node.value(),
                                  e->ask.pods_lost ? " lost" : "", e->ask.save_until != Instant{} ? " saving" : ""));
    } else if (const auto* p = std::get_if<ProposalChanged>(&event)) {
      std::string line =
          fmt::format("{} {} {}/{}", p->withdrawn ? "withdraw" : "propose", p->state.number, p->uid, p->state.attempt);
      if (!p->withdrawn) {
        line += fmt::format(" ${:.2f}:", static_cast<double>(p->state.lost_micro_usd) / 1e6);
        for (const auto& victim : p->state.victims) line += " " + victim.id.to_string();
      }
      lines.push_back(line);
    } else if (const auto* n = std::get_if<NodeChanged>(&event); n != nullptr && nodes) {
      lines.push_back(fmt::format("node {} {} pods={}{}{}", n->name, name_of(n->node.state), n->node.pods,
                                  n->node.empty_since != Instant{} ? " empty" : "",
                                  n->node.reason.empty() ? "" : " " + n->node.reason));
    }
  }
  for (const Intent& intent : output.intents) {
    if (const auto* b = std::get_if<BindPod>(&intent.what)) {
      std::string devices;
      for (const auto index : b->devices) devices += (devices.empty() ? "" : ",") + std::to_string(index);
      lines.push_back(fmt::format("bind {} -> {} [{}]", b->pod_uid, b->node, devices));
    } else if (const auto* d = std::get_if<DeletePod>(&intent.what)) {
      lines.push_back(fmt::format("delete {} grace={}", d->pod_uid, d->grace_s));
    } else if (const auto* r = std::get_if<RefusePod>(&intent.what)) {
      lines.push_back("refuse " + r->pod_uid);
    } else if (const auto* m = std::get_if<MarkNode>(&intent.what)) {
      std::string line = fmt::format("mark {}", m->node);
      for (const auto* words : {&m->report.labels, &m->report.annotations}) {
        for (const auto& [key, value] : *words) line += fmt::format(" {}={}", key, value);
      }
      lines.push_back(line);
    } else if (const auto* c = std::get_if<CordonNode>(&intent.what)) {
      lines.push_back(c->causes.empty() ? fmt::format("uncordon {}", c->node)
                                        : fmt::format("cordon {} {}", c->node, c->causes));
    } else if (const auto* l = std::get_if<LabelNode>(&intent.what)) {
      lines.push_back(fmt::format("label {} {}", l->node, l->layout));
    }
  }
  for (const Reply& reply : output.replies) {
    if (!reply.answer) {
      lines.push_back("refused " + reply.answer.error().message);
      continue;
    }
    for (const auto& row : reply.answer->orders) {
      lines.push_back(fmt::format("ordered {} {} {}{}{}", row.order.node, row.order.layout,
                                  relayout::name_of(row.phase),
                                  row.order.has_window() ? " from " + to_rfc3339(row.order.from) : "",
                                  row.reason.empty() ? "" : ": " + row.reason));
    }
    for (const auto& warning : reply.answer->warnings) lines.push_back("warning " + warning);
  }
  for (const ForeignPod& pod : output.notes.foreign)
    lines.push_back(fmt::format("foreign {} {} {}", pod.pod, pod.named, name_of(pod.why)));
  if (output.notes.stale > 0) lines.push_back(fmt::format("stale {}", output.notes.stale));
  if (output.notes.drift > 0) lines.push_back(fmt::format("drift {}", output.notes.drift));
  if (output.notes.drift_refused > 0) lines.push_back("drift refused");
  return lines;
}

std::string lines_of(const Output& output, std::initializer_list<std::string_view> words) {
  std::string out;
  for (const auto& line : render(output, false)) {
    const bool asked = std::ranges::any_of(words, [&](std::string_view word) { return line.starts_with(word); });
    if (asked) out += (out.empty() ? "" : "; ") + line;
  }
  return out;
}

WorkloadUpdated gang_of(const std::string& uid, int pods, const rules::PodTemplate& like, std::int64_t gpus) {
  WorkloadUpdated out;
  out.spec.uid = WorkloadUid(uid);
  out.spec.ns = like.ns;
  out.spec.name = uid;
  out.spec.pod_sets = {pod_set(pods, gpus)};
  out.spec.pod_sets[0].rules = rules::text_of(like);
  out.phase = WorkloadPhase::kQuotaReserved;
  out.attempt = 1;
  return out;
}

Output Script::step(const std::vector<Command>& batch) {
  const auto before = engine_.digest();
  const auto first = render(engine_.step(batch, now_), true);
  const auto after = engine_.digest();
  engine_.audit();
  engine_.undo();
  engine_.audit();
  if (engine_.digest() != before) broken_ += "undo does not restore the state\n";
  auto output = engine_.step(batch, now_);
  if (render(output, true) != first) broken_ += "the step gives another output when repeated\n";
  if (engine_.digest() != after) broken_ += "the step gives another state when repeated\n";
  engine_.audit();
  engine_.commit();
  EXPECT_EQ(broken_, "");
  return output;
}

std::vector<Command> Script::parse(const std::string& line) {
  const Words words(line);
  const std::string& verb = words.plain.at(0);
  const auto arg = [&](std::size_t i) { return words.plain.at(i); };

  if (verb == "node") {
    NodeFacts facts = node_facts(static_cast<std::int32_t>(words.number("gpus", 0)));
    facts.cpu_milli = words.number("cpu", 64) * 1000;
    facts.memory_bytes = words.number("mem", 256) << 30;
    facts.gpus = static_cast<std::int32_t>(words.number("allocatable", facts.gpus));
    facts.model = words.get("model", "H100");
    facts.zone = words.get("zone", "");
    facts.ready = words.get("ready", "yes") == "yes";
    facts.unschedulable = words.has("external") || words.has("ours");
    if (words.has("ours")) facts.cordoned_by = words.get("cause", "drain");
    if (words.named.contains("for")) {
      for (const auto& uid : split(words.get("for"), ',')) facts.launched_for.emplace_back(uid);
    }
    if (words.named.contains("left")) facts.cordoned_by = words.get("left");
    if (words.named.contains("installed"))
      facts.gpus_installed = static_cast<std::int32_t>(words.number("installed", 0));
    if (words.named.contains("ext")) facts.extended["nvidia.com/mig-1g.10gb"] = words.number("ext", 0);
    for (auto [it, end] = words.named.equal_range("has"); it != end; ++it) {
      const auto kv = split(it->second, ':');
      facts.extended["nvidia.com/mig-" + kv.at(0)] = std::stoll(kv.at(1));
    }
    for (auto [it, end] = words.named.equal_range("label"); it != end; ++it) {
      const auto kv = split(it->second, '=');
      facts.labels[kv.at(0)] = kv.at(1);
    }
    for (auto [it, end] = words.named.equal_range("taint"); it != end; ++it) {
      const auto kv = split(it->second, ':');
      facts.taints.push_back({kv.at(0), "", kv.at(1)});
    }
    nodes_[NodeName(arg(1))] = facts;
    return {NodeUpdated{NodeName(arg(1)), facts}};
  }
  if (verb == "node-gone") {
    nodes_.erase(NodeName(arg(1)));
    return {NodeDeleted{NodeName(arg(1))}};
  }
  if (verb == "synced") {
    NodesSynced n;
    for (const auto& [name, facts] : nodes_) n.nodes.insert(name);
    PodsSynced p;
    for (const auto& [name, pod] : pods_) p.uids.insert(pod.uid);
    return {n, p};
  }
  if (verb == "restart") return {WatchStarted{}};
  if (verb == "nodes-listed") {
    NodesSynced n;
    for (std::size_t i = 1; i < words.plain.size(); ++i) n.nodes.insert(NodeName(arg(i)));
    return {n};
  }
  if (verb == "pods-listed") {
    PodsSynced p;
    for (std::size_t i = 1; i < words.plain.size(); ++i) p.uids.insert(arg(i));
    return {p};
  }
  if (verb == "answer") {
    WorkloadUpdated latest;
    const AttemptId id = attempt_id(arg(1));
    latest.spec = specs_[id.uid];
    latest.attempt = id.attempt;
    latest.phase = words.has("evicting")   ? WorkloadPhase::kEvicting
                   : words.has("admitted") ? WorkloadPhase::kAdmitted
                                           : WorkloadPhase::kQuotaReserved;
    if (words.has("evicting")) latest.order_deadline = now_ + std::chrono::seconds(30);
    latest.quota_facts = quota_facts_[id.uid];
    const Proposal* row = engine_.tables().proposals.find(id.uid);
    auto& answer = latest.answer.emplace();
    answer.number = words.number("number", row == nullptr ? 0 : row->number);
    answer.accepted = arg(2) == "accepted";
    if (!answer.accepted) answer.reason = arg(2);
    for (const auto& uid : split(words.get("refused"), ',')) answer.refused.emplace_back(uid);
    return {latest};
  }
  if (verb == "want" || verb == "phase") {
    const AttemptId id = attempt_id(arg(1));
    WorkloadSpec& spec = specs_[id.uid];
    WorkloadUpdated latest;
    latest.attempt = id.attempt;
    latest.phase = WorkloadPhase::kQuotaReserved;
    if (verb == "want") {
      spec = {};
      spec.uid = id.uid;
      spec.name = id.uid.value();
      spec.ns = Namespace(words.get("in", "ns"));
      spec.kind = words.get("kind", "Job");
      spec.priority = static_cast<std::int32_t>(words.number("prio", 0));
      spec.checkpoints = words.has("checkpoints");
      if (words.get("movable") == "false") spec.labels["quartermaster.dev/movable"] = "false";
      for (std::size_t i = 2; i < words.plain.size() && arg(i) != "checkpoints"; ++i) {
        const auto parts = split(arg(i), 'x');
        const bool share = parts.at(1).ends_with('m');
        PodSet set =
            pod_set(std::stoi(parts.at(0)), share ? 0 : std::stoll(parts.at(1)), share ? std::stoll(parts.at(1)) : 0);
        set.name = "set" + std::to_string(i - 2);
        set.min_count = static_cast<std::int32_t>(words.number("min", 0));
        set.completions = static_cast<std::int32_t>(words.number("of", 0));
        set.shape.cpu_milli = words.number("cpu", 1) * 1000;
        set.shape.memory_bytes = words.number("mem", 1) << 30;
        if (words.named.contains("mig"))
          set.shape.gpu = {0, 0, words.get("profile", "1g.10gb"), words.number("mig", 0), {}};
        if (const auto select = words.get("select"); !select.empty()) {
          const auto kv = split(select, '=');
          set.shape.node_selector[kv.at(0)] = kv.at(1);
        }
        if (const auto key = words.get("tolerate"); !key.empty())
          set.shape.tolerations.push_back({key, "Exists", "", ""});
        if (const auto model = words.get("model"); !model.empty()) set.shape.gpu.models.push_back(model);
        set.topology = {words.get("required"), words.get("preferred"),
                        words.get("slice"),    static_cast<std::int32_t>(words.number("slice-size", 0)),
                        words.get("group"),    words.get("exclusive") == "true"};
        spec.pod_sets.push_back(set);
      }
      const auto may = words.get("preempt");
      quota_facts_[id.uid] = {words.get("queue", "q"), words.get("tree", "t"), may == "own" || may == "both",
                              may == "tree" || may == "both"};
      quota_facts_[id.uid].queue_position = static_cast<std::int32_t>(words.number("position", 0));
    } else {
      const std::map<std::string, WorkloadPhase> phases{
          {"pending", WorkloadPhase::kPending},   {"quota-reserved", WorkloadPhase::kQuotaReserved},
          {"admitted", WorkloadPhase::kAdmitted}, {"evicting", WorkloadPhase::kEvicting},
          {"finished", WorkloadPhase::kFinished}, {"cancelled", WorkloadPhase::kCancelled}};
      latest.phase = phases.at(arg(2));
      latest.no_free_capacity = words.has("no-room");
      spec.uid = id.uid;
      if (words.named.contains("pods")) {
        spec.pod_sets.at(0).count = static_cast<std::int32_t>(words.number("pods", 0));
        spec.pod_sets.at(0).min_count = static_cast<std::int32_t>(words.number("min", 0));
      }
      if (words.named.contains("ended"))
        quota_facts_[id.uid].ended_pods = static_cast<std::int32_t>(words.number("ended", 0));
      if (words.named.contains("deadline")) {
        latest.order_deadline = now_ + std::chrono::seconds(words.number("deadline", 0));
      }
    }
    latest.spec = spec;
    QuotaFacts& standing = quota_facts_[id.uid];
    if (latest.phase == WorkloadPhase::kAdmitted && standing.admitted == Instant{}) standing.admitted = now_;
    if (words.named.contains("min-runtime"))
      standing.min_runtime_until = now_ + std::chrono::seconds(words.number("min-runtime", 0));
    latest.quota_facts = standing;
    return {latest};
  }
  if (verb == "pod") {
    const auto parts = split(arg(1), '#');
    const AttemptId id = attempt_id(parts.at(0));
    PodFacts pod;
    pod.ns = words.get("in", "ns");
    pod.uid = pod.name = arg(1) + (words.named.contains("again") ? "." + words.get("again") : "");
    pod.owner = id.uid;
    pod.controller = WorkloadUid(words.get("by", id.uid.value()));
    if (pod.controller == WorkloadUid("none")) pod.controller = {};
    if (!pod.controller.empty()) pod.controller_kind = words.get("kind", "Job");
    pod.attempt = id.attempt;
    pod.index = std::stoi(parts.at(1));
    pod.pod_set = words.get("set");
    pod.node = NodeName(words.get("on"));
    pod.ours = true;
    pod.deleting = words.has("deleting");
    if (words.named.contains("tolerates"))
      pod.not_ready_s = pod.unreachable_s = words.number("tolerates", kDefaultTolerationSeconds);
    pod.unreachable_s = words.number("unreachable", pod.unreachable_s);
    if (words.has("running")) pod.phase = PodPhase::kRunning;
    if (words.has("succeeded")) pod.phase = PodPhase::kSucceeded;
    if (words.has("failed")) pod.phase = PodPhase::kFailed;
    if (specs_.contains(id.uid) && !specs_[id.uid].pod_sets.empty()) pod.shape = specs_[id.uid].pod_sets[0].shape;
    pods_[pod.uid] = pod;
    return {PodUpdated{pod}};
  }
  if (verb == "unmanaged") {
    PodFacts pod;
    pod.ns = "other";
    pod.uid = pod.name = arg(1);
    pod.node = NodeName(words.get("on"));
    pod.phase = words.has("succeeded") ? PodPhase::kSucceeded : PodPhase::kRunning;
    pod.daemon = words.has("daemon");
    pod.shape.cpu_milli = words.number("cpu", 0) * 1000;
    pod.shape.gpu.whole = words.number("gpus", 0);
    if (words.named.contains("mig")) pod.shape.gpu = {0, 0, "1g.10gb", words.number("mig", 0), {}};
    pods_[pod.uid] = pod;
    if (!words.named.contains("devices")) return {PodUpdated{pod}};
    const Observation* before = engine_.tables().observations.find(pod.node);
    DevicesObserved latest{pod.node, before == nullptr ? Observation{} : *before};
    latest.seen.at = now_;
    for (const auto& index : split(words.get("devices"), ','))
      latest.seen.pods[pod.key()].push_back({pod.node, std::stoi(index), DeviceUuid("GPU-" + index), 1000, ""});
    return {PodUpdated{pod}, latest};
  }
  if (verb == "pod-gone" || verb == "unmanaged-gone") {
    pods_.erase(arg(1));
    return {PodDeleted{arg(1)}};
  }
  if (verb == "health") {
    HealthUpdated latest{NodeName(arg(1)), std::nullopt};
    if (!words.has("ok")) {
      latest.mark =
          HealthVerdict{words.has("cordon"), static_cast<std::int32_t>(words.number("gpu", -1)), 79, "XID 79"};
    }
    return {latest};
  }
  if (verb == "drain") return {DrainUpdated{NodeName(arg(1)), DrainRequest{"SpotInterruption", {}}}};
  if (verb == "undrain") return {DrainUpdated{NodeName(arg(1)), std::nullopt}};
  if (verb == "devices") {
    DevicesObserved latest{NodeName(arg(1)), {now_, {}}};
    for (const auto& [pod, indexes] : words.named) {
      const std::string key = (pods_.contains(pod) ? pods_.at(pod).ns : "ns") + "/" + pod;
      for (const auto& text : split(indexes, ',')) {  // "3", or "3.b": instance b of GPU 3
        const auto dot = text.find('.');
        const std::string index = text.substr(0, dot);
        DeviceRef device{NodeName(arg(1)), std::stoi(index), DeviceUuid("GPU-" + index), 1000, ""};
        if (dot != std::string::npos) {
          device = {NodeName(arg(1)), std::stoi(index), DeviceUuid("MIG-" + text), 142, "1g.10gb"};
        }
        latest.seen.pods[key].push_back(std::move(device));
      }
    }
    return {latest};
  }
  if (verb == "layout" || verb == "layout-default" || verb == "layout-withdrawn") {
    OrderLayouts order;
    order.dry_run = words.has("dry");
    if (verb == "layout") order.nodes[NodeName(arg(1))] = arg(2);
    if (verb == "layout-default") order.otherwise = DefaultLayout{arg(1), words.has("everywhere")};
    if (verb == "layout-withdrawn") order.withdraw.insert(NodeName(arg(1)));
    return {order};
  }
  if (verb == "bind-failed") {
    const Code code = arg(2) == "not-found" ? Code::kNotFound : Code::kInvalid;
    return {BindFinished{attempt_id(split(arg(1), '#').at(0)), arg(1), Error{code, "no such node", {}, {}}}};
  }
  if (verb == "bind-done") return {BindFinished{attempt_id(split(arg(1), '#').at(0)), arg(1), std::nullopt}};
  if (verb == "tick") {
    now_ += std::chrono::seconds(std::stoll(arg(1)));
    return {Tick{}};
  }
  throw std::invalid_argument("unknown command: " + line);
}

std::unique_ptr<Engine> read_back(const Engine& from, const Options& options) {
  auto out = std::make_unique<Engine>(options);
  const auto copy = [](const auto& rows, auto& into) {
    for (const auto& [key, row] : rows) into.restore(key, row);
  };
  Tables& to = out->mutable_tables();
  const Tables& rows = from.tables();
  copy(rows.nodes, to.nodes), copy(rows.cordon_causes, to.cordon_causes), copy(rows.observations, to.observations);
  copy(rows.pods, to.pods), copy(rows.workloads, to.workloads), copy(rows.assignments, to.assignments);
  copy(rows.meta, to.meta), copy(rows.proposals, to.proposals), copy(rows.storage, to.storage),
      copy(rows.report, to.report), copy(rows.repartitions, to.repartitions), copy(rows.layouts, to.layouts),
      copy(rows.mix, to.mix), copy(rows.defrag_run, to.defrag_run);
  out->rebuild();
  return out;
}

std::string Script::run(const std::string& text) {
  return qm::testing::run_table(text, [this](const std::string& line) -> std::vector<std::string> {
    if (line == "show nodes") {
      show_nodes_ = true;
      return {};
    }
    std::vector<Command> batch;
    for (const std::string& part : split(line, '|')) {
      for (auto& command : parse(trimmed(part))) batch.push_back(std::move(command));
    }
    return render(step(batch), show_nodes_);
  });
}

TEST(Script, ReportsUnexpectedAndMissingOutput) {
  EXPECT_NE(Script().run("node a gpus=8\nsynced\nwant w/1 1x8\n"), "");
  EXPECT_NE(Script().run("node a gpus=8\n=> bind x -> y []\n"), "");
  EXPECT_THROW(Script().run("frobnicate\n"), std::invalid_argument);
}

}  // namespace qm::placement::testing
