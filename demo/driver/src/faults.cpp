#include "faults.hpp"

#include <algorithm>
#include <random>

namespace qm::demo {

FaultPlan::FaultPlan(Stack& stack, const Options& o, Instant start, Duration length)
    : stack_(stack), interrupt_percent_(o.interrupt_percent) {
  if (!o.faults) return;
  if (stack.real() != nullptr) {
    plan_for_real(start, length);
    return;
  }
  const auto at = [&](double part) {
    return start + Duration(static_cast<std::int64_t>(part * static_cast<double>(length.count())));
  };
  steps_ = {{at(0.25), "xid", ""}, {at(0.45), "spot_reclaim", ""}};
  if (o.random_kills > 0) {
    std::mt19937_64 random(o.seed);
    const auto& names = Stack::services();
    for (int i = 0; i < o.random_kills; ++i) {
      const double part = 0.05 + 0.9 * (i + static_cast<double>(random() % 1000) / 1000) / o.random_kills;
      steps_.push_back({at(part), "kill", names[random() % names.size()]});
    }
  } else {
    const double parts[] = {0.35, 0.55, 0.75, 0.65, 0.15};
    for (std::size_t i = 0; i < Stack::services().size(); ++i)
      steps_.push_back({at(parts[i]), "kill", Stack::services()[i]});
  }
  std::sort(steps_.begin(), steps_.end(), [](const Step& a, const Step& b) { return a.at < b.at; });
}

void FaultPlan::plan_for_real(Instant start, Duration length) {
  double part = 0;
  const auto add = [&](const std::string& what, const std::string& target) {
    part += 0.085;
    steps_.push_back(
        {start + Duration(static_cast<std::int64_t>(part * static_cast<double>(length.count()))), what, target});
  };
  add("kill", "cost");
  add("xid", "");
  add("kill", "admission");
  add("kill", "placement");
  add("spot_reclaim", "");
  if (stack_.breakable("api")) add("outside", "api");
  add("kill", "autoscaler");
  if (stack_.breakable("kafka")) add("outside", "kafka");
  add("kill", "telemetry");
  if (stack_.breakable("postgres")) add("outside", "postgres");
}

std::string FaultPlan::break_outside(const std::string& what) {
  ++kills_;
  const auto begin = std::chrono::steady_clock::now();
  const auto back = stack_.break_outside(what);
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin);
  if (!back) {
    failures_.push_back(back.error().to_string());
    return fmt::format("SIGKILL {}, it does not recover: {}", what, back.error().to_string());
  }
  return fmt::format("SIGKILL {}, it serves again after {} ms", what, ms.count());
}

std::string FaultPlan::inject(const Json& fault) {
  auto struck = stack_.fleet_post("/fleet/faults", fault);
  if (!struck) {
    failures_.push_back(struck.error().to_string());
    return fmt::format("{}: {}", fault["kind"].string(), struck.error().to_string());
  }
  return fmt::format("{}: {}", fault["kind"].string(), struck->dump());
}

void FaultPlan::note_takeover(std::chrono::steady_clock::time_point begin) {
  takeovers_.push_back(
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin).count());
}

std::string FaultPlan::kill(const std::string& service) {
  (void)stack_.fleet_post("/fleet/hold", Json::object({{"name", "restart-" + service}}));
  ++kills_;
  const std::string leader = stack_.leader(service);
  std::string text = "SIGKILL " + (leader.empty() ? service : leader);
  const auto begin = std::chrono::steady_clock::now();
  if (auto ok = stack_.kill9(leader.empty() ? service : leader); !ok) {
    failures_.push_back(ok.error().to_string());
  } else {
    // With replicas another one takes over without help; the killed one restarts as a standby.
    std::string next;
    if (stack_.replicas(service).size() > 1) {
      (void)testing::wait_until([&] { return !(next = stack_.leader(service)).empty(); });
      note_takeover(begin);
    }
    if (auto back = stack_.start_service(service); !back) {
      failures_.push_back(back.error().to_string());
      text += ", it does not recover: " + back.error().to_string();
    } else {
      if (next.empty()) note_takeover(begin);
      text += fmt::format(", {} leads after {} ms", next.empty() ? service : next, takeovers_.back());
    }
  }
  (void)stack_.fleet_delete("/fleet/hold/restart-" + service);
  return text;
}

// Percent of the running nodes, rounded up.
std::int64_t FaultPlan::nodes_to_reclaim() {
  constexpr std::int64_t kFew = 2;
  const auto state = interrupt_percent_ > 0 ? stack_.fleet_get("/fleet/state") : Result<Json>(Json());
  if (!state || state->is_null()) return kFew;
  const auto& instances = (*state)["instances"].items();
  const auto running =
      std::ranges::count_if(instances, [](const Json& instance) { return instance["state"].string() == "running"; });
  return (running * interrupt_percent_ + 99) / 100;
}

std::vector<std::string> FaultPlan::advance(Instant now) {
  std::vector<std::string> lines;
  while (next_ < steps_.size() && steps_[next_].at <= now) {
    const Step& step = steps_[next_++];
    if (step.what == "kill") {
      lines.push_back(kill(step.target));
    } else if (step.what == "outside") {
      lines.push_back(break_outside(step.target));
    } else if (step.what == "xid") {
      lines.push_back(inject(Json::object({{"kind", "xid"}, {"random", true}, {"xid", 79}})));
    } else {
      lines.push_back(
          inject(Json::object({{"kind", "spot_reclaim"}, {"count", nodes_to_reclaim()}, {"notice_s", 120}})));
    }
  }
  return lines;
}

Status advance(Stack& stack, FaultPlan& faults, Progress& progress) {
  for (const auto& text : faults.advance(stack.clock().now()))
    progress.line(to_rfc3339(stack.clock().now()).substr(11, 8) + " " + text);
  for (const auto& name : stack.processes()) {
    if (!stack.running(name))
      return fail(Code::kInternal, "{} exited unexpectedly; see its log {}", name, stack.log_of(name));
  }
  return {};
}

}  // namespace qm::demo
