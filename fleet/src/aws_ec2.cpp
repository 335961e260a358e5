#include "aws_ec2.hpp"

#include "text.hpp"

#include <fmt/chrono.h>

#include <algorithm>
#include <functional>
#include <set>

namespace qm::fleet {
namespace {

constexpr int kMaxCount = 1000;
constexpr AwsPaging kInstancePages{"reservationSet", "MaxResults", 1000, 5, 1000, "nextToken"};
constexpr AwsPaging kStatusPages{"instanceStatusSet", "MaxResults", 1000, 5, 1000, "nextToken"};
constexpr AwsPaging kTopologyPages{"instanceSet", "MaxResults", 20, 1, 100, "nextToken"};

tl::unexpected<Refusal> no_instance(const std::string& id) {
  if (!id.starts_with("i-")) return refuse(400, "InvalidInstanceID.Malformed", "Invalid id: \"{}\"", id);
  return refuse(400, "InvalidInstanceID.NotFound", "The instance ID '{}' does not exist", id);
}
tl::unexpected<Refusal> no_capacity(std::string_view why) {
  return refuse(500, "InsufficientInstanceCapacity", "{}", why);  // a 500 in the real service too
}

/// 0, 16, 32, 48 over an instance's life cycle.
int code_of(InstanceState state) { return 16 * static_cast<int>(state); }

void write_state(AwsXml& xml, std::string_view name, InstanceState state) {
  xml.open(name).leaf("code", code_of(state)).leaf("name", name_of(state)).close();
}

/// The text from which EC2 clients parse the time when an instance stopped.
std::string transition_reason(const Instance& instance) {
  if (!instance.stopped) return {};
  const std::string_view initiator = instance.stop_reason.starts_with("Client.") ? "User" : "Service";
  return fmt::format("{} initiated ({:%Y-%m-%d %H:%M:%S} GMT)", initiator,
                     fmt::gmtime(static_cast<std::time_t>(micros(*instance.stopped) / 1'000'000)));
}

/// A reservation for each instance, as if each had been requested alone.
void open_reservation(AwsXml& xml, const Instance& first) {
  xml.leaf("reservationId", "r-" + first.id.substr(2)).leaf("ownerId", "000000000000").open("instancesSet");
}

void write_instance(AwsXml& xml, const Instance& i) {
  xml.open("item").leaf("instanceId", i.id).leaf("imageId", i.image_id);
  write_state(xml, "instanceState", i.state);
  xml.leaf("privateDnsName", i.private_dns).leaf("reason", transition_reason(i));
  xml.leaf("clientToken", i.client_token).leaf("instanceType", i.type).leaf("launchTime", aws_instant(i.launched));
  xml.open("placement").leaf("availabilityZone", i.zone).leaf("tenancy", "default").close();
  xml.leaf("privateIpAddress", i.private_ip).leaf("architecture", "x86_64");
  if (i.market == Market::kSpot) xml.leaf("instanceLifecycle", "spot");
  if (!i.stop_reason.empty()) {
    xml.open("stateReason").leaf("code", i.stop_reason).leaf("message", i.stop_reason).close();
  }
  if (!i.subnet.empty()) xml.leaf("subnetId", i.subnet);
  if (!i.security_groups.empty()) {
    xml.open("groupSet");
    for (const auto& id : i.security_groups) xml.open("item").leaf("groupId", id).close();
    xml.close();
  }
  if (!i.profile.empty()) {
    xml.open("iamInstanceProfile");
    xml.leaf("arn", fmt::format("arn:aws:iam::{}:instance-profile/{}", AwsAccount::kOwner, i.profile)).close();
  }
  write_tags(xml, i.tags);
  xml.close();
}

/// The values that filters match.
Facts facts_of(const Instance& i) {
  Facts facts = {{"instance-state-name", std::string(name_of(i.state))},
                 {"instance-state-code", std::to_string(code_of(i.state))},
                 {"instance-type", i.type},
                 {"instance-id", i.id},
                 {"availability-zone", i.zone},
                 {"client-token", i.client_token},
                 {"private-dns-name", i.private_dns}};
  if (i.market == Market::kSpot) facts.emplace("instance-lifecycle", "spot");
  add_tag_facts(facts, i.tags);
  return facts;
}

}  // namespace

AwsEc2::AwsEc2(World& world, AwsAccount& account, AwsTemplates& templates)
    : world_(world), account_(account), templates_(templates), fleets_(world, templates), catalog_(world) {}

AwsReply AwsEc2::handle(const AwsCall& call) {
  static const std::map<std::string, AwsReply (AwsEc2::*)(const AwsCall&)> kActions = {
      {"RunInstances", &AwsEc2::run_instances},
      {"DescribeInstances", &AwsEc2::describe_instances},
      {"TerminateInstances", &AwsEc2::terminate_instances},
      {"CreateTags", &AwsEc2::create_tags},
      {"DescribeInstanceStatus", &AwsEc2::describe_instance_status},
      {"DescribeInstanceTopology", &AwsEc2::describe_instance_topology}};
  if (const auto* action = find_in(kActions, call.action)) return (this->**action)(call);
  if (call.action == "CreateFleet") return fleets_.create(call);
  if (call.action.ends_with("LaunchTemplate") || call.action.ends_with("LaunchTemplates"))
    return templates_.handle(call);
  if (AwsCatalog::knows(call.action)) return catalog_.handle(call);
  return account_.describe(call);
}

std::string AwsEc2::launched(const std::vector<Instance>& instances) const {
  AwsXml xml;
  open_reservation(xml, instances.front());
  for (const auto& instance : instances) write_instance(xml, world_.instance(instance.id).value_or(instance));
  xml.close();
  return xml.str();
}

/// The first zone with capacity for all, beginning with the next one in rotation, else the one with most capacity.
std::string AwsEc2::zone_for(const LaunchSpec& spec, int least) const {
  std::vector<std::string> zones = world_.options().zones;
  std::ranges::rotate(zones, zones.begin() + static_cast<std::ptrdiff_t>(world_.instances().size() % zones.size()));
  return *std::ranges::max_element(
      zones, {}, [&](const auto& zone) { return std::min(least, world_.capacity_left(spec.type, spec.market, zone)); });
}

AwsReply AwsEc2::run_instances(const AwsCall& call) {
  FLEET_ASSIGN(LaunchSpec spec, templates_.spec(call.params));
  spec.client_token = call.param("ClientToken");
  FLEET_ASSIGN(const int most, call.number("MaxCount", 1, 1, kMaxCount));
  FLEET_ASSIGN(const int least, call.number("MinCount", most, 1, most));

  FLEET_ASSIGN(const auto* const known, tokens_.known(call, world_.now()));
  if (known != nullptr) return launched(*known);

  // All or nothing: the free capacity is known before the first launch, and the lock prevents changes in between.
  // Without free capacity one launch is attempted, so that the world reports the reason and records the refusal.
  // One request is one zone, even if the world chooses it.
  if (spec.zone.empty()) spec.zone = zone_for(spec, least);
  const int available = world_.capacity_left(spec.type, spec.market, spec.zone);
  if (available > 0 && available < least) {
    return no_capacity(fmt::format("There is {} capacity for {} instances of {} now, not for {}.", name_of(spec.market),
                                   available, spec.type, least));
  }
  std::vector<Instance> instances;
  for (int n = 0; n < std::clamp(available, 1, most); ++n) {
    auto instance = world_.launch_instance(spec);
    if (!instance && instance.error().field == "capacity") return no_capacity(instance.error().message);
    if (!instance) return invalid_value(fmt::format("{} ({})", instance.error().message, instance.error().field));
    instances.push_back(std::move(*instance));
  }
  tokens_.keep(call, instances, world_.now());
  return launched(instances);
}

AwsReply AwsEc2::describe_instances(const AwsCall& call) {
  const auto ids = call.list("InstanceId");
  if (!ids.empty() && !call.param("MaxResults").empty()) {
    return refuse(400, "InvalidParameterCombination",
                  "The parameter instancesSet cannot be used with the parameter maxResults");
  }
  static const std::set<std::string> kNames = {"instance-state-name", "instance-state-code", "instance-type",
                                               "instance-id",         "availability-zone",   "client-token",
                                               "private-dns-name",    "instance-lifecycle"};
  FLEET_ASSIGN(const auto filters, read_filters(call, kNames));
  const auto visible_before = world_.now() - hidden_;
  const auto visible = [&](const Instance& i) {
    return hidden_.count() == 0 || i.initial || i.launched <= visible_before;
  };
  for (const auto& id : ids) {
    const auto instance = world_.instance(id);
    if (!instance || !visible(*instance)) return no_instance(id);
  }
  const auto wanted = [&](const Instance& i) {
    return visible(i) && asked(ids, i.id) && (filters.empty() || passes(facts_of(i), filters));
  };
  return aws_page(call, kInstancePages, world_.instances(), std::mem_fn(&Instance::id), wanted,
                  [](AwsXml& xml, const Instance& instance) {
                    open_reservation(xml.open("item"), instance);
                    write_instance(xml, instance);
                    xml.close().close();
                  });
}

Answered<void> AwsEc2::check_ids(const std::vector<std::string>& ids) const {
  for (const auto& id : ids) {
    if (!world_.instance(id)) return no_instance(id);
  }
  return {};
}

AwsReply AwsEc2::terminate_instances(const AwsCall& call) {
  const auto ids = call.list("InstanceId");
  if (ids.empty()) return missing_parameter("InstanceId");
  FLEET_TRY(check_ids(ids));
  AwsXml xml;
  xml.open("instancesSet");
  for (const auto& id : ids) {
    const auto before = world_.instance(id)->state;
    (void)world_.terminate_instance(id, "Client.UserInitiatedShutdown");
    xml.open("item").leaf("instanceId", id);
    write_state(xml, "currentState", world_.instance(id)->state);
    write_state(xml, "previousState", before);
    xml.close();
  }
  xml.close();
  return xml.str();
}

AwsReply AwsEc2::create_tags(const AwsCall& call) {
  const auto ids = call.list("ResourceId");
  const auto tags = call.tags("Tag");
  if (ids.empty() || tags.empty()) return missing_parameter("ResourceId or Tag");
  FLEET_TRY(check_tags(tags));
  std::vector<std::string> instances;
  std::ranges::copy_if(ids, std::back_inserter(instances), [&](const auto& id) { return !account_.has(id); });
  FLEET_TRY(check_ids(instances));
  for (const auto& id : ids) {
    if (!account_.set_tags(id, tags)) (void)world_.set_tags(id, tags);
  }
  return std::string("<return>true</return>");
}

AwsReply AwsEc2::describe_instance_status(const AwsCall& call) {
  const auto ids = call.list("InstanceId");
  FLEET_TRY(check_ids(ids));
  static const std::set<std::string> kNames = {"event.code", "instance-state-name", "availability-zone"};
  FLEET_ASSIGN(const auto filters, read_filters(call, kNames));
  const bool all = call.param("IncludeAllInstances") == "true";
  const auto wanted = [&](const Instance& i) {
    Facts facts = {{"instance-state-name", std::string(name_of(i.state))}, {"availability-zone", i.zone}};
    for (const auto& event : i.maintenance) facts.emplace("event.code", event.code);
    return asked(ids, i.id) && (all || i.state == InstanceState::kRunning) && passes(facts, filters);
  };
  return aws_page(call, kStatusPages, world_.instances(), std::mem_fn(&Instance::id), wanted,
                  [](AwsXml& xml, const Instance& i) {
                    const char* status = i.state == InstanceState::kRunning ? "ok" : "not-applicable";
                    xml.open("item").leaf("instanceId", i.id).leaf("availabilityZone", i.zone);
                    if (!i.maintenance.empty()) xml.open("eventsSet");
                    for (const auto& event : i.maintenance) {
                      xml.open("item").leaf("instanceEventId", event.id).leaf("code", event.code);
                      xml.leaf("description", event.description).leaf("notBefore", aws_instant(event.not_before));
                      xml.leaf("notAfter", aws_instant(event.not_after)).close();
                    }
                    if (!i.maintenance.empty()) xml.close();
                    write_state(xml, "instanceState", i.state);
                    xml.open("systemStatus").leaf("status", status).close();
                    xml.open("instanceStatus").leaf("status", status).close().close();
                  });
}

// From the rack up: the same names as the labels of the nodes.
AwsReply AwsEc2::describe_instance_topology(const AwsCall& call) {
  const auto ids = call.list("InstanceId");
  FLEET_TRY(check_ids(ids));
  static const std::set<std::string> kNames = {"availability-zone", "instance-type"};
  FLEET_ASSIGN(const auto filters, read_filters(call, kNames));
  const auto wanted = [&](const Instance& i) {
    return i.alive() && asked(ids, i.id) && passes({{"availability-zone", i.zone}, {"instance-type", i.type}}, filters);
  };
  return aws_page(call, kTopologyPages, world_.instances(), std::mem_fn(&Instance::id), wanted,
                  [this](AwsXml& xml, const Instance& i) {
                    xml.open("item").leaf("instanceId", i.id).leaf("instanceType", i.type);
                    xml.open("networkNodeSet");
                    for (const auto& node : network_nodes(i)) xml.leaf("item", node);
                    xml.close().leaf("availabilityZone", i.zone);
                    xml.leaf("zoneId", world_.zone_id(i.zone)).close();
                  });
}

}  // namespace qm::fleet
