// EC2NodeClasses: read, resolved against the account, and their status written.
#include "qm/autoscaler/node_classes.hpp"

#include "qm/base/base64.hpp"
#include "qm/base/log.hpp"
#include "qm/config/typed.hpp"

#include <algorithm>
#include <fstream>
#include <utility>

namespace qm::autoscaler {

using namespace std::chrono_literals;

namespace {

using config::NodeClass;
using config::NodeClassTerm;

cloud::Filters filters_of(const NodeClassTerm& term, const char* id, const char* name) {
  cloud::Filters out;
  for (const auto& [key, value] : term.tags) {
    if (value == "*") {
      out["tag-key"].push_back(key);
    } else {
      out["tag:" + key] = {value};
    }
  }
  // The values of one filter are alternatives, and all keys must be there: the selection checks the others.
  if (const auto keys = out.find("tag-key"); keys != out.end()) keys->second.resize(1);
  if (!term.id.empty()) out[id] = {term.id};
  if (!term.name.empty()) out[name] = {term.name};
  return out;
}

template <class T>
Status append(std::vector<T>& to, Result<std::vector<T>> from, std::string_view what) {
  if (!from) return fail(from.error().with_context(what));
  std::ranges::move(*from, std::back_inserter(to));
  return {};
}

Status read_images(cloud::Aws& aws, const NodeClass& node_class, std::string_view version, Inventory& out) {
  std::vector<std::string> ids;
  for (const auto& parameter : image_parameters(node_class, version)) {
    QM_ASSIGN(const auto id, aws.get_parameter(parameter.name));
    if (!id) continue;
    out.parameters[parameter.name] = *id;
    ids.push_back(*id);
  }
  for (const auto& term : node_class.images) {
    if (!term.id.empty()) ids.push_back(term.id);
    if (!term.id.empty() || !term.alias.empty() || !term.ssm_parameter.empty()) continue;
    std::vector<std::string> owners{term.owner};
    if (term.owner.empty()) owners = {"self", "amazon"};
    for (const auto& owner : owners) {
      QM_TRY(append(out.images, aws.describe_images(filters_of(term, "image-id", "name"), {owner}), "DescribeImages"));
    }
  }
  if (!ids.empty()) QM_TRY(append(out.images, aws.describe_images({{"image-id", ids}}), "DescribeImages"));
  return {};
}

Json condition(const std::string& type, const std::string& fault, const char* reason, Instant now) {
  return Json::object({{"type", type},
                       {"status", fault.empty() ? "True" : "False"},
                       {"reason", fault.empty() ? type : std::string(reason)},
                       {"message", fault},
                       {"lastTransitionTime", to_rfc3339(now)}});
}

/// What the account has for a class, by calls with its selectors only.
Result<Inventory> read_inventory(cloud::Aws& aws, const NodeClass& node_class, std::string_view kubernetes_version) {
  Inventory out;
  QM_TRY(read_images(aws, node_class, kubernetes_version, out));
  for (const auto& term : node_class.subnets)
    QM_TRY(append(out.subnets, aws.describe_subnets(filters_of(term, "subnet-id", "")), "DescribeSubnets"));
  for (const auto& term : node_class.security_groups) {
    QM_TRY(append(out.security_groups, aws.describe_security_groups(filters_of(term, "group-id", "group-name")),
                  "DescribeSecurityGroups"));
  }
  for (const auto& term : node_class.reservations) {
    auto filters = filters_of(term, "capacity-reservation-id", "");
    if (!term.match_criteria.empty()) filters["instance-match-criteria"] = {term.match_criteria};
    QM_TRY(append(out.reservations, aws.describe_capacity_reservations(filters), "DescribeCapacityReservations"));
  }
  const std::string& group = node_class.placement_group_id;
  if (!group.empty() || !node_class.placement_group_name.empty()) {
    const cloud::Filters filters{
        group.empty() ? std::pair(std::string("group-name"), std::vector{node_class.placement_group_name})
                      : std::pair(std::string("group-id"), std::vector{group})};
    QM_TRY(append(out.placement_groups, aws.describe_placement_groups(filters), "DescribePlacementGroups"));
  }
  return out;
}

/// The status of a class: its resources, and a condition for each selector; Ready if all are True.
Json status_of(const ResolvedClass& resolved, Instant now) {
  Json images = Json::array(), subnets = Json::array(), groups = Json::array(), conditions = Json::array();
  for (const auto& one : resolved.images) {
    const Json arch = Json::object({{"key", "kubernetes.io/arch"},
                                    {"operator", "In"},
                                    {"values", Json::array({one.image.architecture == "arm64" ? "arm64" : "amd64"})}});
    images.push_back(
        Json::object({{"id", one.image.id}, {"name", one.image.name}, {"requirements", Json::array({arch})}}));
  }
  for (const auto& one : resolved.subnets) subnets.push_back(Json::object({{"id", one.id}, {"zone", one.zone}}));
  for (const auto& one : resolved.security_groups) groups.push_back(Json::object({{"id", one.id}, {"name", one.name}}));
  std::vector<std::string> types{"AMIsReady", "SubnetsReady", "SecurityGroupsReady", "InstanceProfileReady",
                                 "ValidationSucceeded"};
  if (!resolved.node_class.placement_group_id.empty() || !resolved.node_class.placement_group_name.empty())
    types.emplace_back("PlacementGroupReady");
  std::string first;
  for (const auto& type : types) {
    const auto fault = std::ranges::find(resolved.faults, type, &ClassFault::condition);
    const std::string message = fault == resolved.faults.end() ? std::string() : fault->message;
    if (first.empty()) first = message;
    conditions.push_back(condition(type, message, "NotResolved", now));
  }
  conditions.push_back(condition("Ready", first, "NotReady", now));
  return Json::object({{"amis", std::move(images)},
                       {"subnets", std::move(subnets)},
                       {"securityGroups", std::move(groups)},
                       {"instanceProfile", resolved.node_class.instance_profile},
                       {"conditions", std::move(conditions)}});
}

}  // namespace

Result<std::vector<NodeClass>> node_classes_from_manifests(std::span<const std::string> paths) {
  return config::typed_manifests<NodeClass>(paths);
}

Result<std::string> certificate_authority(const kube::ClientOptions& options) {
  if (!options.ca.empty() || options.ca_file.empty()) return base64(options.ca);
  std::ifstream file(options.ca_file);
  if (!file) return fail(Code::kNotFound, "cannot read the certificate authority {}", options.ca_file);
  return base64(std::string(std::istreambuf_iterator<char>(file), {}));
}

NodeClassWatch::NodeClassWatch(kube::Client& client, cloud::Aws& aws, const DomainClock& clock, Options options)
    : client_(client),
      aws_(aws),
      clock_(clock),
      options_(std::move(options)),
      feed_(client, "qm-autoscaler", {{"karpenter.k8s.aws", "ec2nodeclasses", "EC2NodeClass", {"v1", "v1beta1"}}},
            {[this](const auto&, const Json& object) { return take(object); },
             [this](const auto&, const auto& at) { drop(at.second); }}) {
  for (const auto& node_class : options_.files) put(node_class);
}

NodeClassWatch::~NodeClassWatch() { stop(); }

void NodeClassWatch::start() {
  feed_.start();
  thread_ = std::jthread([this](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      refresh();
      std::unique_lock lock(mutex_);
      wake_.wait_for(lock, stop, 1s, [&] {
        return std::ranges::any_of(entries_, [](const auto& entry) { return entry.second.due == SteadyInstant{}; });
      });
    }
  });
}

void NodeClassWatch::stop() {
  thread_ = {};
  feed_.stop();
}

// An unchanged class keeps its resources: the server lists all of them again after each reconnection.
void NodeClassWatch::put(const NodeClass& node_class) {
  const std::scoped_lock lock(mutex_);
  Entry& entry = entries_[node_class.name];
  if (entry.node_class == node_class && entry.version > 0) return;
  entry.node_class = node_class;
  entry.due = {};
  entry.tried = false;
  ++entry.version;
  wake_.notify_all();
}

Status NodeClassWatch::take(const Json& object) {
  QM_ASSIGN(const auto node_class, config::typed_object<NodeClass>(object, "EC2NodeClass"));
  put(node_class);
  const std::scoped_lock lock(mutex_);
  if (std::exchange(of_server_[node_class.name], true)) return {};
  // A new object has no status, even if a file has the same class.
  Entry& entry = entries_[node_class.name];
  entry.published.clear();
  entry.due = {};
  wake_.notify_all();
  return {};
}

void NodeClassWatch::drop(const std::string& name) {
  const auto file = std::ranges::find(options_.files, name, &NodeClass::name);
  {
    const std::scoped_lock lock(mutex_);
    of_server_.erase(name);
    if (file == options_.files.end()) entries_.erase(name);
  }
  if (file != options_.files.end()) put(*file);
}

bool NodeClassWatch::settled() const {
  const std::scoped_lock lock(mutex_);
  return feed_.synced() && std::ranges::all_of(entries_, [](const auto& entry) { return entry.second.tried; });
}

std::string NodeClassWatch::why_not_ready(const std::string& node_class) const {
  const std::scoped_lock lock(mutex_);
  const auto entry = entries_.find(node_class);
  if (entry == entries_.end()) {
    return fmt::format("EC2NodeClass {} does not exist; create it, or correct spec.template.spec.nodeClassRef",
                       node_class);
  }
  const Entry& e = entry->second;
  if (!e.known) {
    return fmt::format("EC2NodeClass {} is not resolved yet{}{}", node_class, e.failure.empty() ? "" : ": ", e.failure);
  }
  return e.resolved.faults.empty() ? std::string() : e.resolved.faults.front().message;
}

ClassResources NodeClassWatch::resources(const std::string& node_class) const {
  const std::scoped_lock lock(mutex_);
  const auto entry = entries_.find(node_class);
  return entry == entries_.end() || !entry->second.known ? ClassResources{} : resources_of(entry->second.resolved);
}

std::vector<ReservationsListed::Item> NodeClassWatch::reservations() const {
  std::map<std::string, ReservationsListed::Item> out;
  const std::scoped_lock lock(mutex_);
  for (const auto& [name, entry] : entries_) {
    for (const cloud::CapacityReservation& one : entry.resolved.reservations) {
      auto& item = out[one.id];
      item.reservation = {one.id,    one.instance_type, one.zone, one.kind == "capacity-block",
                          one.start, one.end,           one.total};
      item.available = one.available;
      item.classes.push_back(name);
    }
  }
  std::vector<ReservationsListed::Item> list;
  for (auto& [id, item] : out) list.push_back(std::move(item));
  return list;
}

Result<cloud::InstanceRequest> NodeClassWatch::launch_parameters(const std::string& node_class,
                                                                 const PlannedInstance& planned) {
  if (auto why = why_not_ready(node_class); !why.empty()) {
    const std::scoped_lock lock(mutex_);
    const auto entry = entries_.find(node_class);
    const bool passing = entry != entries_.end() && !entry->second.known;
    return fail(Error{passing ? Code::kUnavailable : Code::kInvalid, std::move(why), "spec.nodeClassRef", {}});
  }
  const std::scoped_lock lock(mutex_);
  const auto entry = entries_.find(node_class);
  if (entry == entries_.end()) return fail(Code::kInvalid, "EC2NodeClass {} was deleted", node_class);
  ClusterIdentity cluster = options_.cluster;
  cluster.kubernetes_version = version_;
  auto request = autoscaler::launch_parameters(entry->second.resolved, cluster, planned);
  if (request && planned.counted) count_launch(entry->second.resolved, *request);
  return request;
}

std::string NodeClassWatch::kubernetes_version() {
  {
    const std::scoped_lock lock(mutex_);
    if (!version_.empty()) return version_;
  }
  auto version = client_.server_version();
  if (!version) return {};
  const std::scoped_lock lock(mutex_);
  return version_ = std::move(*version);
}

void NodeClassWatch::refresh() {
  struct Due {
    std::string name;
    NodeClass node_class;
    std::uint64_t version;
  };
  std::vector<Due> due;
  {
    const auto now = std::chrono::steady_clock::now();
    const std::scoped_lock lock(mutex_);
    for (const auto& [name, entry] : entries_) {
      if (entry.due <= now) due.push_back({name, entry.node_class, entry.version});
    }
  }
  for (const auto& one : due) resolve_one(one.name, one.node_class, one.version);
}

void NodeClassWatch::resolve_one(const std::string& name, const NodeClass& node_class, std::uint64_t version) {
  const auto kubernetes = kubernetes_version();
  Result<Inventory> inventory = kubernetes.empty()
                                    ? fail(Code::kUnavailable, "the version of the API server is not known")
                                    : read_inventory(aws_, node_class, kubernetes);
  ResolvedClass resolved;
  if (inventory) {
    resolved = resolve(node_class, *inventory, kubernetes);
    if (!node_class.role.empty()) {
      const std::string profile = instance_profile_of(node_class, options_.cluster.name, options_.region);
      if (const auto made = aws_.ensure_instance_profile(profile, node_class.role); !made) {
        resolved.faults.push_back(
            {"InstanceProfileReady", "spec.role",
             fmt::format(
                 "EC2NodeClass {}: no instance profile for role {}: {}; create the role, or set instanceProfile", name,
                 node_class.role, made.error().message)});
      }
      resolved.node_class.instance_profile = profile;
    }
    ClusterIdentity cluster = options_.cluster;
    if (const auto data = user_data(node_class, cluster, {}); !data) {
      resolved.faults.push_back(
          {"ValidationSucceeded", data.error().field,
           fmt::format("EC2NodeClass {}: {}; {}", name, data.error().message, data.error().remedy)});
    }
  }
  {
    const std::scoped_lock lock(mutex_);
    const auto found = entries_.find(name);
    if (found == entries_.end() || found->second.version != version) return;
    Entry& entry = found->second;
    const std::string before =
        entry.known && !entry.resolved.faults.empty() ? entry.resolved.faults.front().message : "";
    entry.tried = true;
    entry.due =
        std::chrono::steady_clock::now() + (inventory && resolved.faults.empty() ? options_.period : options_.retry);
    const std::string failure = inventory ? std::string() : inventory.error().to_string();
    const bool repeated = failure == std::exchange(entry.failure, failure);
    if (!inventory) {
      if (repeated) return;
      log::warn("the account cannot be read for the EC2NodeClass", {{"class", name}, {"error", entry.failure}});
      return;
    }
    if (!resolved.faults.empty() && resolved.faults.front().message != before)
      log::warn("the EC2NodeClass is not ready", {{"class", name}, {"reason", resolved.faults.front().message}});
    entry.known = true;
    entry.resolved = resolved;
  }
  publish(name, resolved);
}

void NodeClassWatch::publish(const std::string& name, const ResolvedClass& resolved) {
  const std::string text = status_of(resolved, Instant{}).dump();
  {
    const std::scoped_lock lock(mutex_);
    const auto entry = entries_.find(name);
    if (entry == entries_.end() || !of_server_.contains(name) || entry->second.published == text) return;
  }
  const auto at = feed_.resource("EC2NodeClass");
  if (!at) return;
  const auto done =
      client_.merge_patch(*at, "", name, Json::object({{"status", status_of(resolved, clock_.now())}}), "status");
  if (!done) {
    log::warn("the status of the EC2NodeClass is not written", {{"class", name}, {"error", done.error().to_string()}});
    return;
  }
  const std::scoped_lock lock(mutex_);
  if (const auto entry = entries_.find(name); entry != entries_.end()) entry->second.published = text;
}

}  // namespace qm::autoscaler
