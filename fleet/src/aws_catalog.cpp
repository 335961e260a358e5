// What EC2 sells: types, zones, spot prices and scores, capacity blocks.
#include "aws_catalog.hpp"

#include "qm/base/digest.hpp"
#include "text.hpp"

#include <algorithm>
#include <set>

namespace qm::fleet {
namespace {

constexpr AwsPaging kTypePages{"instanceTypeSet", "MaxResults", 100, 5, 100, "nextToken"};
constexpr AwsPaging kPricePages{"spotPriceHistorySet", "MaxResults", 1000, 1, 1000, "nextToken"};
constexpr AwsPaging kOfferingPages{"instanceTypeOfferingSet", "MaxResults", 1000, 5, 1000, "nextToken"};
constexpr int kMostUnits = 2'000'000'000;

}  // namespace

bool AwsCatalog::knows(const std::string& action) {
  static const std::set<std::string> kActions = {"DescribeInstanceTypes", "DescribeInstanceTypeOfferings",
                                                 "DescribeSpotPriceHistory", "GetSpotPlacementScores",
                                                 "DescribeCapacityBlockOfferings"};
  return kActions.contains(action);
}

AwsReply AwsCatalog::handle(const AwsCall& call) const {
  if (call.action == "DescribeInstanceTypes") return describe_types(call);
  if (call.action == "DescribeInstanceTypeOfferings") return describe_offerings(call);
  if (call.action == "DescribeSpotPriceHistory") return describe_spot_prices(call);
  if (call.action == "GetSpotPlacementScores") return spot_scores(call);
  return describe_blocks(call);
}

AwsReply AwsCatalog::describe_types(const AwsCall& call) const {
  const auto names = call.list("InstanceType");
  FLEET_TRY(check_types(names));
  const auto wanted = [&](const auto& entry) { return asked(names, entry.first); };
  const auto name_of_entry = [](const auto& entry) { return entry.first; };
  return aws_page(call, kTypePages, world_.prices().all(), name_of_entry, wanted, [](AwsXml& xml, const auto& entry) {
    const InstanceType& type = entry.second;
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
  });
}

AwsReply AwsCatalog::describe_spot_prices(const AwsCall& call) const {
  const auto types = call.list("InstanceType"), products = call.list("ProductDescription");
  const auto& zone = call.param("AvailabilityZone");
  const bool linux_asked = products.empty() || std::ranges::any_of(products, [](const std::string& product) {
                             return product.starts_with("Linux/UNIX");
                           });
  struct Row {
    std::string type, zone;
    std::int64_t nano;
  };
  std::vector<Row> rows;
  for (const auto& [name, type] : world_.prices().all()) {
    for (const auto& in : world_.options().zones) rows.push_back({name, in, type.spot_nano_hour});
  }
  const auto wanted = [&](const Row& row) {
    return linux_asked && row.nano > 0 && asked(types, row.type) && (zone.empty() || zone == row.zone);
  };
  const auto key = [](const Row& row) { return row.type + "/" + row.zone; };
  return aws_page(call, kPricePages, rows, key, wanted, [this](AwsXml& xml, const Row& row) {
    xml.open("item").leaf("instanceType", row.type).leaf("productDescription", "Linux/UNIX");
    xml.leaf("spotPrice", fmt::format("{}.{:09}", row.nano / 1'000'000'000, row.nano % 1'000'000'000));
    xml.leaf("timestamp", aws_instant(began_)).leaf("availabilityZone", row.zone).close();
  });
}

AwsReply AwsCatalog::describe_offerings(const AwsCall& call) const {
  static const std::set<std::string> kNames = {"instance-type", "location"};
  FLEET_ASSIGN(const auto filters, read_filters(call, kNames));
  const auto& named = call.param("LocationType");
  const std::string kind = named.empty() ? "region" : named;
  if (kind != "region" && kind != "availability-zone" && kind != "availability-zone-id") {
    return invalid_value(fmt::format("Value ({}) for parameter LocationType is invalid.", kind));
  }
  struct Row {
    std::string type, location;
  };
  std::vector<Row> rows;
  for (const auto& [name, type] : world_.prices().all()) {
    if (kind == "region") {
      rows.push_back({name, world_.options().region});
      continue;
    }
    for (const auto& zone : world_.options().zones) {
      rows.push_back({name, kind == "availability-zone" ? zone : world_.zone_id(zone)});
    }
  }
  return aws_page(
      call, kOfferingPages, rows, [](const Row& row) { return row.type + "/" + row.location; },
      [&](const Row& row) {
        return passes({{"instance-type", row.type}, {"location", row.location}}, filters);
      },
      [&](AwsXml& xml, const Row& row) {
        xml.open("item").leaf("instanceType", row.type).leaf("locationType", kind);
        xml.leaf("location", row.location).close();
      });
}

// 9 where the market has the target twice, 5 where it has it once, else 1; at most 3 with fewer than three types.
AwsReply AwsCatalog::spot_scores(const AwsCall& call) const {
  const auto types = call.list("InstanceType");
  if (types.empty()) return missing_parameter("InstanceType or InstanceRequirementsWithMetadata");
  FLEET_TRY(check_types(types));
  if (call.param("TargetCapacity").empty()) return missing_parameter("TargetCapacity");
  FLEET_ASSIGN(const int target, call.number("TargetCapacity", 1, 1, kMostUnits));
  const auto score_in = [&](const std::string& zone) {
    std::int64_t left = 0;
    for (const auto& type : types) left += world_.capacity_left(type, Market::kSpot, zone);
    const int score = left >= 2 * std::int64_t{target} ? 9 : left >= target ? 5 : 1;
    return types.size() < 3 ? std::min(score, 3) : score;
  };
  AwsXml xml;
  xml.open("spotPlacementScoreSet");
  if (call.param("SingleAvailabilityZone") == "true") {
    for (const auto& zone : world_.options().zones) {
      xml.open("item").leaf("region", world_.options().region).leaf("availabilityZoneId", world_.zone_id(zone));
      xml.leaf("score", score_in(zone)).close();
    }
  } else {
    xml.open("item").leaf("region", world_.options().region).leaf("score", score_in({})).close();
  }
  xml.close();
  return xml.str();
}

// One offering in each zone: from 11:30 UTC of the next day, at nine tenths of the on-demand price.
AwsReply AwsCatalog::describe_blocks(const AwsCall& call) const {
  const auto& name = call.param("InstanceType");
  FLEET_TRY(check_types({name}));
  FLEET_ASSIGN(const int count, call.number("InstanceCount", 1, 1, 64));
  FLEET_ASSIGN(const int hours, call.number("CapacityDurationHours", 0, 24, 182 * 24));
  if (hours % 24 != 0) return invalid_value("CapacityDurationHours must be a multiple of 24.");
  const auto from = from_rfc3339(call.param("StartDateRange"));
  const auto earliest = micros(std::max(from ? *from : Instant{}, world_.now()));
  constexpr std::int64_t kDay = 86'400'000'000, kStart = 41'400'000'000;
  const auto start = from_micros((earliest / kDay + 1) * kDay + kStart);
  const auto end = start + std::chrono::hours(hours);
  const auto fee = world_.prices().find(name)->on_demand_nano_hour / 1'000'000 * 9 / 10 * count * hours;
  AwsXml xml;
  xml.open("capacityBlockOfferingSet");
  for (const auto& zone : world_.options().zones) {
    const auto id = sha256_hex(fmt::format("{}/{}/{}/{}/{}", name, zone, count, hours, micros(start))).substr(0, 17);
    xml.open("item").leaf("capacityBlockOfferingId", "cb-" + id).leaf("instanceType", name);
    xml.leaf("availabilityZone", zone).leaf("instanceCount", count).leaf("startDate", aws_instant(start));
    xml.leaf("endDate", aws_instant(end)).leaf("capacityBlockDurationHours", hours);
    xml.leaf("upfrontFee", fmt::format("{}.{:03}", fee / 1000, fee % 1000)).leaf("currencyCode", "USD");
    xml.leaf("tenancy", "default").close();
  }
  xml.close();
  return xml.str();
}

Answered<void> AwsCatalog::check_types(const std::vector<std::string>& names) const {
  for (const auto& name : names) {
    if (world_.prices().find(name) != nullptr) continue;
    return refuse(400, "InvalidInstanceType", "The following supplied instance types do not exist: [{}]", name);
  }
  return {};
}

}  // namespace qm::fleet
