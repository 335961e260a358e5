#include "script.hpp"

#include "qm/base/assert.hpp"

#include <sstream>

namespace qm::cost::test {
namespace {

std::string option(const std::vector<std::string>& words, std::string_view name, std::string fallback = {}) {
  for (const auto& word : words) {
    if (word.rfind(std::string(name) + "=", 0) == 0) return word.substr(name.size() + 1);
  }
  QM_ASSERT(!fallback.empty() || name == "from", "missing {}= in a script line", name);
  return fallback;
}

Instant time_option(const std::vector<std::string>& words, std::string_view name) {
  return at_second(std::stod(option(words, name)));
}

AttemptId attempt(const std::string& text) {
  const auto slash = text.find('/');
  return {WorkloadUid(text.substr(0, slash)), std::stoi(text.substr(slash + 1))};
}

std::vector<DeviceShare> devices(const std::string& text) {
  std::vector<DeviceShare> out;
  std::istringstream in(text);
  for (std::string item; std::getline(in, item, ',');) {
    const auto colon = item.find(':');
    const int part = colon == std::string::npos ? 1000 : std::stoi(item.substr(colon + 1));
    const bool instance = item.ends_with('g');
    out.push_back({std::stoi(item), instance ? 0 : part, instance ? part : 0});
  }
  return out;
}

NodeState state(const std::string& word) {
  if (word == "ready") return NodeState::kReady;
  if (word == "unhealthy") return NodeState::kUnhealthy;
  if (word == "draining") return NodeState::kDraining;
  return NodeState::kNotReady;
}

Group group(const std::string& word) {
  if (word == "namespace") return Group::kNamespace;
  if (word == "workload") return Group::kWorkload;
  return word == "node" ? Group::kNode : Group::kTeam;
}

std::string seconds_of(Instant t) { return fmt::format("{}", (t - at_second(0)).count() / 1'000'000); }
std::string gpu_seconds(std::int64_t gpu_micros) {
  return fmt::format("{:.3f}", static_cast<double>(gpu_micros) / 1e6);
}

std::vector<std::string> split_words(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> out;
  for (std::string word; in >> word;) out.push_back(word);
  return out;
}

}  // namespace

Instant at_second(double s) {
  static const Instant kMonth = *period_start("2026-11");
  return kMonth + Duration{static_cast<std::int64_t>(s * 1e6)};
}

std::string trimmed(std::string_view text) {
  std::istringstream in{std::string(text)};
  std::string out;
  for (std::string row; std::getline(in, row);) {
    const auto words = split_words(row);
    if (words.empty()) continue;
    std::string joined;
    for (const auto& word : words) joined += (joined.empty() ? "" : " ") + word;
    out += joined + "\n";
  }
  return out;
}

std::string Script::run(std::string_view text) {
  std::istringstream in(trimmed(text));
  std::string out;
  for (std::string row; std::getline(in, row);) {
    if (row.rfind("> ", 0) == 0) continue;
    out += row + "\n" + line(split_words(row));
  }
  return out;
}

std::string Script::line(const std::vector<std::string>& words) {
  const auto& verb = words[0];
  std::string out;
  if (verb == "price") {
    plan_.entries.push_back({words[1], words[2], "", HourlyRate{*Money::parse_usd(words[3])}});
    const auto from = option(words, "from");
    const auto* last = pending_.empty() ? nullptr : std::get_if<PriceApplied>(&pending_.back());
    if (last != nullptr && !last->from && from.empty()) pending_.pop_back();  // lines of one plan
    pending_.push_back(PriceApplied{plan_, from.empty() ? std::nullopt : std::optional(at_second(std::stod(from)))});
  } else if (verb == "reprice") {
    plan_.entries.clear();
  } else if (verb == "spot") {
    pending_.push_back(SpotPriceUpdated{SpotPool{words[1], words[2]}, HourlyRate{*Money::parse_usd(words[3])},
                                        time_option(words, "from"), ++version_});
  } else if (verb == "launch") {
    auto& i = instances_[words[1]];
    i = {InstanceId(words[1]),
         ClaimName("claim-" + words[1]),
         ++version_,
         words[2],
         words[3],
         words[4],
         NodeName{},
         std::stoi(option(words, "gpus")),
         time_option(words, "at"),
         {}};
    pending_.push_back(i);
  } else if (verb == "stop") {
    auto& i = instances_[words[1]];
    i.stopped = time_option(words, "at");
    i.version = ++version_;
    pending_.push_back(i);
  } else if (verb == "node") {
    pending_.push_back(NodeUpdated{NodeName(words[1]), InstanceId(words[2]), state(words[3]), time_option(words, "at"),
                                   std::stoi(option(words, "gpus", "0")), ++version_});
  } else if (verb == "bind") {
    auto& a = assignments_[words[1]];
    a.id = attempt(words[1]);
    a.version = ++version_;
    a.owner = {words[2], words[3], a.id.uid.value()};
    a.members.push_back({NodeName(words[4]), devices(words[5]), time_option(words, "at"), {}});
    pending_.push_back(a);
  } else if (verb == "release") {
    auto& a = assignments_[words[1]];
    a.version = ++version_;
    const auto node = option(words, "on", "everywhere");
    for (auto& member : a.members) {
      if (node == "everywhere" || member.node.value() == node) member.released = time_option(words, "at");
    }
    pending_.push_back(a);
  } else if (verb == "forget" && words[1].find('/') == std::string::npos) {
    pending_.push_back(InstanceForgotten{instances_[words[1]].claim});
  } else if (verb == "forget") {
    AssignmentUpdated a{attempt(words[1]), ++version_, {}, {}, {}, true};
    a.owner.uid = a.id.uid.value();
    pending_.push_back(std::move(a));
  } else if (verb == "step") {
    const auto done = engine.step(pending_, at_second(std::stod(words[1])));
    engine.commit();
    pending_.clear();
    for (const auto& entry : done.entries) {
      out += fmt::format("> {} {} {}-{}", entry.kind, entry.node, seconds_of(entry.from), seconds_of(entry.until));
      for (const auto& part : entry.lines) {
        out += fmt::format(" {}{}:{}", part.account, part.owner.team.empty() ? "" : "/" + part.owner.team,
                           part.amount.nano.nano());
      }
      out += "\n";
    }
    const auto broken = engine.audit();
    if (!broken.empty()) out += "> BROKEN " + broken + "\n";
  } else if (verb == "statement") {
    const auto s = engine.statement(words.size() > 2 ? words[2] : "", at_second(std::stod(words[1])));
    if (!s) return "> " + s.error().to_string() + "\n";
    for (const auto& [team, amount] : s->lines) {
      out += fmt::format("> {} {} {}s\n", team, amount.nano.to_usd(9), gpu_seconds(amount.gpu_micros));
    }
    out += fmt::format("> total {} bill {} imbalance {} open {}\n", s->total.nano.to_usd(9), s->provider.to_usd(9),
                       s->imbalance.nano(), s->open_instances);
  } else if (verb == "use") {
    const auto rows = engine.allocate(at_second(std::stod(words[1])), at_second(std::stod(words[2])), group(words[3]));
    if (!rows) return "> " + rows.error().to_string() + "\n";
    for (const auto& [key, amount] : *rows) {
      out += fmt::format("> {} {} {}s\n", key, amount.nano.to_usd(9), gpu_seconds(amount.gpu_micros));
    }
  } else if (verb == "counts") {
    const auto& m = engine.meta();
    const auto& s = engine.state();
    out +=
        fmt::format("> entries {} restated {} late {} instances {} slices {} assignments {} nodes {}\n", m.entries,
                    m.restatements, m.late, s.instances.size(), s.slices.size(), s.assignments.size(), s.nodes.size());
  } else {
    QM_ASSERT(false, "unknown script verb {}", verb);
  }
  return out;
}

}  // namespace qm::cost::test
