#pragma once
// A small EC2 with capacity by type, zone and market that changes with time, and calls that fail in generated ways.
#include "qm/cloud/aws.hpp"
#include "qm/http/http.hpp"
#include "qm/testing/text.hpp"

#include <fmt/format.h>

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
  int refused = 0, partial = 0, lost = 0, throttled = 0;

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
    std::string items;  // DescribeInstances with the filter client-token
    for (const auto& [id, machine] : machines) {
      if (machine.token == form.at("Filter.1.Value.1") && visible(machine)) items += xml(machine);
    }
    return {200, {}, "<R><reservationSet><item><instancesSet>" + items + "</instancesSet></item></reservationSet></R>"};
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
      for (int t = 1; form.contains(fmt::format("TagSpecification.1.Tag.{}.Key", t)); ++t)
        machine.tags[form.at(fmt::format("TagSpecification.1.Tag.{}.Key", t))] =
            form.at(fmt::format("TagSpecification.1.Tag.{}.Value", t));
      launch.ids.push_back(machine.id);
      machines[machine.id] = machine;
    }
    if (!calm && n > 1 && roll(6) == 0) {  // a part of it comes
      ++partial;
      for (int i = 1 + roll(n - 1); i > 0; --i) stop(machines[launch.ids[static_cast<std::size_t>(i) - 1]]);
    }
    return launched(launches[token] = launch);
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
  unsigned seed_;
  int failures_ = 0, serial_ = 0;
};

}  // namespace qm::autoscaler::testing
