#pragma once
// A small EC2 with capacity by type, zone and market that changes with time, and calls that fail in generated ways.
#include "qm/cloud/aws.hpp"
#include "qm/http/http.hpp"
#include "qm/testing/text.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace qm::autoscaler::testing {

/// Its capacity and its failures follow from a seed; time is set by the test.
///
/// Tokens   as in EC2: a repeated request with equal parameters is answered with the instances of the first one.
/// Refuses  for lack of capacity, an exceeded quota, and with a code that no table has.
/// Loses    responses of requests that it executed, and requests before; throttles; lists are delayed by seconds.
/// Fleets   CreateFleet chooses among its overrides: on demand the first one with capacity for all, spot the one with the
///          most. Launch templates disappear at times, and a repeated token may count as one with other parameters.
/// Partial  some members of a launch may be terminated before the answer is sent.
class ScriptedCloud {
 public:
  struct Machine {
    std::string id, type, zone, token;
    bool spot = false, alive = true, ready = false;
    Instant launched{}, stopped{};
    std::map<std::string, std::string> tags;
  };
  struct Launch {
    std::size_t size = 0;
    std::vector<std::string> ids;
  };

  explicit ScriptedCloud(unsigned seed) : random_(seed), seed_(seed) {}

  cloud::Aws aws() {
    cloud::AwsOptions options;
    options.endpoint = "http://cloud:1";
    options.access_key = options.secret_key = "test";
    options.max_attempts = 1;
    options.outside.send = [this](const std::string&, const http::Request& request, std::chrono::milliseconds) {
      return answer(http::parse_form(request.body));
    };
    options.outside.sleep = [](SteadyDuration) {};
    return cloud::Aws(options);
  }

  Instant now{};
  bool calm = false;  ///< no failures any more, and capacity for all in the last zone
  std::map<std::string, Machine> machines;
  std::map<std::string, Launch> launches;  ///< by token
  std::set<std::string> templates;         ///< names
  int refused = 0, partial = 0, lost = 0, throttled = 0, fleets = 0, requests = 0, elsewhere = 0;

  void stop(Machine& machine) {
    if (!machine.alive) return;
    machine.alive = false;
    machine.stopped = now;
  }
  int roll(int sides) { return static_cast<int>(random_() % static_cast<unsigned>(sides)); }
  [[nodiscard]] bool visible(const Machine& machine) const {
    return machine.launched + std::chrono::seconds(seed_ % 3) <= now;
  }

 private:
  using Form = std::map<std::string, std::string>;

  static http::Response refusal(int status, const std::string& code) {
    return {status, {}, "<R><Errors><Error><Code>" + code + "</Code><Message>m</Message></Error></Errors></R>"};
  }

  // Capacity changes every minute or two: 0 to 5 instances of each type, zone and market.
  [[nodiscard]] int capacity(const std::string& type, const std::string& zone, bool spot) const {
    if (calm && zone == "z3") return 100;
    const auto minute = static_cast<unsigned>(micros(now) / 90'000'000);
    std::mt19937 random(seed_ * 7919U + minute * 104729U + (spot ? 31U : 17U) + static_cast<unsigned>(type[1]) * 131U +
                        static_cast<unsigned>(zone.back()) * 1009U);
    const int total = static_cast<int>(random() % 6);
    const auto used = std::ranges::count_if(machines, [&](const auto& entry) {
      const Machine& m = entry.second;
      return m.alive && m.type == type && m.zone == zone && m.spot == spot;
    });
    return std::max(0, total - static_cast<int>(used));
  }

  Result<http::Response> answer(const Form& form) {
    const std::string& action = form.at("Action");
    // At most three failures in a row: longer ones delay everything, which is another matter.
    if (!calm && failures_ < 3 && roll(6) == 0) {
      ++failures_;
      if (roll(2) == 0) {
        ++throttled;
        return refusal(503, "RequestLimitExceeded");
      }
      ++lost;
      if (roll(2) == 0) (void)execute(action, form);  // executed, and the response is lost
      return fail(Code::kUnknown, "the connection broke");
    }
    failures_ = 0;
    return execute(action, form);
  }

  http::Response execute(const std::string& action, const Form& form) {
    if (action == "RunInstances") return run(form);
    if (action == "TerminateInstances") {
      for (int n = 1; form.contains(fmt::format("InstanceId.{}", n)); ++n) {
        const auto it = machines.find(form.at(fmt::format("InstanceId.{}", n)));
        if (it == machines.end()) return refusal(400, "InvalidInstanceID.NotFound");
        stop(it->second);
      }
      return {200, {}, "<R/>"};
    }
    if (action == "CreateTags") {
      const auto it = machines.find(form.at("ResourceId.1"));
      if (it == machines.end() || !visible(it->second)) return refusal(400, "InvalidInstanceID.NotFound");
      for (int n = 1; form.contains(fmt::format("Tag.{}.Key", n)); ++n)
        it->second.tags[form.at(fmt::format("Tag.{}.Key", n))] = form.at(fmt::format("Tag.{}.Value", n));
      return {200, {}, "<R/>"};
    }
    if (action == "CreateFleet") return fleet(form);
    if (action.ends_with("LaunchTemplate") || action.ends_with("LaunchTemplates")) return launch_template(action, form);
    std::string items;  // DescribeInstances with filters
    for (const auto& [id, machine] : machines) {
      if (visible(machine) && passes(machine, form)) items += xml(machine);
    }
    return {200, {}, "<R><reservationSet><item><instancesSet>" + items + "</instancesSet></item></reservationSet></R>"};
  }

  static bool passes(const Machine& machine, const Form& form) {
    for (int n = 1; form.contains(fmt::format("Filter.{}.Name", n)); ++n) {
      const std::string& name = form.at(fmt::format("Filter.{}.Name", n));
      const std::string& value = form.at(fmt::format("Filter.{}.Value.1", n));
      const auto tag = machine.tags.find(name.substr(std::min(name.size(), std::size_t{4})));
      const bool passed =
          name == "client-token" ? machine.token == value : tag != machine.tags.end() && tag->second == value;
      if (!passed) return false;
    }
    return true;
  }

  http::Response launch_template(const std::string& action, const Form& form) {
    std::string items;
    for (const auto& name : templates) items += "<item><launchTemplateName>" + name + "</launchTemplateName></item>";
    if (action == "DescribeLaunchTemplates")
      return {200, {}, "<R><launchTemplates>" + items + "</launchTemplates></R>"};
    const std::string& name = form.at("LaunchTemplateName");
    if (action == "DeleteLaunchTemplate") {
      templates.erase(name);
    } else if (!templates.insert(name).second) {
      return refusal(400, "InvalidLaunchTemplateName.AlreadyExistsException");
    }
    return {200, {}, "<R/>"};
  }

  static Form tags_of(const Form& form, const std::string& resource) {
    Form out;
    for (int s = 1; form.contains(fmt::format("TagSpecification.{}.ResourceType", s)); ++s) {
      if (form.at(fmt::format("TagSpecification.{}.ResourceType", s)) != resource) continue;
      const auto at = [&](int t, const char* what) { return fmt::format("TagSpecification.{}.Tag.{}.{}", s, t, what); };
      for (int t = 1; form.contains(at(t, "Key")); ++t) out[form.at(at(t, "Key"))] = form.at(at(t, "Value"));
    }
    return out;
  }

  http::Response fleet(const Form& form) {
    const std::string& token = form.at("ClientToken");
    if (!calm && roll(30) == 0) templates.clear();
    if (!templates.contains(form.at("LaunchTemplateConfigs.1.LaunchTemplateSpecification.LaunchTemplateName")))
      return refusal(400, "InvalidLaunchTemplateName.NotFoundException");
    if (const auto known = answers_.find(token); known != answers_.end()) {
      if (!calm && roll(8) == 0) return refusal(400, "IdempotentParameterMismatch");
      return {200, {}, known->second};
    }
    const int n = std::stoi(form.at("TargetCapacitySpecification.TotalTargetCapacity"));
    const bool spot = form.at("TargetCapacitySpecification.DefaultTargetCapacityType") == "spot";
    if (n > 1) {
      const std::string options = spot ? "SpotOptions." : "OnDemandOptions.";
      EXPECT_EQ(form.at(options + "MinTargetCapacity"), std::to_string(n));
      EXPECT_EQ(form.at(options + "SingleInstanceType") + form.at(options + "SingleAvailabilityZone"), "truetrue");
    }
    const int chance = calm ? 100 : roll(40);
    if (chance == 0) return refusal(400, "SomethingThatNoTableHas");
    std::string errors, chosen_type, chosen_zone;
    int most = n - 1;
    bool chosen_first = true;
    for (int i = 1; form.contains(fmt::format("LaunchTemplateConfigs.1.Overrides.{}.InstanceType", i)); ++i) {
      const std::string at = fmt::format("LaunchTemplateConfigs.1.Overrides.{}.", i);
      const std::string type = form.at(at + "InstanceType"), zone = form.at(at + "AvailabilityZone");
      const int left = chance == 1 ? 0 : capacity(type, zone, spot);
      if (left < n) {
        ++refused;
        errors += fmt::format(
            "<item><launchTemplateAndOverrides><overrides><instanceType>{}</instanceType><availabilityZone>{}"
            "</availabilityZone></overrides></launchTemplateAndOverrides><lifecycle>{}</lifecycle><errorCode>{}"
            "</errorCode><errorMessage>m</errorMessage></item>",
            type, zone, spot ? "spot" : "on-demand",
            chance == 1 && spot ? "MaxSpotInstanceCountExceeded" : "InsufficientInstanceCapacity");
      } else if (left > most && (spot || chosen_type.empty())) {
        most = left, chosen_type = type, chosen_zone = zone;
        chosen_first = i == 1;
      }
    }
    std::string items;
    if (!chosen_type.empty()) {
      ++fleets;
      elsewhere += chosen_first ? 0 : 1;
      const Launch launch = start(token, chosen_type, chosen_zone, spot, n, tags_of(form, "instance"));
      for (const auto& id : launch.ids) items += "<item>" + id + "</item>";
      items = "<item><instanceIds>" + items + "</instanceIds><instanceType>" + chosen_type + "</instanceType></item>";
    }
    answers_[token] = "<R><fleetId>f</fleetId><errorSet>" + errors + "</errorSet><fleetInstanceSet>" + items +
                      "</fleetInstanceSet></R>";
    return {200, {}, answers_[token]};
  }

  http::Response run(const Form& form) {
    const std::string& token = form.at("ClientToken");
    if (const auto known = launches.find(token); known != launches.end()) return launched(known->second);
    const auto n = std::stoi(form.at("MinCount"));
    const std::string type = form.at("InstanceType"), zone = form.at("Placement.AvailabilityZone");
    const bool spot = form.contains("InstanceMarketOptions.MarketType");
    const int chance = calm ? 100 : roll(40);
    if (chance == 0) return refusal(400, "SomethingThatNoTableHas");
    if (chance == 1) return refusal(400, spot ? "MaxSpotInstanceCountExceeded" : "VcpuLimitExceeded");
    if (capacity(type, zone, spot) < n) {
      ++refused;
      return refusal(500, "InsufficientInstanceCapacity");
    }
    ++requests;
    return launched(start(token, type, zone, spot, n, tags_of(form, "instance")));
  }

  const Launch& start(const std::string& token, const std::string& type, const std::string& zone, bool spot, int n,
                      const Form& tags) {
    Launch launch;
    launch.size = static_cast<std::size_t>(n);
    for (int i = 0; i < n; ++i) {
      Machine machine;
      machine.id = fmt::format("i-{:05}", 10'000 + static_cast<int>((++serial_ * 7919) % 90'000));
      machine.type = type;
      machine.zone = zone;
      machine.token = token;
      machine.spot = spot;
      machine.launched = now;
      machine.tags = tags;
      launch.ids.push_back(machine.id);
      machines[machine.id] = machine;
    }
    if (!calm && n > 1 && roll(6) == 0) {  // a part of it comes
      ++partial;
      for (int i = 1 + roll(n - 1); i > 0; --i) stop(machines[launch.ids[static_cast<std::size_t>(i) - 1]]);
    }
    return launches[token] = launch;
  }

  [[nodiscard]] http::Response launched(const Launch& launch) const {
    std::string items;
    for (const auto& id : launch.ids) items += xml(machines.at(id));
    return {200, {}, "<R><instancesSet>" + items + "</instancesSet></R>"};
  }

  static std::string xml(const Machine& m) {
    return fmt::format(
        "<item><instanceId>{}</instanceId><instanceType>{}</instanceType><placement><availabilityZone>{}"
        "</availabilityZone></placement><instanceState><name>{}</name></instanceState><privateDnsName>n-{}"
        "</privateDnsName><clientToken>{}</clientToken></item>",
        m.id, m.type, m.zone, m.alive ? "running" : "terminated", m.id, m.token);
  }

  std::mt19937 random_;
  std::map<std::string, std::string> answers_;  ///< of fleets, by token
  unsigned seed_;
  int failures_ = 0, serial_ = 0;
};

}  // namespace qm::autoscaler::testing
