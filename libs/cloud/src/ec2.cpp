#include "launch_form.hpp"
#include "qm/model/money.hpp"
#include "services.hpp"

namespace qm::cloud {
namespace {

constexpr std::size_t kMaxIds = 1000;   // per Describe, Terminate or CreateTags call
constexpr std::size_t kMaxTypes = 100;  // per DescribeInstanceTypes call

Instant instant_or_epoch(const std::string& text) { return from_rfc3339(text).value_or(Instant{}); }

/// The time in "User initiated (2026-11-21 09:14:29 GMT)".
std::optional<Instant> transition_instant(const std::string& reason) {
  constexpr std::size_t kLength = 19;
  const auto open = reason.rfind('(');
  if (open == std::string::npos || reason.size() < open + 1 + kLength) return std::nullopt;
  std::string text = reason.substr(open + 1, kLength);
  if (text[10] != ' ') return std::nullopt;
  text[10] = 'T';
  const auto at = from_rfc3339(text + "Z");
  return at ? std::optional(*at) : std::nullopt;
}

Instance read_instance(const XmlNode& node) {
  Instance out;
  out.id = node.value("instanceId");
  out.type = node.value("instanceType");
  out.zone = node["placement"].value("availabilityZone");
  out.state = node["instanceState"].value("name");
  out.spot = node.value("instanceLifecycle") == "spot";
  out.private_dns = node.value("privateDnsName");
  out.client_token = node.value("clientToken");
  out.launched = instant_or_epoch(node.value("launchTime"));
  out.stopped = transition_instant(node.value("reason"));
  out.state_reason = node["stateReason"].value("code");
  out.tags = tags_of(node);
  out.image = node.value("imageId");
  out.subnet = node.value("subnetId");
  out.profile = node["iamInstanceProfile"].value("arn");
  for (const auto* group : node.items("groupSet")) out.security_groups.push_back(group->value("groupId"));
  return out;
}

void append_reservations(const XmlNode& root, std::vector<Instance>& out) {
  for (const auto* reservation : root.items("reservationSet")) {
    for (const auto* instance : reservation->items("instancesSet")) out.push_back(read_instance(*instance));
  }
}

InstanceTypeInfo read_type(const XmlNode& node) {
  InstanceTypeInfo out;
  out.name = node.value("instanceType");
  out.vcpu = node["vCpuInfo"].integer("defaultVCpus");
  out.memory_mib = node["memoryInfo"].integer("sizeInMiB");
  for (const auto* gpu : node["gpuInfo"].items("gpus")) {
    out.gpus += gpu->integer("count");
    out.gpu_memory_mib = (*gpu)["memoryInfo"].integer("sizeInMiB");
    out.gpu_model = gpu->value("name");
  }
  return out;
}

}  // namespace

Result<std::vector<Instance>> Aws::run_instances(const InstanceRequest& request) {
  Form form("RunInstances", kEc2Version);
  form.add("InstanceType", request.instance_type);
  form.add("MinCount", request.count).add("MaxCount", request.count);
  // Without a token of the caller, a random token still makes retries inside this call harmless.
  form.add("ClientToken", request.client_token.empty() ? random_token() : request.client_token);
  if (!request.zone.empty()) form.add("Placement.AvailabilityZone", request.zone);
  if (request.spot) form.add("InstanceMarketOptions.MarketType", "spot");
  add_launch(form, {}, request);
  std::vector<std::string> tagged = {"instance"};
  if (request.tag_resources) tagged.insert(tagged.end(), {"volume", "network-interface"});
  add_tag_specifications(form, {}, tagged, request.tags);
  QM_ASSIGN(const auto root, impl_->wire.query(kEc2, form, Effect::kRepeatable));
  std::vector<Instance> out;
  for (const auto* instance : root.items("instancesSet")) out.push_back(read_instance(*instance));
  if (out.size() != static_cast<std::size_t>(request.count)) {
    return fail(Error{Code::kUnknown,
                      fmt::format("RunInstances names {} instances of {}", out.size(), request.count),
                      {},
                      "look up the client token"});
  }
  return out;
}

Result<std::vector<Instance>> Aws::describe_instances(const std::vector<std::string>& ids, const Filters& filters) {
  std::vector<Instance> out;
  const auto take = [&out](const XmlNode& root) -> Status {
    append_reservations(root, out);
    return {};
  };
  const auto form_with = [&filters] {
    Form form("DescribeInstances", kEc2Version);
    form.add_filters(filters);
    return form;
  };
  if (ids.empty()) {
    auto form = form_with();
    QM_TRY(impl_->pages(kEc2, form.add("MaxResults", impl_->page_size(1000)), {}, take));
  }
  for (const auto& piece : pieces(ids, kMaxIds)) {  // ids and MaxResults are mutually exclusive
    auto form = form_with();
    QM_TRY(impl_->pages(kEc2, form.add_list("InstanceId", piece), {}, take));
  }
  return out;
}

Status Aws::terminate_instances(const std::vector<std::string>& ids) {
  for (const auto& piece : pieces(ids, kMaxIds)) {
    Form form("TerminateInstances", kEc2Version);
    QM_TRY(impl_->wire.query(kEc2, form.add_list("InstanceId", piece), Effect::kRepeatable));
  }
  return {};
}

Status Aws::create_tags(const std::vector<std::string>& ids, const std::map<std::string, std::string>& tags) {
  for (const auto& piece : pieces(ids, kMaxIds)) {
    Form form("CreateTags", kEc2Version);
    form.add_list("ResourceId", piece).add_tags("Tag", tags);
    QM_TRY(impl_->wire.query(kEc2, form, Effect::kRepeatable));
  }
  return {};
}

Result<std::vector<InstanceTypeInfo>> Aws::describe_instance_types(const std::vector<std::string>& names) {
  std::vector<InstanceTypeInfo> out;
  const auto take = [&out](const XmlNode& root) -> Status {
    for (const auto* type : root.items("instanceTypeSet")) out.push_back(read_type(*type));
    return {};
  };
  if (names.empty()) {
    Form form("DescribeInstanceTypes", kEc2Version);
    QM_TRY(impl_->pages(kEc2, form.add("MaxResults", impl_->page_size(kMaxTypes)), {}, take));
  }
  for (const auto& piece : pieces(names, kMaxTypes)) {
    Form form("DescribeInstanceTypes", kEc2Version);
    QM_TRY(impl_->pages(kEc2, form.add_list("InstanceType", piece), {}, take));
  }
  return out;
}

Result<std::vector<SpotPriceQuote>> Aws::describe_spot_price_history(const std::vector<std::string>& types,
                                                                     std::optional<Instant> since) {
  std::vector<SpotPriceQuote> out;
  const auto take = [&out](const XmlNode& root) -> Status {
    for (const auto* item : root.items("spotPriceHistorySet")) {
      QM_ASSIGN(const auto price, Money::parse_usd(item->value("spotPrice")));
      out.push_back({item->value("instanceType"), item->value("availabilityZone"), price.nano(),
                     instant_or_epoch(item->value("timestamp"))});
    }
    return {};
  };
  Form form("DescribeSpotPriceHistory", kEc2Version);
  form.add_list("InstanceType", types)
      .add("ProductDescription.1", "Linux/UNIX")
      .add("MaxResults", impl_->page_size(1000));
  if (since) form.add("StartTime", to_rfc3339(*since));
  QM_TRY(impl_->pages(kEc2, form, {}, take));
  return out;
}

}  // namespace qm::cloud
