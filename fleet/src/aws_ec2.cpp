#include "aws_ec2.hpp"

#include "qm/base/digest.hpp"

#include <fmt/chrono.h>
#include <fnmatch.h>

#include <algorithm>
#include <optional>
#include <set>

namespace qm::fleet {
namespace {

constexpr Duration kTokenLife = std::chrono::hours(24);
constexpr std::size_t kMaxTokenLength = 64;
constexpr std::size_t kMaxTags = 50;
constexpr int kMaxCount = 1000;
constexpr int kMaxPage = 1000;

tl::unexpected<AwsFault> no_instance(const std::string& id) {
  if (!id.starts_with("i-"))
    return aws_fault(400, "InvalidInstanceID.Malformed", fmt::format("Invalid id: \"{}\"", id));
  return aws_fault(400, "InvalidInstanceID.NotFound", fmt::format("The instance ID '{}' does not exist", id));
}

int code_of(InstanceState state) {
  switch (state) {
    case InstanceState::kPending:
      return 0;
    case InstanceState::kRunning:
      return 16;
    case InstanceState::kShuttingDown:
      return 32;
    case InstanceState::kTerminated:
      return 48;
  }
  return -1;
}

void write_state(AwsXml& xml, std::string_view name, InstanceState state) {
  xml.open(name).leaf("code", code_of(state)).leaf("name", name_of(state)).close();
}

/// The sentence in which EC2 gives away when an instance stopped.
std::string transition_reason(const Instance& instance) {
  if (!instance.stopped) return {};
  const std::string_view who = instance.stop_reason.starts_with("Client.") ? "User" : "Service";
  return fmt::format("{} initiated ({:%Y-%m-%d %H:%M:%S} GMT)", who,
                     fmt::gmtime(static_cast<std::time_t>(micros(*instance.stopped) / 1'000'000)));
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
  if (!i.tags.empty()) {
    xml.open("tagSet");
    for (const auto& [key, value] : i.tags) xml.open("item").leaf("key", key).leaf("value", value).close();
    xml.close();
  }
  xml.close();
}

struct Filter {
  std::string name;
  std::vector<std::string> values;
};

std::vector<Filter> read_filters(const AwsCall& call) {
  std::vector<Filter> out;
  for (int n = 1;; ++n) {
    const auto& name = call.param(fmt::format("Filter.{}.Name", n));
    if (name.empty()) return out;
    out.push_back({name, call.list(fmt::format("Filter.{}.Value", n))});
  }
}

/// What a filter looks at; nullopt where the name is not known.
std::optional<std::vector<std::string>> filtered_values(const Instance& i, const std::string& name) {
  using Values = std::vector<std::string>;
  if (name.starts_with("tag:")) {
    const auto it = i.tags.find(name.substr(4));
    return it == i.tags.end() ? Values{} : Values{it->second};
  }
  if (name == "tag-key") {
    Values keys;
    for (const auto& [key, value] : i.tags) keys.push_back(key);
    return keys;
  }
  if (name == "instance-state-name") return Values{std::string(name_of(i.state))};
  if (name == "instance-state-code") return Values{std::to_string(code_of(i.state))};
  if (name == "instance-type") return Values{i.type};
  if (name == "instance-id") return Values{i.id};
  if (name == "availability-zone") return Values{i.zone};
  if (name == "client-token") return Values{i.client_token};
  if (name == "private-dns-name") return Values{i.private_dns};
  if (name == "instance-lifecycle") return i.market == Market::kSpot ? Values{"spot"} : Values{};
  return std::nullopt;
}

/// Values of one filter are alternatives, '*' and '?' stand for any text and any character.
bool passes(const Instance& i, const std::vector<Filter>& filters) {
  return std::all_of(filters.begin(), filters.end(), [&](const Filter& filter) {
    const auto have = *filtered_values(i, filter.name);
    return std::any_of(filter.values.begin(), filter.values.end(), [&](const std::string& wanted) {
      return std::any_of(have.begin(), have.end(), [&](const std::string& value) {
        return fnmatch(wanted.c_str(), value.c_str(), FNM_NOESCAPE) == 0;
      });
    });
  });
}

std::optional<AwsFault> check_tags(const std::map<std::string, std::string>& tags) {
  if (tags.size() > kMaxTags) return AwsFault{400, "TagLimitExceeded", "More than 50 tags."};
  for (const auto& [key, value] : tags) {
    if (key.starts_with("aws:")) {
      return AwsFault{400, "InvalidParameterValue", "Tag keys starting with 'aws:' are reserved for internal use"};
    }
  }
  return std::nullopt;
}

tl::unexpected<AwsFault> to_fault(const Error& error) {
  if (error.field == "capacity") {
    return aws_fault(500, "InsufficientInstanceCapacity",
                     error.message);  // a 500 in the real service too
  }
  return aws_fault(400, "InvalidParameterValue", fmt::format("{} ({})", error.message, error.field));
}

}  // namespace

AwsEc2::AwsEc2(World& world) : world_(world), began_(world.now_floor()) {}

const LaunchTemplate* AwsEc2::find_template(const std::string& name) const {
  const auto it = templates_.find(name);
  return it == templates_.end() ? nullptr : &it->second;
}

AwsReply AwsEc2::handle(const AwsCall& call) {
  static const std::map<std::string, AwsReply (AwsEc2::*)(const AwsCall&)> kActions = {
      {"RunInstances", &AwsEc2::run_instances},
      {"DescribeInstances", &AwsEc2::describe_instances},
      {"TerminateInstances", &AwsEc2::terminate_instances},
      {"CreateTags", &AwsEc2::create_tags},
      {"DescribeInstanceTypes", &AwsEc2::describe_instance_types},
      {"DescribeSpotPriceHistory", &AwsEc2::describe_spot_price_history},
      {"CreateLaunchTemplate", &AwsEc2::create_launch_template}};
  const auto it = kActions.find(call.action);
  if (it == kActions.end()) {
    return aws_fault(400, "InvalidAction",
                     fmt::format("The action {} is not valid for this web service.", call.action));
  }
  return (this->*it->second)(call);
}

void AwsEc2::forget_old_tokens() {
  while (!token_order_.empty()) {
    const auto it = tokens_.find(token_order_.front());
    if (it->second.at + kTokenLife > world_.now()) return;
    tokens_.erase(it);
    token_order_.pop_front();
  }
}

std::string AwsEc2::launched(const std::vector<Instance>& instances) const {
  AwsXml xml;
  xml.leaf("reservationId", "r-" + instances.front().id.substr(2)).leaf("ownerId", "000000000000");
  xml.open("instancesSet");
  for (const auto& instance : instances) write_instance(xml, world_.instance(instance.id).value_or(instance));
  xml.close();
  return xml.str();
}

AwsReply AwsEc2::run_instances(const AwsCall& call) {
  LaunchSpec spec;
  spec.type = call.param("InstanceType");
  spec.image_id = call.param("ImageId");
  spec.zone = call.param("Placement.AvailabilityZone");
  spec.user_data = call.param("UserData");
  spec.client_token = call.param("ClientToken");
  spec.market = call.param("InstanceMarketOptions.MarketType") == "spot" ? Market::kSpot : Market::kOnDemand;
  for (const auto& [name, value] : {std::pair("InstanceType", spec.type), std::pair("ImageId", spec.image_id)}) {
    if (value.empty()) {
      return aws_fault(400, "MissingParameter", fmt::format("The request must contain the parameter {}", name));
    }
  }
  if (spec.client_token.size() > kMaxTokenLength) {
    return aws_fault(400, "InvalidParameterValue", "Client token is longer than 64 characters");
  }
  const auto most = call.number("MaxCount", 1, 1, kMaxCount);
  if (!most) return tl::unexpected<AwsFault>(most.error());
  const auto least = call.number("MinCount", *most, 1, *most);
  if (!least) return tl::unexpected<AwsFault>(least.error());
  if (call.param("TagSpecification.1.ResourceType") == "instance") spec.tags = call.tags("TagSpecification.1.Tag");
  if (auto fault = check_tags(spec.tags)) return tl::unexpected<AwsFault>(std::move(*fault));

  forget_old_tokens();
  std::string parameters;
  for (const auto& [key, value] : call.params) {
    if (key != "ClientToken") parameters.append(key).append("=").append(value).append("\n");
  }
  parameters = sha256_hex(parameters);
  if (const auto known = tokens_.find(spec.client_token); known != tokens_.end()) {
    if (known->second.parameters != parameters) {
      return aws_fault(400, "IdempotentParameterMismatch",
                       "The client token you have provided is associated with a resource that has "
                       "different parameters");
    }
    return launched(known->second.instances);
  }

  // All or nothing: the room is known before the first one starts, and nothing comes between under the lock. With no
  // room at all one attempt is made, for the world to say why and to note that somebody was refused.
  const bool sold = world_.prices().find(spec.type) != nullptr;
  const int room = sold ? world_.capacity_left(spec.type, spec.market) : 0;
  if (room > 0 && room < *least) {
    return aws_fault(500, "InsufficientInstanceCapacity",
                     fmt::format("There is {} capacity for {} instances of {} now, not for {}.", name_of(spec.market),
                                 room, spec.type, *least));
  }
  std::vector<Instance> instances;
  for (int n = 0; n < std::clamp(room, 1, *most); ++n) {
    auto instance = world_.launch_instance(spec);
    if (!instance) return to_fault(instance.error());
    // One request is one zone, even where the world picked it.
    spec.zone = instance->zone;
    instances.push_back(std::move(*instance));
  }
  if (!spec.client_token.empty()) {
    tokens_[spec.client_token] = {parameters, instances, world_.now()};
    token_order_.push_back(spec.client_token);
  }
  return launched(instances);
}

AwsReply AwsEc2::describe_instances(const AwsCall& call) {
  const auto ids = call.list("InstanceId");
  if (!ids.empty() && !call.param("MaxResults").empty()) {
    return aws_fault(400, "InvalidParameterCombination",
                     "The parameter instancesSet cannot be used with the parameter maxResults");
  }
  const auto count = call.number("MaxResults", kMaxPage, 5, kMaxPage);
  if (!count) return tl::unexpected<AwsFault>(count.error());
  const auto filters = read_filters(call);
  for (const auto& filter : filters) {
    if (!filtered_values({}, filter.name)) {
      return aws_fault(400, "InvalidParameterValue", fmt::format("The filter '{}' is invalid", filter.name));
    }
  }
  const auto visible_before = world_.now() - hidden_;
  const std::set<std::string> wanted(ids.begin(), ids.end());
  std::set<std::string> found;
  AwsXml xml;
  xml.open("reservationSet");
  int written = 0;
  std::string last;
  bool more = false;
  // A page begins behind the instance that the token names: what ends or appears meanwhile moves nothing. The ids are
  // random, the list is in the order of launches.
  const auto& token = call.param("NextToken");
  const auto all = world_.instances();
  auto at = all.begin();
  if (!token.empty()) {
    at = std::ranges::find(all, token, &Instance::id);
    if (at == all.end()) return aws_fault(400, "InvalidParameterValue", "Invalid value for nextToken");
    ++at;
  }
  for (; at != all.end(); ++at) {
    if (hidden_.count() > 0 && !at->initial && at->launched > visible_before) continue;
    if (!wanted.empty() && !wanted.contains(at->id)) continue;
    found.insert(at->id);
    if (!passes(*at, filters)) continue;
    if (written == *count) {
      more = true;
      break;
    }
    xml.open("item").leaf("reservationId", "r-" + at->id.substr(2)).leaf("ownerId", "000000000000");
    xml.open("instancesSet");
    write_instance(xml, *at);
    xml.close().close();
    last = at->id;
    ++written;
  }
  for (const auto& id : ids) {
    if (!found.contains(id)) return no_instance(id);
  }
  xml.close();
  if (more) xml.leaf("nextToken", last);
  return xml.str();
}

AwsReply AwsEc2::terminate_instances(const AwsCall& call) {
  const auto ids = call.list("InstanceId");
  if (ids.empty()) return aws_fault(400, "MissingParameter", "The request must contain the parameter InstanceId");
  for (const auto& id : ids) {
    if (!world_.instance(id)) return no_instance(id);
  }
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
  if (ids.empty() || tags.empty()) {
    return aws_fault(400, "MissingParameter", "The request must contain the parameters ResourceId and Tag");
  }
  if (auto fault = check_tags(tags)) return tl::unexpected<AwsFault>(std::move(*fault));
  for (const auto& id : ids) {
    if (!world_.instance(id)) return no_instance(id);
  }
  for (const auto& id : ids) (void)world_.set_tags(id, tags);
  return std::string("<return>true</return>");
}

AwsReply AwsEc2::describe_instance_types(const AwsCall& call) {
  const auto names = call.list("InstanceType");
  std::vector<const InstanceType*> types;
  for (const auto& name : names) {
    const auto* type = world_.prices().find(name);
    if (type == nullptr) {
      return aws_fault(400, "InvalidInstanceType",
                       fmt::format("The following supplied instance types do not exist: [{}]", name));
    }
    types.push_back(type);
  }
  if (names.empty()) {
    for (const auto& [name, type] : world_.prices().all()) types.push_back(&type);
  }
  const auto count = call.number("MaxResults", 100, 5, 100);
  if (!count) return tl::unexpected<AwsFault>(count.error());
  const auto page = aws_page(call.param("NextToken"), types.size(), *count);
  if (!page) return tl::unexpected<AwsFault>(page.error());
  AwsXml xml;
  xml.open("instanceTypeSet");
  for (auto n = page->begin; n < page->end; ++n) {
    const auto& type = *types[n];
    xml.open("item").leaf("instanceType", type.name);
    xml.open("vCpuInfo").leaf("defaultVCpus", type.vcpu).close();
    xml.open("memoryInfo").leaf("sizeInMiB", type.memory_mib).close();
    if (type.gpus > 0) {
      xml.open("gpuInfo").open("gpus").open("item");
      xml.leaf("name", type.gpu_model).leaf("manufacturer", "NVIDIA").leaf("count", type.gpus);
      xml.open("memoryInfo").leaf("sizeInMiB", type.gpu_memory_mib).close();
      xml.close().close().leaf("totalGpuMemoryInMiB", type.gpus * type.gpu_memory_mib).close();
    }
    xml.close();
  }
  xml.close();
  if (!page->next_token.empty()) xml.leaf("nextToken", page->next_token);
  return xml.str();
}

AwsReply AwsEc2::describe_spot_price_history(const AwsCall& call) {
  const auto wanted = call.list("InstanceType");
  const auto products = call.list("ProductDescription");
  const bool linux_asked = products.empty() || std::ranges::any_of(products, [](const std::string& product) {
                             return product.starts_with("Linux/UNIX");
                           });
  struct Row {
    std::string type, zone;
    std::int64_t nano;
  };
  std::vector<Row> rows;
  for (const auto& [name, type] : world_.prices().all()) {
    const auto nano = world_.price_nano_hour(name, Market::kSpot);
    const bool asked = wanted.empty() || std::ranges::find(wanted, name) != wanted.end();
    if (!linux_asked || !asked || nano == 0) continue;
    for (const auto& zone : world_.options().zones) {
      const auto& only = call.param("AvailabilityZone");
      if (only.empty() || only == zone) rows.push_back({name, zone, nano});
    }
  }
  const auto count = call.number("MaxResults", kMaxPage, 1, kMaxPage);
  if (!count) return tl::unexpected<AwsFault>(count.error());
  const auto page = aws_page(call.param("NextToken"), rows.size(), *count);
  if (!page) return tl::unexpected<AwsFault>(page.error());
  AwsXml xml;
  xml.open("spotPriceHistorySet");
  for (auto n = page->begin; n < page->end; ++n) {
    const auto& row = rows[n];
    xml.open("item").leaf("instanceType", row.type).leaf("productDescription", "Linux/UNIX");
    xml.leaf("spotPrice", fmt::format("{}.{:09}", row.nano / 1'000'000'000, row.nano % 1'000'000'000));
    xml.leaf("timestamp", aws_instant(began_)).leaf("availabilityZone", row.zone).close();
  }
  xml.close();
  if (!page->next_token.empty()) xml.leaf("nextToken", page->next_token);
  return xml.str();
}

AwsReply AwsEc2::create_launch_template(const AwsCall& call) {
  const auto& name = call.param("LaunchTemplateName");
  if (name.empty())
    return aws_fault(400, "MissingParameter", "The request must contain the parameter LaunchTemplateName");
  if (templates_.contains(name)) {
    return aws_fault(400, "InvalidLaunchTemplateName.AlreadyExistsException", "Launch template name already in use.");
  }
  LaunchTemplate made;
  made.id = "lt-" + world_.random_hex(17);
  made.type = call.param("LaunchTemplateData.InstanceType");
  made.image_id = call.param("LaunchTemplateData.ImageId");
  if (call.param("LaunchTemplateData.InstanceMarketOptions.MarketType") == "spot") made.market = Market::kSpot;
  if (world_.prices().find(made.type) == nullptr) {
    return aws_fault(400, "InvalidParameterValue", fmt::format("Invalid value '{}' for InstanceType.", made.type));
  }
  AwsXml xml;
  xml.open("launchTemplate").leaf("launchTemplateId", made.id).leaf("launchTemplateName", name);
  xml.leaf("defaultVersionNumber", 1).leaf("latestVersionNumber", 1).close();
  templates_.emplace(name, std::move(made));
  return xml.str();
}

}  // namespace qm::fleet
