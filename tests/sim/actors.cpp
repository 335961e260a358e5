#include "actors.hpp"

#include "qm/admission/watch.hpp"
#include "qm/config/manifest.hpp"
#include "quartermaster/v1/admission_service.pb.h"

#include <algorithm>

namespace qm::sim {

namespace pb = quartermaster::v1;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {
service::Input watch_input(std::string name, std::string bytes) {
  service::Input input;
  input.source = service::Source::kWatch;
  input.name = std::move(name);
  input.bytes = std::move(bytes);
  return input;
}
}  // namespace

service::Input apply_input(const std::string& manifest) {
  pb::ApplyRequest request;
  request.set_request_id("apply");
  request.set_manifest(manifest);
  request.set_source("queues.yaml");
  service::Input input;
  input.source = service::Source::kRequest;
  input.name = "Apply";
  input.id = "apply";
  input.bytes = request.SerializeAsString();
  return input;
}

// ---- watches ----

const char* Watch::name() const {
  switch (kind_) {
    case World::Kind::kJob:
      return "job";
    case World::Kind::kPod:
      return "pod";
    case World::Kind::kNode:
      return "node";
  }
  return "";
}

void Watch::put(const std::string& key, const Json& object, bool deleted) {
  if (deleted) {
    if (known_.erase(key) == 0 && kind_ == World::Kind::kJob) return;
    Json last = object;
    last.set("deleted", true);
    queue_.push_back(watch_input(name(), last.dump()));
    return;
  }
  // For jobs the real watch forwards only changes that admission could act on.
  std::string print = kind_ == World::Kind::kJob ? admission::job_print(object) : object.dump();
  auto [it, fresh] = known_.emplace(key, print);
  if (!fresh && it->second == print) return;
  it->second = std::move(print);
  queue_.push_back(watch_input(name(), object.dump()));
}

void Watch::change(const std::string& key, const Json& object, bool deleted) {
  if (to_.has_leader()) put(key, object, deleted);
}

void Watch::restart() {
  known_.clear();
  queue_.clear();
  list();
}

void Watch::list() {
  std::map<std::string, Json> there;
  if (kind_ == World::Kind::kJob) {
    for (const auto& [uid, job] : world_.jobs) {
      if (!job.deleting) there.emplace(uid, job.body);
    }
  } else if (kind_ == World::Kind::kPod) {
    for (const auto& [uid, pod] : world_.pods) there.emplace(uid, pod.body);
  } else {
    for (const auto& [node, row] : world_.nodes) there.emplace(node, row.body);
  }
  std::vector<std::string> gone;
  for (const auto& [key, print] : known_) {
    if (!there.contains(key)) gone.push_back(key);
  }
  for (const auto& key : gone)
    put(key, Json::object({{"metadata", Json::object({{"uid", key}, {"name", key}})}}), true);
  for (const auto& [key, object] : there) put(key, object, false);
  Json keys = Json::array();
  for (const auto& [key, object] : there) keys.push_back(key);
  if (kind_ == World::Kind::kJob) keys = Json::object({{"kind", "Job"}, {"uids", std::move(keys)}});
  queue_.push_back(watch_input(std::string(name()) + ".synced", keys.dump()));
}

void Watch::repeat_last() {
  if (!queue_.empty() && queue_.back().name == name()) queue_.push_back(queue_.back());
}

bool Watch::deliver(std::int64_t most) {
  bool any = false;
  for (; most > 0 && !queue_.empty() && to_.up(); --most) {
    if (!to_.host().submit(queue_.front())) break;
    queue_.pop_front();
    any = true;
  }
  return any;
}

// ---- polls of the cloud ----

bool CloudLooks::step() {
  if (!to_.up() || world_.now() < next_) return false;
  next_ = world_.now() + seconds(10);
  bool any = false;
  if (prices_published_ < quotes.size()) {
    // EC2 answers with the history: the watch forwards the newest quote of each pool.
    prices_published_ = quotes.size();
    const Json list = Json::array({Json::object(
        {{"type", kType}, {"zone", kZone}, {"nano", quotes.back().second}, {"at_us", micros(quotes.back().first)}})});
    any = to_.host().submit(watch_input("spot_prices", list.dump())).has_value();
  }
  std::string bytes = world_.describe().dump();
  if (bytes == last_) return any;
  last_ = bytes;
  return to_.host().submit(watch_input("instances", std::move(bytes))).has_value() || any;
}

// ---- agents ----

void Agents::restart() {
  for (auto& [node, agent] : agents_) {
    agent.hub_id = 0;
    agent.sent.clear();
  }
}

telemetry::pb::AgentFact& Agents::fact(const std::string& node, Agent& agent) {
  agent.facts.emplace_back();
  agent.facts.back().set_id(fmt::format("{}/1/{}", node, ++agent.number));
  return agent.facts.back();
}

void Agents::report_xid(const std::string& node, int xid, int gpu) {
  auto* report = fact(node, agents_[node]).mutable_xid();
  report->set_node(node);
  report->set_xid(xid);
  report->set_gpu_index(gpu);
  report->set_gpu_uuid(fmt::format("GPU-{}-{}", node, gpu));
  report->set_line("NVRM: Xid");
  report->set_at_us(micros(world_.now()));
}

void Agents::look(const std::string& node, Agent& agent) {
  telemetry::pb::DeviceObservation seen;
  seen.set_node(node);
  for (const auto& [uid, pod] : world_.pods) {
    if (pod.node != node || pod.terminal()) continue;
    auto* row = seen.add_pods();
    row->set_namespace_(pod.ns);
    row->set_pod(pod.name);
    for (const int index : pod.devices) {
      auto* device = row->add_devices();
      device->set_node(node);
      device->set_index(index);
      device->set_uuid(fmt::format("GPU-{}-{}", node, index));
      device->set_milli(1000);
    }
    for (const auto& [gpu, n] : pod.instances) {
      auto* device = row->add_devices();
      device->set_node(node);
      device->set_index(gpu);
      device->set_uuid(fmt::format("MIG-{}-{}-{}", node, gpu, n));
      device->set_mig_profile("1g.10gb");
    }
  }
  if (std::string bytes = seen.SerializeAsString(); bytes != agent.devices) {
    agent.devices = std::move(bytes);
    seen.set_at_us(micros(world_.now()));
    *fact(node, agent).mutable_devices() = seen;
  }
  const auto& instance = world_.instances.at(world_.nodes.at(node).instance);
  if (instance.taken_at && !agent.noticed) {
    agent.noticed = true;
    auto* notice = fact(node, agent).mutable_notice();
    notice->set_node(node);
    notice->set_instance_id(instance.id);
    notice->set_action("terminate");
    notice->set_at_us(micros(*instance.taken_at));
    notice->set_seen_us(micros(world_.now()));
  }
}

void Agents::answer(const std::string& node, Agent& agent, const telemetry::pb::CheckpointOrder& order) {
  std::int64_t step = -1;
  int ranks = 0;
  std::string name, ns;
  for (const auto& [uid, pod] : world_.pods) {
    if (pod.job != order.uid() || pod.attempt != order.attempt() || pod.phase != World::Pod::Phase::kRunning) continue;
    const std::int64_t at = pod.start_step + (world_.now() - pod.started).count() / 1'000'000;
    step = step < 0 ? at : std::min(step, at);
    ns = pod.ns;
    name = world_.jobs.at(pod.job).name;
    ranks += pod.node == node ? 1 : 0;
  }
  // The ranks of a gang agree on the step that they save: the first one to answer an order chooses it.
  step = save_steps_.emplace(order.id(), step).first->second;
  auto* ack = fact(node, agent).mutable_ack();
  ack->set_order_id(order.id());
  ack->set_uid(order.uid());
  ack->set_attempt(order.attempt());
  ack->set_namespace_(order.namespace_());
  ack->set_node(node);
  ack->set_ranks(ranks);
  ack->set_number(order.number());
  ack->set_ok(ranks > 0);
  ack->set_at_us(micros(world_.now()));
  if (ranks > 0) {
    ack->set_step(step);
    ack->set_uri(fmt::format("fleet://{}/{}?step={}", ns, name, step));
    auto* save = ack->add_saves();
    save->set_step(step);
    save->set_ranks(ranks);
    save->set_uri(ack->uri());
  } else {
    ack->set_message("no rank of this attempt runs here");
  }
}

bool Agents::step(int repeat_per_mille) {
  bool any = false;
  for (auto it = agents_.begin(); it != agents_.end();) {
    if (world_.nodes.contains(it->first)) {
      ++it;
      continue;
    }
    if (it->second.hub_id != 0 && hub_) hub_->disconnect(it->second.hub_id);
    it = agents_.erase(it);
  }
  for (const auto& [name, row] : world_.nodes) {
    if (!row.alive || !row.ready) continue;
    Agent& agent = agents_[name];
    look(name, agent);
    std::vector<std::string> ready;
    for (const auto& [id, due] : agent.orders) {
      if (due.first <= world_.now()) ready.push_back(id);
    }
    for (const auto& id : ready) {
      answer(name, agent, agent.orders.at(id).second);
      agent.orders.erase(id);
    }
    if (!telemetry_.up()) continue;
    const auto take = [this, node = name](const telemetry::pb::AgentOrder& order) {
      Agent& mine = agents_[node];
      if (!order.has_checkpoint() || !mine.answered.insert(order.checkpoint().id()).second) return true;
      mine.orders[order.checkpoint().id()] = {world_.now() + milliseconds(random_.between(500, 20'000)),
                                              order.checkpoint()};
      return true;
    };
    if (agent.hub_id == 0) {
      agent.hub_id = hub_->connect(take);
      hub_->serve(agent.hub_id, {name});
      telemetry_.read([&](const service::Shell& shell) {
        for (const auto& [id, order] : telemetry::engine_of(shell).open_orders(NodeName(name))) {
          telemetry::pb::AgentOrder message;
          *message.mutable_checkpoint() = telemetry::order_message(id, order);
          take(message);
        }
      });
      any = true;
    }
    while (!agent.facts.empty() && confirmed_->contains(agent.facts.front().id())) agent.facts.pop_front();
    for (const auto& f : agent.facts) {
      if (!agent.sent.insert(f.id()).second && !random_.chance(repeat_per_mille)) continue;
      any = true;
      (void)telemetry_.host().submit(telemetry::fact_input(f),
                                     [confirmed = confirmed_, id = f.id()](const Result<std::string>& done) {
                                       if (done) confirmed->insert(id);
                                     });
    }
  }
  return any;
}

bool Agents::idle() const {
  for (const auto& [node, agent] : agents_) {
    if (!agent.orders.empty()) return false;
    for (const auto& f : agent.facts) {
      if (!confirmed_->contains(f.id())) return false;
    }
  }
  return true;
}

// ---- users ----

void Users::plan(int jobs, Duration within, Kinds kinds) {
  for (int i = 0; i < jobs; ++i) {
    Submission w;
    w.ns = random_.chance(500) ? "team-a" : "team-b";
    w.name = fmt::format("job-{}", i);
    w.priority = random_.chance(250) ? "high" : "";
    w.pods = static_cast<int>(random_.between(1, 4));
    w.gpus = random_.chance(300) ? 8 : static_cast<int>(random_.between(1, 8));
    if (kinds.slices && random_.chance(600)) w.gpus = 0, w.slices = static_cast<int>(random_.between(1, 3));
    // Some request more CPU for a GPU than an eighth of a node has, so that a node's CPU runs out before its GPUs.
    if (w.slices == 0 && random_.chance(300)) w.cpu = static_cast<int>(random_.between(10, 150));
    w.run_s = static_cast<int>(random_.between(10, 500));
    w.checkpoints = random_.chance(400);
    w.by_kubectl = random_.chance(400);
    w.at = world_.now() + Duration{random_.between(0, within.count())};
    if (random_.chance(100)) {
      w.cancel_at = w.at + seconds(random_.between(1, 400));
      w.cancel_by_kubectl = random_.chance(400);
    }
    if (kinds.elastic && w.slices == 0 && random_.chance(800)) {
      w.pods = static_cast<int>(random_.between(2, 6));
      w.least = static_cast<int>(random_.between(1, w.pods));
    }
    if (kinds.is_work_queue && random_.chance(700)) w.completions = w.pods + static_cast<int>(random_.between(1, 5));
    submissions_.push_back(std::move(w));
  }
}

bool Users::done() const {
  for (const auto& w : submissions_) {
    if (!w.submitted || (w.cancel_at != Instant{} && !w.cancelled)) return false;
  }
  return std::ranges::all_of(unwritable_, &Unwritable::answered);
}

void Users::send_unwritable() { unwritable_.emplace_back(); }

bool Users::step() {
  bool any = false;
  for (std::size_t i = 0; i < unwritable_.size(); ++i) {
    auto& call = unwritable_[i];
    if (call.answered || call.again > world_.now() || !admission_.up()) continue;
    call.again = world_.now() + seconds(5) * (1 << std::min(call.asks++, 6));
    pb::CancelRequest request;
    request.set_request_id(fmt::format("unwritable-{}", i));
    request.set_uid("job-uid-0");
    request.set_reason(std::string(kUnwritable));
    service::Input input;
    input.source = service::Source::kRequest;
    input.name = "Cancel";
    input.id = request.request_id();
    input.bytes = request.SerializeAsString();
    (void)admission_.host().submit(std::move(input), [this, i](const Result<std::string>& answer) {
      if (answer || answer.error().code != Code::kInvalid || unwritable_[i].answered) return;
      unwritable_[i].answered = true;
      ++refused_;
    });
    any = true;
  }
  for (std::size_t i = 0; i < submissions_.size(); ++i) {
    Submission& w = submissions_[i];
    if (!w.submitted && w.at <= world_.now() && w.asked + seconds(5) <= world_.now()) {
      submit(w, i);
      any = true;
    } else if (w.submitted && !w.cancelled && w.cancel_at != Instant{} && w.cancel_at <= world_.now() &&
               w.asked + seconds(5) <= world_.now()) {
      cancel(w, i);
      any = true;
    }
  }
  return any;
}

void Users::submit(Submission& w, std::size_t number) {
  WorkloadSpec spec;
  spec.ns = Namespace(w.ns);
  spec.name = w.name;
  spec.queue = "main";
  spec.priority_class = w.priority;
  spec.team = Team(w.ns);
  spec.checkpoints = w.checkpoints;
  PodSet set;
  set.count = w.pods;
  set.min_count = w.least < w.pods ? w.least : 0;
  set.completions = w.completions;
  set.shape.gpu.whole = w.gpus;
  set.shape.cpu_milli = 1000 * w.cpu;
  if (w.slices > 0) set.shape.gpu = {0, 0, "1g.10gb", w.slices, {}};
  spec.pod_sets.push_back(set);
  const std::map<std::string, std::string> annotations{
      {"fleet.quartermaster.dev/run-seconds", std::to_string(w.run_s)}};
  const Json job = config::job_from_workload(spec, annotations);
  if (w.by_kubectl) {
    world_.create_job(job, "kubectl");
    w.submitted = true;
    return;
  }
  pb::SubmitRequest request;
  request.set_request_id(fmt::format("submit-{}", number));
  request.set_manifest(job.dump());
  call(w, "Submit", request.request_id(), request.SerializeAsString(), &Submission::submitted);
}

void Users::cancel(Submission& w, std::size_t number) {
  World::Job* job = world_.job_named(w.ns, w.name);
  if (job == nullptr || job->complete) {
    // Not created yet: retry; finished or gone: nothing to cancel.
    bool ever = false;
    for (const auto& [uid, other] : world_.jobs) ever = ever || (other.name == w.name && other.ns == w.ns);
    if (ever) w.cancelled = true;
    w.asked = world_.now();
    return;
  }
  if (w.cancel_by_kubectl) {
    // A Job that is deleted before its creation is recorded is created again if the process crashes in between.
    const bool recorded =
        w.by_kubectl || (admission_.up() && !admission::awaits(admission_.host(), w.ns, w.name, job->intent));
    if (!recorded) {
      w.asked = world_.now();
      return;
    }
    world_.delete_job(job->uid);
    w.cancelled = true;
    return;
  }
  pb::CancelRequest request;
  request.set_request_id(fmt::format("cancel-{}", number));
  request.set_uid(job->uid);
  request.set_reason("the submission of the user");
  call(w, "Cancel", request.request_id(), request.SerializeAsString(), &Submission::cancelled);
}

void Users::call(Submission& w, const std::string& method, const std::string& id, std::string bytes,
                 bool Submission::*done) {
  w.asked = world_.now();
  ++w.asks;
  if (!admission_.up()) return;
  service::Input input;
  input.source = service::Source::kRequest;
  input.name = method;
  input.id = id;
  input.bytes = std::move(bytes);
  const std::size_t at = static_cast<std::size_t>(&w - submissions_.data());
  (void)admission_.host().submit(std::move(input), [this, at, done](const Result<std::string>& answer) {
    if (answer || answer.error().code == Code::kAlreadyExists) submissions_[at].*done = true;
  });
}

}  // namespace qm::sim
