// Requests of pods of a template, computed from the template, LimitRanges and RuntimeClasses, and compared with what
// a real API server stores: the pods are created there as a dry run.
#include "qm/admission/translate/translate.hpp"
#include "qm/admission/watch/pod_defaults.hpp"
#include "qm/config/manifest.hpp"
#include "qm/config/requests.hpp"
#include "qm/http/http.hpp"
#include "qm/kube/client.hpp"
#include "qm/model/pod_resources.hpp"
#include "qm/testing/testing.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <set>
#include <unistd.h>

namespace qm::admission {
namespace pod_resources_k8s_test {

using namespace std::chrono_literals;

const kube::Resource kNamespaces{"", "v1", "namespaces", false};
const kube::Resource kLimitRanges{"", "v1", "limitranges", true};
const kube::Resource kRuntimeClasses{"node.k8s.io", "v1", "runtimeclasses", false};
constexpr int kTemplates = 500;  ///< number of templates that the API server accepts

std::string setting(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

Json json(const std::string& text) {
  auto read = Json::parse(text);
  EXPECT_TRUE(read) << text;
  return read ? *read : Json();
}

/// LimitRanges by namespace. The order of two with a default for one resource is undefined.
const std::vector<std::vector<const char*>> kRanges = {
    {},
    {R"([{"type":"Container","default":{"cpu":"2","memory":"2Gi"},"defaultRequest":{"cpu":"1"}}])"},
    {R"([{"type":"Container","defaultRequest":{"cpu":"100m","memory":"64Mi","ephemeral-storage":"1G"}}])"},
    {R"([{"type":"Container","default":{"memory":"5Gi"},"max":{"cpu":"8"}}])"},
    {R"([{"type":"Container","min":{"cpu":"1m","memory":"1"},"default":{"example.com/dongle":"1"}}])"},
    {R"([{"type":"Container","default":{"cpu":"4500m"}},{"type":"Pod","max":{"cpu":"90"},"min":{"cpu":"1m"}}])"},
    {R"([{"type":"Container","default":{"cpu":"5"},"defaultRequest":{"cpu":"1500u"}}])",
     R"([{"type":"Container","default":{"memory":"5000000000500m"},"defaultRequest":{"memory":"0.25"}}])"},
    {R"([{"type":"Container","default":{"cpu":"6"},"defaultRequest":{"cpu":"3"},"maxLimitRequestRatio":{"cpu":"5000"}}])"}};
const std::vector<const char*> kOverheads = {R"({"cpu":"250m"})", R"({"cpu":"1500u","memory":"120Mi"})"};
const std::vector<const char*> kSchedulings = {
    R"({"nodeSelector":{"disk":"ssd"},"tolerations":[{"key":"t0","operator":"Exists","effect":"NoSchedule"}]})",
    R"({"nodeSelector":{"disk":"hdd","runtime":"x"},"tolerations":[{"key":"t1","operator":"Equal","value":"v","effect":"NoExecute"}]})"};

/// Random pod specs. Specs that the API server always refuses are left out: requests above limits,
/// devices without limits.
class Templates {
 public:
  explicit Templates(std::string classes) : classes_(std::move(classes)) {}

  Json next() {
    Json spec = json(R"({"containers":[],"restartPolicy":"Never"})");
    for (int i = upto(3); i >= 0; --i) spec.set("containers").push_back(container("c", i));
    for (int i = upto(4) - 1; i >= 0; --i) {
      auto made = container("i", i);
      if (chance(40)) made.set("restartPolicy", "Always");
      spec.set("initContainers").push_back(std::move(made));
    }
    if (chance(40)) as_a_whole(spec);
    if (const int kind = upto(3); kind > 0) spec.set("runtimeClassName", classes_ + std::to_string(kind - 1));
    if (chance(30)) spec.set("nodeSelector").set("disk", chance(70) ? "ssd" : "hdd");
    if (chance(30)) spec.set("nodeSelector").set("zone", "a");
    if (chance(30))
      spec.set("tolerations").push_back(json(R"({"key":"t0","operator":"Exists","effect":"NoSchedule"})"));
    if (chance(30)) spec.set("tolerations").push_back(json(R"({"key":"own","operator":"Exists"})"));
    return spec;
  }

 private:
  using Steps = std::vector<const char*>;  // in ascending order

  int upto(int end) { return static_cast<int>(draw_() % static_cast<unsigned>(end)); }
  bool chance(int percent) { return upto(100) < percent; }

  void amounts(Json& resources, const char* name, const Steps& steps) {
    const int low = upto(static_cast<int>(steps.size()));
    const int high = low + upto(static_cast<int>(steps.size()) - low);
    if (chance(50)) resources.set("requests").set(name, steps[static_cast<std::size_t>(low)]);
    if (chance(40)) resources.set("limits").set(name, steps[static_cast<std::size_t>(high)]);
  }
  void devices(Json& resources, const char* name, const char* amount) {
    if (!chance(25)) return;
    resources.set("limits").set(name, amount);
    if (chance(30)) resources.set("requests").set(name, amount);
  }
  Json container(const char* stem, int number) {
    static const Steps cpu = {"0", "1m", "1500u", "0.01", "100m", "0.25", "1", "1.5", "2e0", "3", "4"};
    static const Steps memory = {"0", "1", "1500m", "2k", "1Mi", "129e6", "130M", "0.5Gi", "1.5Gi", "2G", "4Gi"};
    Json out = json(R"({"image":"x","resources":{}})");
    out.set("name", stem + std::to_string(number));
    Json& resources = out.set("resources");
    amounts(resources, "cpu", cpu);
    amounts(resources, "memory", memory);
    if (chance(30)) amounts(resources, "ephemeral-storage", memory);
    devices(resources, "nvidia.com/gpu", "2");
    devices(resources, "example.com/dongle", "3");
    if (resources["requests"].contains("cpu")) devices(resources, "hugepages-2Mi", "6Mi");
    return out;
  }
  void as_a_whole(Json& spec) {
    Json& resources = spec.set("resources");
    resources = Json::object();
    static const Steps cpu = {"40", "50500m", "60", "80"}, memory = {"40Gi", "50.5Gi", "80G", "100Gi"};
    amounts(resources, "cpu", cpu);
    amounts(resources, "memory", memory);
    if (chance(20)) resources.set("limits").set("hugepages-2Mi", "60Mi");
  }

  std::mt19937 draw_{20261121};
  std::string classes_;
};

std::map<std::string, std::string> members_of(const Json& object) {
  std::map<std::string, std::string> out;
  for (const auto& [key, value] : object.members()) out[key] = value.string();
  return out;
}
/// In any order; without those that the API server adds to every pod.
std::multiset<std::string> items_of(const Json& tolerations) {
  std::multiset<std::string> out;
  for (const auto& one : tolerations.items()) {
    if (one["key"].string().starts_with("node.kubernetes.io/")) continue;
    out.insert(fmt::format("{}/{}/{}/{}", one["key"].string(), one["operator"].string(), one["value"].string(),
                           one["effect"].string()));
  }
  return out;
}

using Milli = std::map<std::string, std::int64_t>;

void add(Milli& to, const Milli& more) {
  for (const auto& [name, amount] : more) to[name] += amount;
}
Milli in_milli(const Json& list) {
  Milli out;
  for (const auto& [name, amount] : list.members()) out[name] = Quantity::parse(amount.string()).value().milli();
  return out;
}
Milli in_milli(const PodResources::Amounts& amounts) {
  Milli out;
  for (const auto& [name, amount] : amounts) out[name] = amount.milli();
  return out;
}
Milli without_zeros(Milli from) {
  std::erase_if(from, [](const auto& entry) { return entry.second == 0; });
  return from;
}

/// PodRequests and PodLimits of Kubernetes, for a stored pod.
Milli total(const Json& spec, const char* side) {
  Milli sum, sidecars, peak;
  for (const auto& container : spec["containers"].items()) add(sum, in_milli(container["resources"][side]));
  for (const auto& container : spec["initContainers"].items()) {
    Milli now = in_milli(container["resources"][side]);
    const bool stays = container["restartPolicy"].string() == "Always";
    if (stays) add(sum, now);
    add(now, sidecars);
    for (const auto& [name, amount] : now) peak[name] = std::max(peak[name], amount);
    if (stays) sidecars = now;
  }
  for (const auto& [name, amount] : peak) sum[name] = std::max(sum[name], amount);
  for (const auto& [name, amount] : in_milli(spec["resources"][side])) sum[name] = amount;
  for (const auto& [name, amount] : in_milli(spec["overhead"])) {
    if (side == std::string("requests") || sum[name] > 0) sum[name] += amount;
  }
  return without_zeros(sum);
}

class RealPodResources : public ::testing::Test {
 protected:
  void SetUp() override {
    if (setting("QM_KUBE_URL").empty()) GTEST_SKIP() << "no Kubernetes: run ./qm peers kubernetes";
    kube::ClientOptions options;
    options.server = setting("QM_KUBE_URL");
    options.token = setting("QM_KUBE_TOKEN");
    options.ca_file = setting("QM_KUBE_CA");
    client_ = std::make_unique<kube::Client>(options);
    http::ClientOptions raw;
    raw.ca_file = options.ca_file;
    http_ = std::make_unique<http::Client>(options.server, raw);
  }
  void TearDown() override {
    for (const auto& [resource, name] : made_) EXPECT_TRUE(client_->remove(resource, "", name, {})) << name;
  }

  void make(const kube::Resource& resource, const std::string& name, Json object) {
    object.set("metadata").set("name", name);
    const auto made = client_->create(resource, "", object);
    ASSERT_TRUE(made) << name << ": " << made.error().to_string();
    made_.emplace_back(resource, name);
  }

  http::Response dry_run(const std::string& ns, const Json& spec) {
    http::Request request;
    request.method = "POST";
    request.target = kube::resources::kPods.path(ns) + "?dryRun=All";
    request.headers.set("Authorization", "Bearer " + setting("QM_KUBE_TOKEN"));
    request.headers.set("Content-Type", "application/json");
    auto pod = json(R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"probe"}})");
    pod.set("spec", spec);
    request.body = pod.dump();
    auto answer = http_->send(request);
    return answer ? std::move(*answer) : http::Response{};
  }

  /// Whether the API server applies these defaults already; its cache of LimitRanges lags for a moment.
  bool has_defaults(const std::string& ns, const Json& wanted) {
    const auto answer = dry_run(ns, json(R"({"containers":[{"name":"c","image":"x","resources":{"limits":{
        "memory":"1Gi"}}}]})"));
    const auto pod = Json::parse(answer.body).value_or(Json());
    if (answer.status != 201) return false;
    return std::ranges::all_of(wanted.members(), [&](const Json::Member& member) {
      return pod["spec"]["containers"].at(0)["resources"]["requests"].contains(member.first);
    });
  }

  std::unique_ptr<kube::Client> client_;
  std::unique_ptr<http::Client> http_;
  std::vector<std::pair<kube::Resource, std::string>> made_;
};

TEST_F(RealPodResources, TemplateSumsEqualThoseOfStoredPods) {
  const auto stem = "sums-" + std::to_string(::getpid());
  for (std::size_t i = 0; i < kOverheads.size(); ++i) {
    auto made = json(R"({"handler":"x"})");
    made.set("overhead").set("podFixed", json(kOverheads[i]));
    made.set("scheduling", json(kSchedulings[i]));
    ASSERT_NO_FATAL_FAILURE(make(kRuntimeClasses, stem + "-" + std::to_string(i), made));
  }
  std::vector<std::string> spaces;
  for (const auto& ranges : kRanges) {
    const auto& ns = spaces.emplace_back(stem + "-ns" + std::to_string(spaces.size()));
    ASSERT_NO_FATAL_FAILURE(make(kNamespaces, ns, Json::object()));
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      auto range = Json::object();
      range.set("metadata").set("name", "range-" + std::to_string(i));
      range.set("spec").set("limits", json(ranges[i]));
      const auto stored = client_->create(kLimitRanges, ns, range);
      ASSERT_TRUE(stored) << stored.error().to_string();
      const auto& wanted = stored->path("spec.limits").at(0)["defaultRequest"];
      ASSERT_TRUE(testing::wait_until([&] { return has_defaults(ns, wanted); }, 30s)) << ranges[i];
    }
    ASSERT_TRUE(testing::wait_until([&] { return has_defaults(ns, {}); }, 30s)) << "no ServiceAccount in " << ns;
  }
  PodDefaults defaults(*client_);
  defaults.start();
  ASSERT_TRUE(testing::wait_until([&] { return defaults.synced(); }, 30s));

  const auto& kind = *config::workload_kind("Job");
  Templates templates(stem + "-");
  int stored = 0, tried = 0, conflicts = 0;
  std::map<std::string, int> refused;
  for (; stored < kTemplates && tried < 2 * kTemplates; ++tried) {
    const auto spec = templates.next();
    const auto& ns = spaces[static_cast<std::size_t>(tried) % spaces.size()];
    auto job = json(R"({"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"j"}})");
    job.set("metadata").set("namespace", ns);
    job.set("spec").set("template").set("spec", spec);
    const auto against = defaults.apply(job, kind);
    const auto answer = dry_run(ns, spec);
    const auto object = Json::parse(answer.body).value_or(Json());
    const bool merges = with_runtime_classes(job, kind).has_value();
    if (answer.status != 201) {
      const auto& message = object["message"].string();
      conflicts += message.find("conflict: runtimeClass.scheduling") == std::string::npos ? 0 : 1;
      EXPECT_EQ(merges, message.find("conflict: runtimeClass.scheduling") == std::string::npos) << message;
      ++refused[message];
      continue;
    }
    ++stored;
    EXPECT_TRUE(merges) << spec.dump();
    const auto& ours = job.path("spec.template.spec");
    EXPECT_EQ(members_of(ours["nodeSelector"]), members_of(object["spec"]["nodeSelector"])) << spec.dump();
    EXPECT_EQ(items_of(ours["tolerations"]), items_of(object["spec"]["tolerations"])) << spec.dump();
    const auto reported =
        fmt::format("template {} in {}: {}\nstored as {}", tried, ns, spec.dump(), object["spec"].dump());
    EXPECT_EQ(against, "") << reported;
    const auto requests = total(object["spec"], "requests");
    const auto sums = config::requests_from_pod_spec(ours);
    ASSERT_TRUE(sums) << reported;
    EXPECT_EQ(without_zeros(in_milli(*sums)), requests) << reported;
    auto resources = PodResources::read(ours);
    resources.set_defaults();
    EXPECT_EQ(without_zeros(in_milli(resources.total_limits())), total(object["spec"], "limits")) << reported;
    const auto shape = config::shape_from_pod_spec(ours);
    ASSERT_TRUE(shape) << reported;
    const auto amount = [&](const char* name) {
      const auto found = requests.find(name);
      return found == requests.end() ? 0 : found->second;
    };
    EXPECT_EQ(shape->cpu_milli, amount("cpu")) << reported;
    EXPECT_EQ(shape->memory_bytes, (amount("memory") + 999) / 1000) << reported;
    EXPECT_EQ(shape->gpu.whole * 1000, amount("nvidia.com/gpu")) << reported;
    if (HasFailure()) break;  // one failing template is enough
  }
  defaults.stop();
  EXPECT_TRUE(HasFailure() || conflicts > 0) << "no template contradicts its RuntimeClass";
  std::string why;
  for (const auto& [message, count] : refused) why += fmt::format("\n{} x {}", count, message);
  EXPECT_TRUE(HasFailure() || stored == kTemplates)
      << stored << " of " << tried << " are stored; the API server refused:" << why;
}

}  // namespace pod_resources_k8s_test
}  // namespace qm::admission
