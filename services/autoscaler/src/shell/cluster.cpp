// One thread submits the observations of the watches to the host: owners before demand, nodes before pods, and pools
// only once all of them are known.
#include "qm/autoscaler/cluster.hpp"

#include "pods/held_nodes.hpp"
#include "qm/base/log.hpp"
#include "rows.hpp"

#include <algorithm>
#include <utility>

namespace qm::autoscaler {

using namespace std::chrono_literals;

namespace {

NodeLifecycle::Options lifecycle_options(const Cluster::Options& options) {
  NodeLifecycle::Options out;
  out.writes_status = options.settings.driver == Driver::kEc2;
  out.most_grace = options.groups.most_grace;
  return out;
}

}  // namespace

Cluster::Cluster(kube::Client& client, service::Host& host, const DomainClock& clock, Options options)
    : host_(host),
      clock_(clock),
      options_(std::move(options)),
      scaling_(client, {"scaling", options_.settings.scaling, kube::other_controllers_of("scaling")}),
      pools_(client, options_.pools),
      daemon_sets_(client),
      nodes_(client, options_.node_pods),
      lifecycle_(
          client, [&host](const auto& use) { host.read([&](const service::Shell& shell) { use(engine_of(shell)); }); },
          clock, lifecycle_options(options_)),
      overlays_(client, clock),
      buffers_(client, clock),
      provisioning_(client, clock),
      pool_status_(client, clock),
      held_(std::make_unique<HeldNodes>(client)) {
  if (options_.settings.driver == Driver::kKarpenter)
    claims_ = std::make_unique<ClaimWatch>(client, clock, options_.shard, options_.on_node_claims);
  if (options_.settings.alone)
    observer_ = std::make_unique<PodObserver>(
        client, clock, options_.on_node_claims,
        PodObserver::Options{options_.groups.system_pods(), options_.settings.default_spread});
}

Cluster::~Cluster() { stop(); }

Status Cluster::begin(service::Host& host) {
  bool published = false;
  host.read([&](const service::Shell& shell) { published = engine_of(shell).tables().owners.size() > 0; });
  if (published) return {};
  service::Input in;
  in.source = service::Source::kWatch;
  in.name = "owners";
  in.bytes = Json::array({Json::object({{"namespace", ""}, {"ours", false}, {"owner", "unknown"}})}).dump();
  return host.submit(in);
}

void Cluster::start() {
  if (observer_) {
    host_.read([&](const service::Shell& shell) { observer_->restore(engine_of(shell).tables()); });
    observer_->start();
  }
  scaling_.start();
  daemon_sets_.start();
  host_.read([&](const service::Shell& shell) { nodes_.restore(engine_of(shell).tables()); });
  nodes_.start();
  lifecycle_.start();
  overlays_.start();
  buffers_.start();
  provisioning_.start();
  pools_.start();
  if (claims_) claims_->start();
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

void Cluster::stop() {
  thread_ = {};
  if (observer_) observer_->stop();
  if (claims_) claims_->stop();
  pools_.stop();
  provisioning_.stop();
  buffers_.stop();
  overlays_.stop();
  lifecycle_.stop();
  nodes_.stop();
  daemon_sets_.stop();
  scaling_.stop();
}

bool Cluster::synced() const {
  return scaling_.known() && pools_.synced() && nodes_.synced() && overlays_.synced() && buffers_.synced() &&
         provisioning_.synced() && (options_.classes == nullptr || options_.classes->settled()) &&
         (options_.priorities == nullptr || options_.priorities->synced()) && (!claims_ || claims_->synced()) &&
         (!observer_ || observer_->synced());
}

void Cluster::submit_input(service::Input input, const std::stop_token& stop) {
  input.source = service::Source::kWatch;
  // A full mailbox is temporary.
  while (!stop.stop_requested() && !host_.submit(input)) std::this_thread::sleep_for(20ms);
}

// While the activity of other controllers is not known, the owners from before the restart apply; at the very first start, no
// namespace is owned: see begin().
void Cluster::publish_owners(const std::stop_token& stop) {
  if (!scaling_.known()) return;
  const auto standard = scaling_.of("");
  Json list = Json::array({Json::object({{"namespace", ""}, {"ours", standard.ours}, {"owner", standard.owner}})});
  for (const auto& [ns, owner] : scaling_.named_owners()) {
    const auto verdict = scaling_.of(ns);
    list.push_back(Json::object({{"namespace", ns}, {"ours", verdict.ours}, {"owner", owner}}));
  }
  auto bytes = list.dump();
  if (bytes == published_owners_) return;
  published_owners_ = bytes;
  service::Input in;
  in.name = "owners";
  in.bytes = std::move(bytes);
  submit_input(std::move(in), stop);
}

// A NodePool that names the group, or has its name, takes precedence. False: the groups were not read yet.
bool Cluster::add_discovered(std::vector<Pool>& pools) const {
  const auto found = options_.discovered->discovered();
  if (!found) return false;
  for (const Pool& pool : *found) {
    const bool known = std::ranges::any_of(
        pools, [&](const Pool& other) { return other.group == pool.group || other.name == pool.name; });
    if (!known) pools.push_back(pool);
  }
  return true;
}

// A NodePool with an Auto Scaling group does not use its class: the group has a launch template.
void Cluster::publish_pools(const std::stop_token& stop) {
  auto pools = pools_.pools();
  if (!pools || (options_.classes != nullptr && !options_.classes->settled())) return;
  if (options_.priorities != nullptr && !options_.priorities->synced()) return;
  if (options_.discovered != nullptr && !add_discovered(*pools)) return;
  if (options_.priorities != nullptr) options_.priorities->rank(*pools);
  pool_faults_.clear();
  for (Pool& pool : *pools) {
    if (options_.groups.unready > Duration::zero()) pool.unready_after = options_.groups.unready;
    PoolFaults& faults = pool_faults_[pool.name];
    faults.validation = pool.not_ready;
    if (options_.settings.driver == Driver::kKarpenter) pool.lifecycle.template_hash.clear();  // Karpenter finds drift
    if (options_.classes == nullptr || !pool.group.empty()) continue;
    const std::string node_class = pool.node_class.empty() ? "default" : pool.node_class;
    faults.node_class = options_.classes->why_not_ready(node_class);
    if (pool.not_ready.empty()) pool.not_ready = faults.node_class;
    auto resources = options_.classes->resources(node_class);
    pool.lifecycle.images = std::move(resources.images);
    pool.lifecycle.subnets = std::move(resources.subnets);
    pool.lifecycle.security_groups = std::move(resources.security_groups);
  }
  auto in = pools_input(*pools);
  if (published_pools_ == in.bytes) return;
  published_pools_ = in.bytes;
  log::info("NodePools", {{"count", pools->size()}});
  submit_input(std::move(in), stop);
}

void Cluster::publish_capacity_objects(const std::stop_token& stop) {
  const auto publish = [&](const char* name, std::string bytes, std::string& published) {
    if (bytes == published) return;
    published = bytes;
    service::Input in;
    in.name = name;
    in.bytes = std::move(bytes);
    submit_input(std::move(in), stop);
  };
  if (options_.classes != nullptr && options_.classes->settled())
    publish("reservations", reservations_input(options_.classes->reservations()).bytes, published_reservations_);
  if (const auto overlays = overlays_.overlays()) publish("overlays", overlays_bytes(*overlays), published_overlays_);
  if (auto requests = provisioning_.requests()) {
    add_room(*requests);
    publish("provisioning", provisioning_input(*requests).bytes, published_provisioning_);
  }
  if (const auto buffers = buffers_.buffers()) publish("buffers", buffers_input(*buffers).bytes, published_buffers_);
}

// Without placement the room on running nodes is counted here; what is launched for a request is no room of others.
void Cluster::add_room(std::vector<ProvisioningRequest>& requests) {
  if (!observer_ || !observer_->synced()) return;
  for (ProvisioningRequest& request : requests) {
    if (!request.invalid.empty()) continue;
    std::vector<DemandUpdated::Item> items(1);
    items[0].id = {request.uid, 1};
    items[0].ns = request.ns;
    items[0].pod_sets = request.pod_sets;
    observer_->find_room(items);
    request.room = items[0].room;
  }
}

// With Karpenter as the driver the status of NodePools is its own. A pool of a file has none until it is an object.
void Cluster::write_status() {
  std::map<std::string, BufferState> buffers;
  std::map<WorkloadUid, std::vector<Condition>> provisioning;
  std::map<std::string, PoolStatus::Status> pools;
  host_.peek([&](const service::Shell& shell) {
    buffers = engine_of(shell).buffers();
    provisioning = engine_of(shell).provisioning();
    pools = PoolStatus::status_of(engine_of(shell), pool_faults_);
  });
  std::erase_if(pools, [this](const auto& entry) { return !pools_.is_object(entry.first); });
  buffers_.write_status(buffers);
  provisioning_.write_status(provisioning);
  if (options_.settings.driver == Driver::kEc2) pool_status_.write(pools);
}

// Without placement the scheduler of the cluster binds the pods: it does not know the plans. A node that was launched under
// another setting may have the taint too.
void Cluster::nominate() {
  // Each peek wakes the loop of the host: none without a decision since the last one.
  const auto decided = host_.counters().batches;
  if (std::exchange(decided_, decided) == decided && !nominating_) return;
  std::vector<Nomination> planned;
  std::set<NodeName> held;
  host_.peek([&](const service::Shell& shell) {
    planned = engine_of(shell).nominations();
    held = engine_of(shell).held_nodes();
  });
  const auto nominate = [&] { return observer_ ? observer_->nominator().nominate(planned) : Nominator::Outcome{}; };
  held_->pass(held, nominate, std::chrono::steady_clock::now());
  nominating_ = !planned.empty() || !held.empty();
}

// Writes one Event to each namespace whose workloads have another owner, with its name.
void Cluster::export_metrics(metrics::Registry& registry) const {
  registry.on_collect([this] { return nodes_.metrics().families(); });
}

void Cluster::report() {
  std::map<std::string, std::string> uids;  // one for each namespace
  host_.peek([&](const service::Shell& shell) {
    const auto& tables = engine_of(shell).tables();
    for (const auto& [uid, item] : tables.demand) {
      const auto* workload = tables.workloads.find(uid);
      const std::string& ns = item.ns.empty() && workload != nullptr ? workload->ns : item.ns;
      if (!ns.empty()) uids.emplace(ns, uid.value());
    }
  });
  for (const auto& [ns, uid] : uids) {
    std::string subject = observer_ ? observer_->subject(uid) : std::string();
    if (subject.empty()) subject = "workload " + uid;
    (void)scaling_.acts(ns, subject);
  }
}

void Cluster::run(const std::stop_token& stop) {
  auto report_at = std::chrono::steady_clock::now();
  while (!stop.stop_requested()) {
    publish_owners(stop);
    if (const auto sets = daemon_sets_.sets()) {
      auto in = daemon_sets_input(*sets);
      if (published_daemon_sets_ != in.bytes) {
        published_daemon_sets_ = in.bytes;
        submit_input(std::move(in), stop);
      }
    }
    publish_capacity_objects(stop);
    publish_pools(stop);
    // Before the nodes: a node that is ready is known to be initialized or not.
    for (auto& in : nodes_.changes(clock_.now())) submit_input(std::move(in), stop);
    if (claims_) {
      for (const auto& claim : claims_->lost()) {
        service::Input in;
        in.name = "claim.lost";
        in.bytes =
            Json::object({{"claim", claim}, {"error", "its NodeClaim was deleted before it had an instance"}}).dump();
        submit_input(std::move(in), stop);
      }
    }
    // No input waits until the owner is known.
    if (observer_ && scaling_.known()) {
      for (auto& in : observer_->changes()) submit_input(std::move(in), stop);
    }
    nominate();
    if (std::chrono::steady_clock::now() >= report_at) {
      report();
      write_status();
      report_at = std::chrono::steady_clock::now() + 1s;
    }
    std::this_thread::sleep_for(200ms);
  }
}

}  // namespace qm::autoscaler
