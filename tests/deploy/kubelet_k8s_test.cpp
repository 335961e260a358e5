#include "kubelet.hpp"
#include "qm/base/time.hpp"
#include "qm/http/http.hpp"
#include "qm/testing/testing.hpp"
#include "relay.hpp"
#include "view.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <fstream>
#include <map>
#include <mutex>
#include <thread>

namespace qm::deploy {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
const kube::Resource kServices{"", "v1", "services", true};
const kube::Resource kLeasesOfNodes{"coordination.k8s.io", "v1", "leases", true};
constexpr auto kLook = 100ms;
constexpr auto kHeartbeat = 10s;
/// A real proxy is notified of the end of a pod later than the pod itself.
constexpr auto kLeaves = 300ms;
constexpr auto kProbeTimeout = 500ms;

std::string now_text(bool micro = false) {
  const auto now =
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch());
  const auto text = to_rfc3339(from_micros(now.count() / 1'000'000 * 1'000'000));
  return micro ? text.substr(0, 19) + fmt::format(".{:06}Z", now.count() % 1'000'000) : text.substr(0, 19) + "Z";
}

struct Container {
  Json spec;
  std::unique_ptr<testing::Process> process;
  std::string began, log;
  std::optional<int> exit;
  bool ready = false, signaled = false;
  std::optional<Clock::time_point> unwell;  ///< since when the probe fails
  int restarts = 0;

  /// Ready at the first success; not ready after as many consecutive failures as the probe specifies.
  void probed(bool well) {
    const Json& probe = spec["readinessProbe"];
    if (well) {
      unwell.reset();
      ready = true;
      return;
    }
    if (!unwell) unwell = Clock::now();
    const auto patience =
        std::chrono::seconds((probe["failureThreshold"].integer(3) - 1) * probe["periodSeconds"].integer(10));
    if (Clock::now() - *unwell >= patience) ready = false;
  }
};

struct Pod {
  Json object;
  View view;
  std::vector<Container> containers;
  bool prepared = false;
  std::optional<Clock::time_point> signaled;
  std::string written;  ///< the status as it was last sent, without times

  [[nodiscard]] bool ready() const {
    return prepared && !containers.empty() && std::ranges::all_of(containers, &Container::ready);
  }
  [[nodiscard]] bool serves() const { return ready() && (!signaled || Clock::now() - *signaled < kLeaves); }
  [[nodiscard]] std::string component() const { return kube::label(object, "app.kubernetes.io/component"); }
};

/// A port of a container by its name or number.
int port_of(const Json& containers, const Json& wanted) {
  if (wanted.is_number()) return static_cast<int>(wanted.integer());
  for (const Json& container : containers.items()) {
    for (const Json& port : container["ports"].items()) {
      if (port["name"].string() == wanted.string()) return static_cast<int>(port["containerPort"].integer());
    }
  }
  return 0;
}

}  // namespace

struct Kubelet::Impl {
  Impl(kube::ClientOptions server, std::string node_name, std::string ns_name)
      : options(server), client(std::move(server)), node(std::move(node_name)), ns(std::move(ns_name)) {}

  kube::ClientOptions options;
  kube::Client client;
  const std::string node, ns;
  testing::TempDir folder;
  mutable std::recursive_mutex mutex;
  std::map<std::string, Pod> pods;              ///< by uid
  std::map<std::string, std::string> services;  ///< addresses, by name
  std::map<std::string, Json> seen_services;    ///< by name
  std::mutex serving_mutex;
  std::map<std::string, std::vector<std::string>> serving;   ///< pods that serve, by "service:port"
  std::map<std::string, std::size_t> turn;                   ///< next pod of a Service
  std::map<std::string, std::vector<std::string>> reported;  ///< log files by component
  std::vector<std::unique_ptr<Relay>> relays;
  std::map<std::string, bool> relayed;
  int next_pod = 1, next_service = 1;
  Clock::time_point beat{};
  std::condition_variable_any wake;
  std::jthread thread;

  Status begin() {
    const auto room = Json::object({{"cpu", "96"}, {"memory", "1Ti"}, {"pods", "110"}});
    const auto labels = Json::object({{"kubernetes.io/hostname", node},
                                      {"kubernetes.io/os", "linux"},
                                      {"quartermaster.dev/processes", "true"},
                                      {"nvidia.com/gpu.present", "true"}});
    QM_TRY(client.create(kube::resources::kNodes, "",
                         Json::object({{"metadata", Json::object({{"name", node}, {"labels", labels}})},
                                       {"status", Json::object({{"capacity", room}, {"allocatable", room}})}})));
    return heartbeat();
  }

  Status heartbeat() {
    beat = Clock::now();
    const auto now = now_text();
    const Json ready = Json::object({{"type", "Ready"},
                                     {"status", "True"},
                                     {"reason", "KubeletReady"},
                                     {"message", "processes run"},
                                     {"lastHeartbeatTime", now},
                                     {"lastTransitionTime", now}});
    QM_TRY(client.merge_patch(kube::resources::kNodes, "", node,
                              Json::object({{"status", Json::object({{"conditions", Json::array({ready})}})}}),
                              "status"));
    const Json spec =
        Json::object({{"holderIdentity", node}, {"leaseDurationSeconds", 40}, {"renewTime", now_text(true)}});
    const Json lease = Json::object({{"metadata", Json::object({{"name", node}})}, {"spec", spec}});
    const auto made = client.create(kLeasesOfNodes, "kube-node-lease", lease);
    if (made) return {};
    QM_TRY(client.merge_patch(kLeasesOfNodes, "kube-node-lease", node, Json::object({{"spec", spec}})));
    return {};
  }

  std::string address_of(const std::string& service) {
    const std::lock_guard lock(mutex);
    auto& address = services[service];
    if (address.empty()) address = fmt::format("127.{}.1.{}", network(), next_service++);
    return address;
  }
  /// One of a hundred loopback networks, so that concurrent runs do not conflict.
  static int network() { return 100 + ::getpid() % 100; }

  /// The next ready pod of the Service, in turn. Never waits: a connection times out after a second.
  std::string pick(const std::string& service, const std::string& port) {
    const std::lock_guard lock(serving_mutex);
    const auto& there = serving[service + ":" + port];
    return there.empty() ? std::string() : there[turn[service]++ % there.size()];
  }

  void note_ends() {
    std::map<std::string, std::vector<std::string>> found;
    for (const auto& [name, service] : seen_services) {
      const Json& selector = service["spec"]["selector"];
      for (const auto& [uid, pod] : pods) {
        const bool fits = std::ranges::all_of(selector.members(), [&](const auto& one) {
          return kube::label(pod.object, one.first) == one.second.string();
        });
        if (!fits || selector.size() == 0 || !pod.serves()) continue;
        for (const Json& port : service["spec"]["ports"].items()) {
          found[name + ":" + port["name"].string()].push_back(
              fmt::format("{}:{}", pod.view.address, port_of(pod.object["spec"]["containers"], port["targetPort"])));
        }
      }
    }
    const std::lock_guard lock(serving_mutex);
    serving = std::move(found);
  }

  void look_at_services() {
    const auto found = client.list(kServices, ns);
    if (!found) return;
    const std::lock_guard lock(mutex);
    for (const Json& service : found->items) {
      const auto name = kube::name_of(service);
      seen_services[name] = service;
      for (const Json& port : service["spec"]["ports"].items()) {
        const int number = static_cast<int>(port["port"].integer());
        auto& has = relayed[fmt::format("{}:{}", name, number)];
        if (has) continue;
        auto relay = Relay::open(address_of(name), number,
                                 [this, name, named = port["name"].string()] { return pick(name, named); });
        if (relay) relays.push_back(std::move(*relay));
        has = relay.has_value();
      }
    }
  }

  Names names() {
    Names out;
    for (const auto& [name, service] : seen_services) out[name] = address_of(name);
    return out;
  }

  void begin_pod(Pod& pod) {
    const auto uid = kube::uid_of(pod.object);
    pod.view.folder = folder.path() + "/" + uid;
    if (pod.view.address.empty()) {
      pod.view.address = fmt::format("127.{}.{}.{}", network(), 2 + next_pod / 250, 1 + next_pod % 250);
      ++next_pod;
    }
    pod.view.node = node;
    if (!pod.view.fill(client, pod.object, names())) return;  // a Secret does not exist yet: retried at the next step
    for (const Json& spec : pod.object["spec"]["containers"].items()) {
      Container container;
      container.spec = spec;
      container.log = fmt::format("{}/{}.{}.log", folder.path(), kube::name_of(pod.object), spec["name"].string());
      reported[pod.component()].push_back(container.log);
      pod.containers.push_back(std::move(container));
    }
    pod.prepared = true;
  }

  void run(Pod& pod, Container& container) {
    const auto script = pod.view.script(client, pod.object, container.spec, options);
    if (!script) return;
    auto made = testing::Process::start({{"unshare", "--mount", "--", "sh", *script}, {}, container.log});
    if (!made) return;
    container.process = std::move(*made);
    container.began = now_text();
    container.exit.reset();
  }

  bool answers(const Pod& pod, const Json& probe) const {
    const Json& get = probe["httpGet"];
    if (get.is_null()) return true;
    http::ClientOptions asks;
    asks.connect_timeout = asks.timeout = kProbeTimeout;
    http::Client at(
        fmt::format("http://{}:{}", pod.view.address, port_of(pod.object["spec"]["containers"], get["port"])), asks);
    http::Request request;
    request.target = get["path"].string();
    const auto answer = at.send(request);
    return answer && answer->status < 400;
  }

  void turn_of(Pod& pod) {
    const bool ends = !pod.object.path("metadata.deletionTimestamp").is_null();
    const bool over = pod.object["spec"]["restartPolicy"].string() == "Never";
    if (!pod.prepared && !ends) begin_pod(pod);
    if (ends && !pod.signaled) pod.signaled = Clock::now();
    for (auto& container : pod.containers) {
      const auto first = std::chrono::seconds(container.spec.path("lifecycle.preStop.sleep.seconds").integer(0));
      if (!pod.signaled || container.signaled || Clock::now() - *pod.signaled < first) continue;
      container.signaled = true;
      if (container.process && container.process->running()) container.process->signal(SIGTERM);
    }
    const auto grace = std::chrono::seconds(pod.object["spec"]["terminationGracePeriodSeconds"].integer(30));
    bool runs = false;
    for (auto& container : pod.containers) {
      if (container.process && !container.process->running()) {
        container.exit = container.process->wait(0ms).value_or(-1);
        container.process.reset();
        container.ready = false;
        if (!over && !ends) ++container.restarts;
      }
      if (!container.process && !ends && !(over && container.exit)) run(pod, container);
      if (!container.process) continue;
      runs = true;
      if (pod.signaled && Clock::now() - *pod.signaled > grace) container.process->signal(SIGKILL);
      if (!ends) container.probed(answers(pod, container.spec["readinessProbe"]));
    }
    if (ends && !runs) {
      kube::Client::DeleteOptions now;
      now.uid = kube::uid_of(pod.object);
      now.grace_seconds = 0;
      (void)client.remove(kube::resources::kPods, ns, kube::name_of(pod.object), now);
      return;
    }
    tell(pod, over);
  }

  void tell(Pod& pod, bool over) {
    if (!pod.prepared) return;
    const bool done = over && std::ranges::all_of(pod.containers, [](const auto& c) { return c.exit.has_value(); });
    const bool well = std::ranges::all_of(pod.containers, [](const auto& c) { return c.exit.value_or(0) == 0; });
    std::string print = fmt::format("{} {} {}", done, well, pod.signaled.has_value());
    Json containers = Json::array();
    for (const auto& c : pod.containers) {
      Json state = c.process ? Json::object({{"running", Json::object({{"startedAt", c.began}})}})
                   : c.exit  ? Json::object({{"terminated", Json::object({{"exitCode", *c.exit}})}})
                             : Json::object({{"waiting", Json::object({{"reason", "ContainerCreating"}})}});
      containers.push_back(Json::object({{"name", c.spec["name"]},
                                         {"image", c.spec["image"]},
                                         {"imageID", ""},
                                         {"ready", c.ready},
                                         {"started", c.process != nullptr},
                                         {"restartCount", c.restarts},
                                         {"state", std::move(state)}}));
      print += fmt::format(" {}{}{}{}", c.ready, c.process != nullptr, c.restarts, c.exit.value_or(-9));
    }
    if (print == pod.written) return;
    Json conditions = Json::array();
    for (const char* type : {"PodScheduled", "Initialized", "PodReadyToStartContainers", "ContainersReady", "Ready"}) {
      const bool about_ready = std::string(type).ends_with("Ready");
      conditions.push_back(Json::object({{"type", type},
                                         {"status", !about_ready || (pod.ready() && !done) ? "True" : "False"},
                                         {"lastTransitionTime", now_text()}}));
    }
    // The API does not allow a loopback address for a pod.
    const std::string ip = "10" + pod.view.address.substr(3);
    const auto updated = client.merge_patch(
        kube::resources::kPods, ns, kube::name_of(pod.object),
        Json::object({{"status", Json::object({{"phase", done ? (well ? "Succeeded" : "Failed") : "Running"},
                                               {"podIP", ip},
                                               {"podIPs", Json::array({Json::object({{"ip", ip}})})},
                                               {"startTime", now_text()},
                                               {"conditions", std::move(conditions)},
                                               {"containerStatuses", std::move(containers)}})}}),
        "status");
    if (updated) pod.written = print;
  }

  void look() {
    if (Clock::now() - beat > kHeartbeat) (void)heartbeat();
    kube::ListOptions ask;
    ask.field_selector = "spec.nodeName=" + node;
    const auto found = client.list(kube::resources::kPods, ns, ask);
    if (!found) return;
    look_at_services();
    const std::lock_guard lock(mutex);
    std::map<std::string, bool> there;
    for (const Json& object : found->items) {
      auto& pod = pods[kube::uid_of(object)];
      pod.object = object;
      there[kube::uid_of(object)] = true;
    }
    std::erase_if(pods, [&](const auto& one) { return !there.contains(one.first); });
    for (auto& [uid, pod] : pods) {
      turn_of(pod);
      note_ends();
    }
    note_ends();
  }
};

Kubelet::Kubelet(kube::ClientOptions server, std::string node, std::string ns)
    : impl_(std::make_unique<Impl>(std::move(server), std::move(node), std::move(ns))) {
  const auto begun = impl_->begin();
  EXPECT_TRUE(begun) << begun.error().to_string();
  impl_->thread = std::jthread([this](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      impl_->look();
      std::mutex alone;
      std::unique_lock lock(alone);
      impl_->wake.wait_for(lock, stop, kLook, [] { return false; });
    }
  });
}

Kubelet::~Kubelet() {
  impl_->thread = {};
  impl_->relays.clear();
  impl_->pods.clear();
  (void)impl_->client.remove(kube::resources::kNodes, "", impl_->node, {});
  (void)impl_->client.remove(kLeasesOfNodes, "kube-node-lease", impl_->node, {});
}

std::string Kubelet::why_not() {
  static const std::string why = [] {
    const testing::TempDir dir;
    const auto mounts = testing::Process::start(
        {{"unshare", "--mount", "sh", "-c", "mount -t tmpfs none " + dir.path()}, {}, dir.path() + "/said"});
    if (!mounts || (*mounts)->wait(10s) != 0)
      return std::string("processes get files of their own by a mount namespace, which takes root");
    return std::string();
  }();
  return why;
}

std::string Kubelet::address_of(const std::string& service) { return impl_->address_of(service); }

std::vector<Kubelet::Seen> Kubelet::pods(const std::string& component) const {
  const std::lock_guard lock(impl_->mutex);
  std::vector<Seen> out;
  for (const auto& [uid, pod] : impl_->pods) {
    if (!component.empty() && pod.component() != component) continue;
    Seen seen{
        kube::name_of(pod.object), pod.component(), pod.view.address, 0, pod.ready(), pod.signaled.has_value(), 0};
    if (!pod.containers.empty()) {
      const auto& first = pod.containers.front();
      seen.pid = first.process ? static_cast<int>(first.process->pid()) : 0;
      seen.restarts = first.restarts;
    }
    out.push_back(std::move(seen));
  }
  return out;
}

void Kubelet::signal(const std::string& pod, int number) {
  const std::lock_guard lock(impl_->mutex);
  for (auto& [uid, one] : impl_->pods) {
    if (kube::name_of(one.object) != pod || one.containers.empty() || !one.containers.front().process) continue;
    one.containers.front().process->signal(number);
  }
}

std::string Kubelet::logs(const std::string& component) const {
  const std::lock_guard lock(impl_->mutex);
  std::string out;
  for (const auto& file : impl_->reported[component]) out += "---- " + file + "\n" + testing::read_file(file);
  return out;
}

Kubelet::Ran Kubelet::exec(const Json& pod, const std::vector<std::string>& argv) {
  static std::atomic<int> number = 0;
  View view;
  view.folder = fmt::format("{}/exec-{}", impl_->folder.path(), ++number);
  view.node = impl_->node;
  view.address = "127.0.0.1";
  Names names;
  {
    const std::lock_guard lock(impl_->mutex);
    names = impl_->names();
  }
  if (const auto filled = view.fill(impl_->client, pod, names); !filled) return {-1, filled.error().to_string()};
  Json container = pod["spec"]["containers"].at(0);
  Json command = Json::array();
  for (const auto& word : argv) command.push_back(word);
  container.set("command", std::move(command)).erase("args");
  const auto script = view.script(impl_->client, pod, container, impl_->options);
  if (!script) return {-1, script.error().to_string()};
  const auto log = view.folder + ".log";
  auto made = testing::Process::start({{"unshare", "--mount", "--", "sh", *script}, {}, log});
  if (!made) return {-1, made.error().to_string()};
  const auto code = (*made)->wait(60s);
  return {code.value_or(-1), testing::read_file(log)};
}

}  // namespace qm::deploy
