// The runner of the text tables; its own test is at the end.
#include "test/engine/script.hpp"

#include "qm/testing/table.hpp"
#include "qm/testing/text.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace qm::telemetry::testing {
namespace {

using qm::testing::split;
using qm::testing::trimmed;
using qm::testing::Words;

/// The text with a blank for each "_"; empty if it is absent.
std::string text_of(const Words& words, const std::string& key) {
  std::string out = words.get(key);
  std::ranges::replace(out, '_', ' ');
  return out;
}

std::int32_t number_of(const Words& words, const std::string& key, std::int32_t other) {
  return static_cast<std::int32_t>(words.number(key, other));
}

AttemptId attempt_id(const std::string& text) {
  const auto slash = text.find('/');
  return {WorkloadUid(text.substr(0, slash)), std::stoi(text.substr(slash + 1))};
}

const char* name_of(Action action) {
  switch (action) {
    case Action::kNone:
      return "none";
    case Action::kWatch:
      return "watch";
    case Action::kResetGpu:
      return "reset";
    case Action::kCordon:
      return "cordon";
  }
  return "?";
}

DevicesUpdated devices_of(const Words& words, Instant now) {
  DevicesUpdated seen{NodeName(words.plain.at(1)), now, {}};
  for (const auto& [pod, list] : words.named) {
    const auto slash = pod.find('/');
    DevicesUpdated::Pod row{Namespace(pod.substr(0, slash)), pod.substr(slash + 1), {}};
    for (const auto& index : split(list, ','))
      row.devices.push_back({seen.node, std::stoi(index), DeviceUuid(), 1000, ""});
    seen.pods.push_back(std::move(row));
  }
  std::sort(seen.pods.begin(), seen.pods.end());
  return seen;
}

}  // namespace

std::vector<Command> Script::parse(const std::string& line, std::vector<std::string>& got) {
  Words words(line);
  const std::string verb = words.plain.at(0);
  if (verb == "tick") {
    now_ += std::chrono::seconds(std::stoi(words.plain.at(1)));
    return {Tick{}};
  }
  const bool bad = words.take("bad"), settled = words.take("settled");
  const bool standing = words.take("standing"), cleared = words.take("cleared");
  if (verb == "xid") {
    XidUpdated seen{NodeName(words.plain.at(1)), std::stoi(words.plain.at(2)),
                    number_of(words, "gpu", 0),  DeviceUuid("GPU-x"),
                    text_of(words, "line"),      now_ - std::chrono::seconds(number_of(words, "ago", 0))};
    seen.standing = standing;
    seen.cleared = cleared;
    seen.boot = text_of(words, "boot");
    if (!text_of(words, "uuid").empty())
      seen.gpu = DeviceUuid(text_of(words, "uuid") == "none" ? "" : text_of(words, "uuid"));
    if (!text_of(words, "recovery").empty()) seen.recovery_action = number_of(words, "recovery", 0);
    return {std::move(seen)};
  }
  if (verb == "devices") return {devices_of(words, now_)};
  if (verb == "report") {
    NodeReportUpdated seen{NodeName(words.plain.at(1)), now_, {}};
    for (const auto& [label, value] : words.named) seen.report.labels[label] = value;
    if (words.plain.size() > 2) seen.report.owned_prefixes = {words.plain[2]};
    return {std::move(seen)};
  }
  if (verb == "notice") {
    const std::string action = words.plain.size() > 3 ? words.plain[3] : "terminate";
    return {NoticeUpdated{NodeName(words.plain.at(1)), InstanceId(words.plain.at(2)), action,
                          now_ + std::chrono::seconds(number_of(words, "in", 120)), text_of(words, "kind")}};
  }
  if (verb == "order") {
    OrderUpdated order{words.plain.at(1),
                       attempt_id(words.plain.at(2)),
                       {},
                       "SpotInterruption",
                       now_ + std::chrono::seconds(number_of(words, "in", 110)),
                       settled};
    for (std::size_t i = 3; i < words.plain.size(); ++i) order.nodes.emplace_back(words.plain[i]);
    order.ns = text_of(words, "ns");
    order.kind = "Job";
    order.number = number_of(words, "number", 0);
    return {order};
  }
  if (verb == "ack") {
    AckUpdated ack;
    ack.order = words.plain.at(1);
    ack.node = NodeName(words.plain.at(2));
    ack.step = number_of(words, "step", 0);
    if (const OpenOrder* order = engine_.tables().orders.find(ack.order)) ack.id = order->id, ack.ns = order->ns;
    if (const auto of = text_of(words, "of"); !of.empty()) ack.id = attempt_id(of);
    if (const auto ns = text_of(words, "ns"); !ns.empty()) ack.ns = ns;
    ack.number = number_of(words, "number", 0);
    ack.ok = !bad;
    ack.at = now_;
    return {ack};
  }
  if (verb == "usage") {
    UsageUpdated usage;
    usage.node = NodeName(words.plain.at(1));
    usage.gpu_index = number_of(words, "gpu", 0);
    usage.utilization = std::stod(words.plain.at(2));
    return {usage};
  }
  if (verb == "gone") return {NodeDeleted{NodeName(words.plain.at(1))}};
  if (verb == "open") {
    for (const auto& [id, order] : engine_.open_orders(NodeName(words.plain.at(1)))) got.push_back("open " + id);
    return {};
  }
  throw std::invalid_argument("no such command: " + line);
}

std::vector<std::string> render(const Output& output) {
  std::vector<std::string> out;
  for (const auto& h : output.health) {
    std::string line =
        h.gone ? fmt::format("healthy {}", h.node)
               : fmt::format("{} {} XID {} gpu={}", name_of(h.row.action), h.node, h.row.xid, h.row.gpu_index);
    // Of several GPUs, each with its verdict.
    for (const auto& gpu : h.row.gpus.size() > 1 ? h.row.gpus : std::vector<GpuFault>())
      line += fmt::format(" {}:{}", gpu.gpu_index, name_of(gpu.action));
    out.push_back(std::move(line));
  }
  for (const auto& d : output.devices) {
    std::string line = fmt::format("{} {}", d.gone ? "no-devices" : "devices", d.seen.node);
    for (const auto& pod : d.seen.pods) {
      line += fmt::format(" {}/{}=", pod.ns, pod.pod);
      for (std::size_t i = 0; i < pod.devices.size(); ++i)
        line += fmt::format("{}{}", i == 0 ? "" : ",", pod.devices[i].index);
    }
    out.push_back(line);
  }
  for (const auto& s : output.report) {
    std::string line = fmt::format("{} {}", s.gone ? "no-report" : "report", s.seen.node);
    for (const auto& [label, value] : s.seen.report.labels) line += fmt::format(" {}={}", label, value);
    out.push_back(line);
  }
  for (const auto& n : output.notices) {
    out.push_back(n.gone ? fmt::format("no-notice {}", n.node)
                         : fmt::format("notice {} {} {}", n.node, n.row.instance, n.row.action));
  }
  for (const auto& a : output.acks)
    out.push_back(fmt::format("ack {} {} step={}{}", a.order, a.node, a.step, a.ok ? "" : " bad"));
  for (const auto& [order, node] : output.ended_acks) out.push_back(fmt::format("ack-over {} {}", order, node));
  for (const auto& u : output.usage)
    out.push_back(fmt::format("usage {} gpu={} {}", u.node, u.gpu_index, u.utilization));
  for (const auto& node : output.gone) out.push_back(fmt::format("gone {}", node));
  return out;
}

Engine restarted(const Engine& engine) {
  Engine fresh;
  const Tables& from = engine.tables();
  Tables& to = fresh.mutable_tables();
  const auto copy = [](const auto& source, auto& target) {
    for (const auto& [key, row] : source) target.restore(key, row);
  };
  copy(from.health, to.health), copy(from.notices, to.notices), copy(from.orders, to.orders);
  copy(from.acked, to.acked), copy(from.devices, to.devices), copy(from.report, to.report);
  copy(from.xids, to.xids), copy(from.xids_until, to.xids_until);
  return fresh;
}

Output Script::step(const std::vector<Command>& batch) {
  const auto before = engine_.digest();
  const auto first = engine_.step(batch, now_);
  const auto after = engine_.digest();
  engine_.undo();
  if (engine_.digest() != before) broken_ = "undo did not restore the state";
  auto out = engine_.step(batch, now_);
  if (render(out) != render(first) || out.wake_at != first.wake_at || engine_.digest() != after)
    broken_ = "done again it came out differently";
  engine_.commit();
  if (restarted(engine_).digest() != after) broken_ = "a restart changed the state";
  return out;
}

std::string Script::run(const std::string& text) {
  return qm::testing::run_table(text, [this](const std::string& line) {
    std::vector<std::string> got;
    std::vector<Command> batch;
    for (const std::string& part : split(line, '|')) {
      for (auto& command : parse(trimmed(part), got)) batch.push_back(std::move(command));
    }
    for (auto& came : render(step(batch))) got.push_back(std::move(came));
    if (!broken_.empty()) got.push_back("BROKEN " + std::exchange(broken_, {}));
    return got;
  });
}

TEST(Script, ReportsWhatWasNotWrittenAndWhatDidNotCome) {
  EXPECT_NE(Script().run("xid a 79"), "");
  EXPECT_NE(Script().run("=> cordon a XID 79 gpu=0"), "");
  EXPECT_NE(Script().run("xid a 79\n=> watch a XID 79 gpu=0"), "");
  EXPECT_EQ(Script().run("xid a 79\n=> cordon a XID 79 gpu=0"), "");
  EXPECT_THROW((void)Script().run("frobnicate"), std::invalid_argument);
}

}  // namespace qm::telemetry::testing
