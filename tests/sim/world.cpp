#include "world.hpp"

#include "qm/config/requests.hpp"
#include "qm/kube/client.hpp"

#include <algorithm>

namespace qm::sim {
namespace {

using std::chrono::milliseconds;

constexpr const char* kSlice = "nvidia.com/mig-1g.10gb";
constexpr int kSlicesOfAGpu = 7, kSlicedGpus = 2;
constexpr int kCpuOfANode = 190;

std::int64_t in_ms(Duration time) { return std::chrono::duration_cast<milliseconds>(time).count(); }

Instant whole_second(Instant t) { return from_micros(micros(t) / 1'000'000 * 1'000'000); }

std::vector<int> numbers(const std::string& text) {
  std::vector<int> out;
  for (std::size_t at = 0; at < text.size();) {
    out.push_back(std::stoi(text.substr(at)));
    at = text.find(',', at);
    if (at == std::string::npos) break;
    ++at;
  }
  return out;
}

int attempt_of(const Json& body) {
  const std::string text = kube::annotation(body, words::kAttempt);
  return text.empty() ? 0 : std::stoi(text);
}

}  // namespace

// ---- what listeners receive ----

void World::publish_job(const Job& job) { changed(Kind::kJob, job.uid, job.body, false); }

void World::publish_pod(Pod& pod) {
  constexpr const char* kNames[] = {"Pending", "Running", "Succeeded", "Failed"};
  pod.body.set("status").set("phase", kNames[static_cast<int>(pod.phase)]);
  changed(Kind::kPod, pod.uid, pod.body, false);
}

void World::publish_node(Node& node) {
  const Json ready = Json::object({{"type", "Ready"}, {"status", node.alive && node.ready ? "True" : "Unknown"}});
  node.body.set("status").set("conditions", Json::array({ready}));
  changed(Kind::kNode, node.name, node.body, false);
}

// ---- jobs and their controller ----

std::string World::create_job(Json body, const std::string& intent) {
  Job job;
  job.uid = number("job-uid-");
  job.ns = kube::namespace_of(body);
  job.name = kube::name_of(body);
  job.intent = intent;
  job.pods = static_cast<int>(body["spec"]["completions"].integer(1));
  job.at_once = static_cast<int>(body["spec"]["parallelism"].integer(1));
  const std::string least = kube::annotation(body, words::kJobLeast);
  job.least = job.at_once < job.pods ? 1 : least.empty() ? job.pods : std::stoi(least);
  const auto& pod = body["spec"]["template"];
  const auto requests = config::requests_from_pod_spec(pod["spec"]).value();
  if (const auto cpu = requests.find("cpu"); cpu != requests.end()) job.cpu = static_cast<int>(cpu->second.units());
  job.gpus = std::stoi(pod.path("spec.containers").at(0).path("resources.limits")[words::kGpuResource].string_or("0"));
  job.slices = std::stoi(pod.path("spec.containers").at(0).path("resources.limits")[kSlice].string_or("0"));
  job.run_s = std::stoll(pod["metadata"]["annotations"]["fleet.quartermaster.dev/run-seconds"].string_or("60"));
  job.checkpoints = !kube::annotation(pod, words::kCheckpoint).empty();
  body.set("metadata").set("uid", job.uid).set("creationTimestamp", to_rfc3339(now_));
  job.body = std::move(body);
  const std::string uid = job.uid;
  jobs.emplace(uid, std::move(job));
  publish_job(jobs.at(uid));
  ask_sync(uid);
  return uid;
}

void World::ask_sync(const std::string& uid) {
  auto it = jobs.find(uid);
  if (it == jobs.end() || it->second.sync) return;
  it->second.sync = true;
  it->second.sync_at = now_ + milliseconds(random_.between(0, in_ms(job_sync)));
}

void World::patch_job(const std::string& uid, const Json& patch) {
  Job& job = jobs.at(uid);
  job.body.merge_patch(patch);
  publish_job(job);
  ask_sync(uid);
}

void World::delete_job(const std::string& uid) {
  auto it = jobs.find(uid);
  if (it == jobs.end() || it->second.deleting) return;
  it->second.deleting = true;
  changed(Kind::kJob, uid, it->second.body, true);
  ask_sync(uid);
}

World::Job* World::job_named(const std::string& ns, const std::string& name) {
  for (auto& [uid, job] : jobs) {
    if (job.ns == ns && job.name == name && !job.deleting) return &job;
  }
  return nullptr;
}

// Like the Job controller in Indexed mode: a suspended job has no active pods; a running job has an active pod for
// every index that has not succeeded, not counting pods that are being deleted.
void World::control(Job& job) {
  job.sync = false;
  const bool stop = job.deleting || job.complete || job.body["spec"]["suspend"].boolean();
  std::set<int> active;
  std::vector<std::string> doomed;
  for (const auto& [uid, pod] : pods) {
    if (pod.job != job.uid || pod.terminal() || pod.deleting || pod.forged) continue;
    if (stop && !job.complete) {
      doomed.push_back(uid);
    } else {
      active.insert(pod.index);
    }
  }
  for (const auto& uid : doomed) {
    const Pod& pod = pods.at(uid);
    delete_pod(pod.ns, pod.name, uid, -1);
  }
  if (stop) return;
  const auto at_once = static_cast<std::size_t>(job.at_once);
  for (int index = 0; index < job.pods && active.size() < at_once; ++index) {
    if (job.succeeded.contains(index) || !active.insert(index).second) continue;
    if (bug_ == Bug::kHalfGang && index == 1) continue;
    make_pod(job, index);
  }
}

void World::make_pod(Job& job, int index) {
  Pod pod;
  pod.uid = number("pod-uid-");
  pod.ns = job.ns;
  pod.name = job.name + "-" + std::to_string(index) + "-" + std::to_string(counter_);
  pod.job = job.uid;
  pod.index = index;
  pod.gpus = job.gpus;
  pod.cpu = job.cpu;
  pod.slices = job.slices;
  const Json& of = job.body["spec"]["template"];
  pod.attempt = attempt_of(of);
  const std::string resume = kube::annotation(of, words::kResume);
  if (const auto at = resume.find("step="); at != std::string::npos) pod.start_step = std::stoll(resume.substr(at + 5));
  pod.left_us = std::max<std::int64_t>(1, job.run_s - pod.start_step) * 1'000'000;
  Json meta = of["metadata"];
  meta.set("name", pod.name).set("namespace", pod.ns).set("uid", pod.uid);
  meta.set("annotations").set(words::kJobIndex, std::to_string(index));
  meta.set("ownerReferences",
           Json::array({Json::object({{"kind", "Job"}, {"name", job.name}, {"uid", job.uid}, {"controller", true}})}));
  pod.body = Json::object({{"metadata", std::move(meta)}, {"spec", of["spec"]}});
  // Pods of some jobs leave a node that is not ready at once, others after a minute or after the API server's default.
  const auto kind = job.uid.back() % 3;
  for (const char* key : {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}) {
    if (kind == 0) break;
    pod.body.set("spec")
        .set("tolerations")
        .push_back(Json::object({{"key", key},
                                 {"operator", "Exists"},
                                 {"effect", "NoExecute"},
                                 {"tolerationSeconds", kind == 1 ? 60 : 300}}));
  }
  const std::string uid = pod.uid;
  publish_pod(pods.emplace(uid, std::move(pod)).first->second);
}

// ---- pods and kubelets ----

bool World::kubelet(const std::string& name) const {
  const auto it = nodes.find(name);
  return it != nodes.end() && it->second.alive && it->second.ready;
}

Status World::bind_pod(const std::string& ns, const std::string& name, const std::string& uid, const std::string& where,
                       const std::string& devices) {
  for (auto& [key, pod] : pods) {
    if (pod.forged && key == uid) broken(fmt::format("pod {} of namespace {} is bound as a rank", name, pod.ns));
    if (pod.ns != ns || pod.name != name) continue;
    if (key != uid) return fail(Code::kFailedPrecondition, "pod {} is another one now", name);
    if (pod.node == where) return {};
    if (!pod.node.empty()) return fail(Code::kAlreadyExists, "pod {} is bound to {}", name, pod.node);
    if (pod.deleting) return fail(Code::kFailedPrecondition, "pod {} is being deleted", name);
    pod.node = where;
    pod.devices = numbers(devices);
    if (bug_ == Bug::kWrongDevices) {
      for (std::size_t i = 0; i < pod.devices.size(); ++i) pod.devices[i] = static_cast<int>(i);
    }
    pod.start_at = now_ + milliseconds(random_.between(500, 4000));
    const Job& gang = jobs.at(pod.job);
    grown += gang.least < gang.pods && std::ranges::any_of(pods, [&](const auto& other) {
               return other.second.job == pod.job && other.second.attempt == pod.attempt &&
                      other.second.phase == Pod::Phase::kRunning &&
                      other.second.started + std::chrono::seconds(10) < now_;
             });
    pod.body.set("spec").set("nodeName", where);
    if (!devices.empty()) pod.body.set("metadata").set("annotations").set(words::kDevices, devices);
    if (pod.slices > 0) {
      give_instances(pod, std::exchange(pod.devices, {}));
    } else if (static_cast<int>(pod.devices.size()) != pod.gpus) {
      broken(fmt::format("pod {} asks for {} GPUs and is bound to [{}]", name, pod.gpus, devices));
    }
    publish_pod(pod);
    check();
    return {};
  }
  return fail(Code::kNotFound, "pod {} does not exist", name);
}

// Like the kubelet: any idle instance of the assigned GPU, else of the other one.
void World::give_instances(Pod& pod, const std::vector<int>& assigned) {
  if (const Node* at = node(pod.node); at == nullptr || !at->sliced)
    return broken(fmt::format("pod {} is bound to {}, whose GPUs are whole", pod.name, pod.node));
  std::set<std::pair<int, int>> taken;
  for (const auto& [uid, other] : pods) {
    if (other.node == pod.node && !other.terminal()) taken.insert(other.instances.begin(), other.instances.end());
  }
  for (int i = 0; i < pod.slices; ++i) {
    const int wish = i < static_cast<int>(assigned.size()) ? assigned[static_cast<std::size_t>(i)] : 0;
    std::optional<std::pair<int, int>> found;
    for (int gpu = 0; gpu < kSlicedGpus && !found; ++gpu) {
      for (int n = 0; n < kSlicesOfAGpu && !found; ++n) {
        const std::pair instance((wish + gpu) % kSlicedGpus, n);
        if (bug_ == Bug::kOneInstance || !taken.contains(instance)) found = instance;
      }
    }
    if (!found) return broken(fmt::format("pod {} is bound to {}, which has no instance left", pod.name, pod.node));
    meetings += std::ranges::any_of(pods, [&](const auto& other) {
      return other.second.node == pod.node && other.second.ns != pod.ns && !other.second.terminal() &&
             std::ranges::any_of(other.second.instances,
                                 [&](const auto& theirs) { return theirs.first == found->first; });
    });
    taken.insert(*found);
    pod.instances.push_back(*found);
  }
}

void World::delete_pod(const std::string& ns, const std::string& name, const std::string& uid, std::int64_t grace_s) {
  const auto it = pods.find(uid);
  if (it == pods.end() || it->second.ns != ns || it->second.name != name) return;
  Pod& pod = it->second;
  if (pod.node.empty() || pod.terminal() || grace_s == 0 || !nodes.contains(pod.node)) return remove_pod(uid);
  const std::int64_t most = grace_s < 0 ? 30'000 : grace_s * 1000;
  const Instant gone =
      now_ + milliseconds(random_.between(std::min<std::int64_t>(500, most), std::min<std::int64_t>(most, 8000)));
  if (pod.deleting) {
    pod.gone_at = std::min(pod.gone_at, gone);
    return;
  }
  pod.deleting = true;
  pod.gone_at = gone;
  pod.body.set("metadata").set("deletionTimestamp", to_rfc3339(now_));
  publish_pod(pod);
  ask_sync(pod.job);
}

void World::remove_pod(const std::string& uid) {
  const auto it = pods.find(uid);
  const Json last = it->second.body;
  const std::string job = it->second.job;
  if (bug_ == Bug::kOldAttemptRuns && it->second.phase == Pod::Phase::kRunning) {
    zombies.push_back(it->second);
    zombies.back().gone_at = now_ + std::chrono::minutes(5);
  }
  pods.erase(it);
  changed(Kind::kPod, uid, last, true);
  ask_sync(job);
}

void World::run_pods() {
  std::vector<std::string> gone;
  for (auto& [uid, pod] : pods) {
    if (pod.node.empty() || pod.terminal()) continue;
    if (!nodes.contains(pod.node)) {  // the garbage collector of pods
      gone.push_back(uid);
      continue;
    }
    if (!kubelet(pod.node)) continue;
    if (pod.deleting) {
      if (pod.gone_at <= now_) gone.push_back(uid);
      continue;
    }
    if (pod.phase == Pod::Phase::kPending && pod.start_at <= now_) {
      pod.phase = Pod::Phase::kRunning;
      pod.started = now_;
      ++starts;
      publish_pod(pod);
    } else if (pod.phase == Pod::Phase::kRunning && pod.started + Duration{pod.left_us} <= now_) {
      pod.phase = Pod::Phase::kSucceeded;
      publish_pod(pod);
      Job& job = jobs.at(pod.job);
      if (++job.succeeded[pod.index] > 1) {
        broken(fmt::format("index {} of job {} succeeded twice", pod.index, job.name));
      }
      if (!job.complete && !job.deleting) {
        job.body.set("status").set("succeeded", static_cast<std::int64_t>(job.succeeded.size()));
        if (static_cast<int>(job.succeeded.size()) == job.pods) {
          job.complete = true;
          ++finishes;
          job.body.set("status").set("conditions",
                                     Json::array({Json::object({{"type", "Complete"}, {"status", "True"}})}));
        }
        publish_job(job);
      }
      ask_sync(pod.job);
    }
  }
  for (const auto& uid : gone) remove_pod(uid);
}

// ---- nodes ----

World::Node* World::node(const std::string& name) {
  const auto it = nodes.find(name);
  return it == nodes.end() ? nullptr : &it->second;
}

void World::cordon(const std::string& name, const std::string& causes) {
  Node* at = node(name);
  if (at == nullptr) return;
  constexpr std::string_view kCordonedBy = "quartermaster.dev/cordoned-by";
  const std::string ours = kube::annotation(at->body, kCordonedBy);
  const bool cordoned = at->body.path("spec.unschedulable").boolean();
  if (causes.empty() ? ours.empty() : (cordoned && (ours == causes || ours.empty()))) return;
  at->body.set("metadata").set("annotations").set(kCordonedBy, causes.empty() ? Json() : Json(causes));
  at->body.set("spec").set("unschedulable", causes.empty() ? Json() : Json(true));
  publish_node(*at);
}

void World::release_node(const std::string& name) {
  const auto it = nodes.find(name);
  if (it == nodes.end()) return;
  const Json last = it->second.body;
  nodes.erase(it);
  changed(Kind::kNode, name, last, true);
}

// ---- the cloud ----

Result<std::string> World::launch(const std::string& token, const std::string& pool, const std::string& type,
                                  const std::string& zone, bool spot, const Labels& labels) {
  if (!token.empty() && bug_ != Bug::kLaunchTwice) {
    for (const auto& [id, instance] : instances) {
      if (instance.claim == token) return id;
    }
  }
  if (no_capacity && !token.empty()) {
    return fail(Error{Code::kExhausted, "there is no capacity for " + type, "capacity", {}});
  }
  Instance instance;
  const std::string n = number("");
  instance.id = "i-" + n;
  instance.claim = token;
  instance.pool = pool;
  instance.type = type;
  instance.zone = zone.empty() ? "us-east-1a" : zone;
  instance.node = "ip-10-0-0-" + n + ".ec2.internal";
  instance.spot = spot;
  instance.labels = labels;
  instance.launched = whole_second(now_);
  instance.visible = now_ + milliseconds(random_.between(0, 15'000));
  instance.register_at = now_;
  if (!token.empty()) instance.register_at += milliseconds(random_.between(in_ms(boot.first), in_ms(boot.second)));
  for (const auto& [id, other] : instances) {
    if (!token.empty() && other.claim == token)
      broken(fmt::format("claim {} has instances {} and {}", token, id, instance.id));
  }
  const std::string id = instance.id;
  instances.emplace(id, std::move(instance));
  return id;
}

std::string World::add_static(const std::string& type, MigMode cut) {
  const bool later = cut == MigMode::kOnRequest;
  const std::string id = *launch("", "", type, "us-east-1a", false,
                                 later ? Labels{{std::string(words::kNodePool), kLayoutPool}} : Labels{});
  instances.at(id).sliced = cut == MigMode::kFromStart;
  instances.at(id).cuttable = later;
  return id;
}

void World::stop_instance(Instance& instance) {
  if (instance.stopped) return;
  instance.stopped = whole_second(now_);
  instance.vanish_at = now_ + milliseconds(random_.between(2000, 40'000));
  if (Node* at = node(instance.node)) {
    at->alive = false;
    publish_node(*at);
  }
}

bool World::terminate(const std::string& id) {
  const auto it = instances.find(id);
  if (it == instances.end()) return false;
  const auto at = nodes.find(it->second.node);
  const bool taken = it->second.taken_at.has_value();
  if (at != nodes.end() && !it->second.stopped && at->second.alive && at->second.ready && !taken) {
    for (const auto& [uid, pod] : pods) {
      if (pod.node == at->first && pod.phase == Pod::Phase::kRunning && !pod.deleting) {
        broken(fmt::format("instance {} is terminated while pod {} runs on it", id, pod.name));
      }
    }
  }
  stop_instance(it->second);
  return true;
}

Json World::describe() const {
  Json list = Json::array();
  for (const auto& [id, i] : instances) {
    if (i.visible > now_) continue;
    list.push_back(Json::object({{"id", i.id},
                                 {"claim", i.claim},
                                 {"pool", i.pool},
                                 {"type", i.type},
                                 {"zone", i.zone},
                                 {"spot", i.spot},
                                 {"node", i.node},
                                 {"launched_us", micros(i.launched)},
                                 {"stopped_us", i.stopped ? micros(*i.stopped) : 0}}));
  }
  return list;
}

void World::run_instances() {
  for (auto& [id, i] : instances) {
    if (i.taken_at && *i.taken_at <= now_ && !i.stopped) stop_instance(i);
    if (i.stopped) {
      if (i.vanish_at <= now_) release_node(i.node);
      continue;
    }
    if (i.registered || i.register_at > now_) continue;
    i.registered = true;
    Node node;
    node.name = i.node;
    node.instance = id;
    node.sliced = i.sliced;
    node.cuttable = i.cuttable;
    Json labels = Json::object({{std::string(words::kInstanceType), i.type},
                                {std::string(words::kZone), i.zone},
                                {std::string(words::kCapacityType), i.spot ? "spot" : "on-demand"},
                                {std::string(words::kGpuProduct), "NVIDIA-H100-80GB-HBM3"},
                                {std::string(words::kGpuCount), "8"}});
    if (!i.pool.empty()) labels.set(words::kNodePool, i.pool);
    for (const auto& [key, value] : i.labels) labels.set(key, value);
    node.body = Json::object(
        {{"metadata", Json::object({{"name", i.node}, {"uid", "node-uid-" + id}, {"labels", std::move(labels)}})},
         {"spec", Json::object({{"providerID", "aws:///" + i.zone + "/" + id}})},
         {"status", Json::object({{"allocatable", Json::object({{"cpu", std::to_string(kCpuOfANode)},
                                                                {"memory", "2000Gi"},
                                                                {"pods", "110"},
                                                                {std::string(words::kGpuResource), "8"}})}})}});
    if (i.sliced) {
      node.body.set("status").set("allocatable").set(words::kGpuResource, std::to_string(8 - kSlicedGpus));
      node.body.set("status").set("allocatable").set(kSlice, std::to_string(kSlicedGpus * kSlicesOfAGpu));
    }
    publish_node(nodes.emplace(i.node, std::move(node)).first->second);
  }
  for (auto& [name, node] : nodes) {
    if (!node.layout.empty() && node.cut_at <= now_ && node.ready && node.alive) partition_gpus(node);
    if (node.ready || node.back_at > now_ || !node.alive) continue;
    node.ready = true;
    // The kubelet first handles what it missed; running pods continue.
    for (auto& [uid, pod] : pods) {
      if (pod.node == name && pod.deleting) pod.gone_at = now_;
    }
    run_pods();
    publish_node(node);
  }
}

// ---- mig-manager ----

void World::label_layout(const std::string& name, const std::string& layout) {
  Node* at = node(name);
  if (at == nullptr) return;
  Json& labels = at->body.set("metadata").set("labels");
  if (labels["nvidia.com/mig.config"].string() == layout) return;
  labels.set("nvidia.com/mig.config", layout);
  labels.erase("nvidia.com/mig.config.state");
  at->layout = layout;
  at->cut_at = now_ + milliseconds(random_.between(2000, 40'000));
  publish_node(*at);
}

void World::partition_gpus(Node& node) {
  for (const auto& [uid, pod] : pods) {
    if (pod.node == node.name && !pod.terminal() && pod.gpus + pod.slices > 0)
      broken(fmt::format("the MIG layout of {} changes under pod {}", node.name, pod.name));
  }
  node.sliced = std::exchange(node.layout, {}) == kLayout;
  const int cut = node.sliced ? kSlicedGpus : 0;
  Json& room = node.body.set("status").set("allocatable");
  room.set(words::kGpuResource, std::to_string(8 - cut));
  room.set(kSlice, std::to_string(cut * kSlicesOfAGpu));
  node.body.set("metadata").set("labels").set("nvidia.com/mig.config.state", "success");
  ++layouts;
  publish_node(node);
}

void World::advance(Instant now) {
  for (auto& [name, node] : nodes) {
    if (node.ready) continue;
    for (auto& [uid, pod] : pods) {
      if (pod.node == name && pod.phase == Pod::Phase::kRunning) pod.started = now;  // it makes no progress
    }
  }
  now_ = now;
  std::erase_if(zombies, [&](const Pod& pod) { return pod.gone_at <= now_; });
  run_instances();
  run_pods();
  std::vector<std::string> due;
  for (const auto& [uid, job] : jobs) {
    if (job.sync && job.sync_at <= now_) due.push_back(uid);
  }
  for (const auto& uid : due) control(jobs.at(uid));
  check();
}

// ---- the laws ----

void World::check() {
  std::map<std::pair<std::string, int>, const Pod*> devices;
  std::map<std::pair<std::string, std::pair<int, int>>, const Pod*> cut;
  std::map<std::string, int> cpu;  // requested, by node
  struct Lives {
    std::set<int> attempts;
    int bound = 0, unbound = 0;
  };
  std::map<std::string, Lives> lives;
  std::vector<const Pod*> all;
  for (const auto& [uid, pod] : pods) all.push_back(&pod);
  for (const auto& pod : zombies) all.push_back(&pod);
  for (const Pod* each : all) {
    const Pod& pod = *each;
    if (pod.terminal() || pod.forged) continue;
    if (!pod.node.empty()) {
      for (const int index : pod.devices) {
        const auto [other, first] = devices.emplace(std::pair(pod.node, index), &pod);
        if (!first) {
          broken(fmt::format("GPU {} of {} serves {} (attempt {}) and {} (attempt {})", index, pod.node,
                             other->second->name, other->second->attempt, pod.name, pod.attempt));
        }
        const bool sliced = nodes.contains(pod.node) && nodes.at(pod.node).sliced && index < kSlicedGpus;
        if (index < 0 || index > 7 || sliced) broken(fmt::format("pod {} has GPU {}", pod.name, index));
      }
      for (const auto& instance : pod.instances) {
        const auto [other, first] = cut.emplace(std::pair(pod.node, instance), &pod);
        if (!first)
          broken(fmt::format("instance {} of GPU {} of {} serves {}/{} and {}/{}", instance.second, instance.first,
                             pod.node, other->second->ns, other->second->name, pod.ns, pod.name));
      }
      if (const int asked = cpu[pod.node] += pod.cpu; asked > kCpuOfANode)
        broken(fmt::format("the pods of {} ask for {} CPUs of {}", pod.node, asked, kCpuOfANode));
    }
    Lives& life = lives[pod.job];
    if (pod.phase == Pod::Phase::kRunning && kubelet(pod.node)) life.attempts.insert(pod.attempt);
    pod.node.empty() ? ++life.unbound : ++life.bound;
  }
  for (const auto& [uid, life] : lives) {
    Job& job = jobs.at(uid);
    if (life.attempts.size() > 1) {
      broken(fmt::format("job {} runs attempts {} and {} at once", job.name, *life.attempts.begin(),
                         *life.attempts.rbegin()));
    }
    const bool partial = life.bound > 0 && life.bound + static_cast<int>(job.succeeded.size()) < job.least;
    if (!partial) {
      job.partial_since = {};
    } else if (job.partial_since == Instant{}) {
      job.partial_since = now_;
    } else if (job.partial_since + std::chrono::minutes(20) < now_) {
      broken(fmt::format("job {} holds {} of {} places for 20 minutes", job.name, life.bound, job.least));
    }
  }
}

}  // namespace qm::sim
