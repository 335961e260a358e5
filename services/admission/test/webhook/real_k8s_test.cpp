// Called by a real API server: what its clients observe in general, while certificates are replaced, and while no
// replica responds.
// S-362 S-364 S-365 S-369 S-381
#include "qm/admission/webhook/certificates.hpp"
#include "qm/admission/webhook/registration.hpp"
#include "qm/admission/webhook/server.hpp"
#include "qm/testing/testing.hpp"
#include "real_server.hpp"
#include "reviews.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <unistd.h>

namespace qm::admission::webhook {
namespace real_k8s_test {

using namespace std::chrono_literals;
using kube::resources::kJobs;
using kube::resources::kPods;
WallTime now() { return std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now()); }

/// The webhook in this process, registered by URL for the namespaces of one test.
class RealWebhook : public ::testing::Test {
 protected:
  void SetUp() override {
    if (env("QM_KUBE_URL").empty()) GTEST_SKIP() << "no Kubernetes: run ./qm peers kubernetes";
    static std::atomic<int> number{0};
    name_ = fmt::format("qm-hook-{}-{}", ::getpid(), ++number);
    client_ = std::make_unique<kube::Client>(real());
    registration_.name = name_;
    registration_.url = fmt::format("https://127.0.0.1:{}", qm::testing::free_port());
    registration_.only = "webhook-test=" + name_;
    view_ = std::make_shared<View>();
    settings_.own_users = {"admin"};
    settings_.required_labels = {{"team", {}}};
    home_ = space("home", {});
  }
  void TearDown() override {
    if (!client_) return;
    if (keeper_) keeper_->stop();
    if (server_) server_->stop();
    (void)client_->remove(kMutating, "", name_, {});
    (void)client_->remove(kValidating, "", name_, {});
    for (const auto& ns : spaces_) (void)client_->remove(kNamespaces, "", ns, {});
  }

  std::string space(const char* what, Labels labels) {
    const auto ns = name_ + "-" + what;
    labels.emplace("webhook-test", name_);
    auto wanted = Json::object();
    for (const auto& [key, value] : labels) wanted.set(key, value);
    const auto made = client_->create(kNamespaces, "",
                                      Json::object({{"metadata", Json::object({{"name", ns}, {"labels", wanted}})}}));
    EXPECT_TRUE(made) << made.error().to_string();
    view_->namespaces[ns].labels = labels;
    spaces_.push_back(ns);
    return ns;
  }

  void serve(CertificateLife life = {}) {
    ServerOptions options;
    options.port = static_cast<std::uint16_t>(std::stoi(registration_.url.substr(registration_.url.rfind(':') + 1)));
    server_ = std::make_unique<Server>(
        options, settings_, [this] { return view_; }, registry_);
    KeeperOptions keeping;
    keeping.ns = home_;
    keeping.names = registration_.names();
    keeping.life = life;
    keeping.period = 100ms;
    keeper_ = std::make_unique<CertificateKeeper>(
        *client_, keeping, now, [this](const http::Identity& identity) { return server_->serve(identity); },
        [this](const std::string& bundle) { return enrol(*client_, registration_, bundle); });
    keeper_->start();
  }
  /// Waits until the API server calls the webhook for this namespace.
  void find_live(const std::string& ns) {
    ASSERT_TRUE(
        qm::testing::wait_until([&] { return dry_run(kJobs, ns, job("probe"))["spec"]["suspend"].boolean(); }, 60s));
  }

  static Json pod(const std::string& name) {
    return parsed(
        fmt::format(R"({{"metadata":{{"name":"{}"}},"spec":{{"containers":[{{"name":"main","image":"x"}}]}}}})", name));
  }
  static Json gpu_pod(const std::string& name) {
    auto out = pod(name);
    out.set("spec").set("containers").items_mut()[0].set("resources", parsed(R"({"limits":{"nvidia.com/gpu":"1"}})"));
    return out;
  }
  /// A pod that breaks no rule.
  static Json clean_pod(const std::string& name) {
    auto out = gpu_pod(name);
    out.merge_patch(parsed(R"({"metadata":{"labels":{"team":"a"}},"spec":{"nodeSelector":{"gpu":"h100"},
        "tolerations":[{"key":"nvidia.com/gpu","operator":"Exists"}]}})"));
    out.set("spec")
        .set("containers")
        .items_mut()[0]
        .set("resources")
        .set("limits", parsed(R"({"nvidia.com/gpu":"1","cpu":"1","memory":"1Gi"})"));
    return out;
  }
  static Json job(const std::string& name) {
    return parsed(fmt::format(R"({{"metadata":{{"name":"{}","labels":{{"kueue.x-k8s.io/queue-name":"mine"}}}},
        "spec":{{"template":{{"spec":{{"restartPolicy":"Never","containers":[{{"name":"main","image":"x"}}]}}}}}}}})",
                              name));
  }

  /// The number of calls so far.
  int asked(std::string_view path) {
    const std::string text = registry_.text();
    const auto at = text.find(fmt::format(R"(qm_webhook_reviews_total{{answer="ok",path="{}"}} )", path));
    return at == std::string::npos ? 0 : std::atoi(text.c_str() + text.find("} ", at) + 2);
  }

  /// Waits until the API server also calls it for updates of this job: the validating webhook is registered after the
  /// mutating one.
  void calls_on_changes(const std::string& ns, const std::string& name) {
    ASSERT_TRUE(qm::testing::wait_until(
        [&] {
          const int before = asked("/validate");
          const auto patch = fmt::format(R"({{"metadata":{{"labels":{{"probe":"{}"}}}}}})", ++made_);
          (void)by_alice(kJobs, ns, name, patch);
          return asked("/validate") > before;
        },
        60s));
  }

  std::string name_, home_;
  std::vector<std::string> spaces_;
  std::unique_ptr<kube::Client> client_;
  Registration registration_;
  Settings settings_;
  std::shared_ptr<View> view_;
  metrics::Registry registry_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<CertificateKeeper> keeper_;
  std::atomic<int> made_{0};
};

TEST_F(RealWebhook, JobsAndPodsAreHeldInDefaultQueue) {
  const auto ns = space("team", {}), unmanaged = space("free", {{"quartermaster.dev/managed", "false"}});
  view_->local_queues[ns] = {"default"};
  serve();
  find_live(ns);
  auto plain = job("train");
  plain.set("metadata").erase("labels");
  const auto train = client_->create(kJobs, ns, plain);
  ASSERT_TRUE(train) << train.error().to_string();
  EXPECT_TRUE((*train)["spec"]["suspend"].boolean());
  EXPECT_EQ(kube::label(*train, words::kQueueLabel), "default");
  EXPECT_EQ(train->path("spec.template.spec.schedulerName").string(), "quartermaster");
  const auto one = client_->create(kPods, ns, pod("one"));
  ASSERT_TRUE(one) << one.error().to_string();
  EXPECT_EQ((*one)["spec"]["schedulingGates"].dump(), R"([{"name":"quartermaster.dev/admission"}])");
  EXPECT_EQ(kube::label(*one, words::kQueueLabel), "default");

  auto elsewhere = pod("other");
  elsewhere.set("spec").set("schedulerName", "volcano");
  const auto other = client_->create(kPods, ns, elsewhere);
  ASSERT_TRUE(other);
  EXPECT_FALSE((*other)["spec"].contains("schedulingGates")) << "pods of other schedulers are not managed";

  const auto free = client_->create(kPods, unmanaged, pod("free"));
  ASSERT_TRUE(free);
  EXPECT_FALSE((*free)["spec"].contains("schedulingGates"));
}

TEST_F(RealWebhook, RefusalReasonReachesClient) {
  const auto ns = space("team", {}), warned = space("warned", {{std::string(kPolicyMode), "warn"}});
  serve();
  find_live(ns);
  const auto refused = client_->create(kPods, ns, gpu_pod("bare"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalid);
  const auto& text = refused.error().message;
  EXPECT_NE(text.find(R"(admission webhook "pods.quartermaster.dev" denied the request)"), std::string::npos) << text;
  EXPECT_NE(
      text.find(
          "the pod requests GPUs and does not tolerate the taint nvidia.com/gpu (gpu-toleration): add a toleration with key "
          "nvidia.com/gpu and operator Exists"),
      std::string::npos)
      << text;
  EXPECT_NE(text.find(R"(container "main" requests GPUs but neither cpu nor memory)"), std::string::npos) << text;
  EXPECT_TRUE(client_->create(kPods, warned, gpu_pod("bare"))) << "a namespace in mode warn accepts it";
}

TEST_F(RealWebhook, CheckedOnceIsSentOnceUnlessMoreIsRequired) {
  const auto ns = space("team", {}), strict = space("strict", {{std::string(kRequiredLabel), "required"}});
  view_->local_queues[strict] = {"default"};
  serve();
  find_live(ns);
  find_live(strict);
  ASSERT_TRUE(client_->create(kJobs, strict, job("changed")));
  calls_on_changes(strict, "changed");
  const auto good = clean_pod("good");
  const int before = asked("/validate");
  ASSERT_TRUE(client_->create(kPods, ns, good));
  EXPECT_EQ(asked("/validate"), before);
  ASSERT_TRUE(client_->create(kPods, strict, good));
  EXPECT_EQ(asked("/validate"), before + 1);
  auto forged = gpu_pod("forged");
  forged.set("metadata").set("labels").set(kJudged, "true");
  EXPECT_FALSE(client_->create(kPods, ns, forged)) << "a forged mark does not prevent the check";
  forged.set("metadata").set("labels").set(kJudged, "");
  EXPECT_FALSE(client_->create(kPods, ns, forged)) << "also with an empty value";
}

TEST_F(RealWebhook, ControllerLabelsBypassNoRule) {
  const auto ns = space("team", {});
  view_->local_queues[ns] = {"default"};
  serve();
  find_live(ns);
  const auto asks = [&](const char* label, bool owned, const Json& object) {
    Json one = object;
    one.set("metadata").set("name", fmt::format("one-{}", ++made_));
    if (label != nullptr) one.set("metadata").set("labels").set(label, "x");
    if (owned) {
      one.set("metadata").set("ownerReferences", parsed(R"([{"apiVersion":"example.com/v1","kind":"Thing","name":"x",
          "uid":"705ab4f5-6393-11e8-b7cc-42010a800002","controller":true}])"));
    }
    const int before = asked("/mutate");
    const auto stored = client_->create(kPods, ns, one);
    EXPECT_TRUE(stored) << stored.error().to_string();
    EXPECT_TRUE(stored && (*stored)["spec"].contains("schedulingGates") != owned);
    return asked("/mutate") - before;
  };
  for (const char* label : {"pod-template-hash", "controller-revision-hash", "batch.kubernetes.io/controller-uid"}) {
    EXPECT_EQ(asks(label, false, pod("")), 1) << label << " on a pod that nothing owns";
    EXPECT_EQ(asks(label, true, clean_pod("")), 1) << label << " with GPUs";
    EXPECT_EQ(asks(label, true, pod("")), 0) << label << " with an owner, no queue and no GPU";
  }
  EXPECT_EQ(asks(nullptr, false, pod("")), 1);
  EXPECT_EQ(asks(nullptr, true, pod("")), 1) << "an owner that leaves no label that is known";
  auto both = pod("");
  both.set("metadata").set("labels").set("pod-template-hash", "x");
  EXPECT_EQ(asks("controller-revision-hash", false, both), 1) << "once, with any labels";
}

TEST_F(RealWebhook, PodsOfCheckedJobNeedNoCall) {
  const auto ns = space("team", {}), strict = space("strict", {{std::string(kRequiredLabel), "required"}});
  serve();
  find_live(ns);
  find_live(strict);
  auto train = job("train");
  train.set("spec").set("parallelism", 3);
  train.set("spec").set("completions", 3);
  train.set("spec").set("template", clean_pod(""));
  train.set("spec").set("template").set("metadata").erase("name");
  train.set("spec").set("template").set("spec").set("restartPolicy", "Never");
  const auto run = [&](const std::string& where) -> int {
    EXPECT_TRUE(client_->create(kJobs, where, train));
    const int before = asked("/mutate");
    // The patch with which admission starts it.
    EXPECT_TRUE(client_->merge_patch(kJobs, where, "train", parsed(R"({"spec":{"suspend":false,"template":{"metadata":
        {"annotations":{"quartermaster.dev/attempt":"1"}}}}})")));
    EXPECT_TRUE(qm::testing::wait_until(
        [&] {
          const auto pods = client_->list_all(kPods, where);
          return pods &&
                 std::ranges::count_if(*pods, [](const Json& pod) { return kube::label(pod, kJudged) == "true"; }) == 3;
        },
        60s));
    return asked("/mutate") - before;
  };
  EXPECT_EQ(run(ns), 0);
  EXPECT_EQ(run(strict), 3);
  // The API server calls the webhook for such a pod of any other account.
  auto forged = gpu_pod("forged");
  forged.set("metadata").set("labels").set(kJudged, "true");
  const auto owner = client_->get(kJobs, ns, "train");
  ASSERT_TRUE(owner);
  forged.set("metadata")
      .set("ownerReferences", Json::array({Json::object({{"apiVersion", "batch/v1"},
                                                         {"kind", "Job"},
                                                         {"name", "train"},
                                                         {"uid", kube::uid_of(*owner)},
                                                         {"controller", true}})}));
  const int before = asked("/mutate");
  EXPECT_FALSE(client_->create(kPods, ns, forged));
  EXPECT_EQ(asked("/mutate"), before + 1);
}

TEST_F(RealWebhook, HeldObjectIsNotReleasedByHand) {
  const auto ns = space("team", {});
  view_->local_queues[ns] = {"default"};
  serve();
  find_live(ns);
  ASSERT_TRUE(client_->create(kJobs, ns, job("train")));
  calls_on_changes(ns, "train");
  const auto* go = R"({"spec":{"suspend":false}})";
  const auto refused = by_alice(kJobs, ns, "train", go);
  EXPECT_EQ(refused.status, 403) << refused.body;
  EXPECT_NE(refused.body.find("is held by Quartermaster until it is admitted"), std::string::npos) << refused.body;
  EXPECT_NE(refused.body.find("qmctl why " + ns + "/train"), std::string::npos) << refused.body;
  EXPECT_EQ(by_alice(kJobs, ns, "train", R"({"metadata":{"labels":{"note":"x"}}})").status, 200);
  ASSERT_TRUE(client_->merge_patch(kJobs, ns, "train", parsed(go))) << "we may";
  EXPECT_EQ(by_alice(kJobs, ns, "train", R"({"spec":{"parallelism":3}})").status, 403) << "it holds quota";

  ASSERT_TRUE(client_->create(kPods, ns, pod("one")));
  const auto ungated = by_alice(kPods, ns, "one", R"({"spec":{"schedulingGates":null}})");
  EXPECT_EQ(ungated.status, 403) << ungated.body;
  ASSERT_TRUE(client_->merge_patch(kPods, ns, "one", parsed(R"({"spec":{"schedulingGates":null}})")));
}

TEST_F(RealWebhook, PodsAreCreatedDuringCertificateRotation) {
  const auto ns = space("strict", {{std::string(kRequiredLabel), "required"}});
  view_->local_queues[ns] = {"default"};
  serve({.authority = 24s, .serving = 10s, .settle = 2s, .backdate = 2s});
  find_live(ns);
  std::atomic<bool> stop{false};
  std::atomic<int> made{0}, ungated{0};
  std::mutex mutex;
  std::string first_error;
  std::vector<std::jthread> people;
  for (int i = 0; i < 2; ++i) {
    people.emplace_back([&, i] {
      kube::Client client(real());
      for (int n = 0; !stop; ++n) {
        const auto done = client.create(kPods, ns, pod(fmt::format("p-{}-{}", i, n)));
        if (!done) {
          const std::scoped_lock lock(mutex);
          if (first_error.empty()) first_error = done.error().to_string();
        } else {
          ++made;
          if ((*done)["spec"]["schedulingGates"].size() != 1) ++ungated;
        }
      }
    });
  }
  const auto authorities = [&] {
    const auto config = client_->get(kMutating, "", name_);
    return config ? (*config)["webhooks"].at(0)["clientConfig"]["caBundle"].string() : std::string();
  };
  std::string newest = authorities();
  int replaced = 0;
  EXPECT_TRUE(qm::testing::wait_until(
      [&] {
        const auto bundle = authorities();
        if (!bundle.empty() && bundle != newest) {
          newest = bundle;
          ++replaced;
        }
        return replaced >= 4;  // two authorities were added, and two were removed
      },
      120s));
  stop = true;
  people.clear();
  EXPECT_EQ(first_error, "");
  EXPECT_EQ(ungated, 0);
  EXPECT_GT(made, 50);
}

TEST_F(RealWebhook, FailurePolicyOfNamespaceAppliesWhileDown) {
  const auto ns = space("team", {}), strict = space("strict", {{std::string(kRequiredLabel), "required"}});
  view_->local_queues[ns] = view_->local_queues[strict] = {"default"};
  serve();
  find_live(ns);
  find_live(strict);
  keeper_->stop();
  server_->stop();
  const auto through = client_->create(kPods, ns, pod("through"));
  ASSERT_TRUE(through) << through.error().to_string();
  EXPECT_FALSE((*through)["spec"].contains("schedulingGates")) << "the webhook was not called";
  const auto refused = client_->create(kPods, strict, pod("refused"));
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find(R"(failed calling webhook "pods-required.quartermaster.dev")"),
            std::string::npos)
      << refused.error().to_string();
}

TEST_F(RealWebhook, SlowWebhookCostsAtMostItsTimeout) {
  const auto ns = space("team", {}), strict = space("strict", {{std::string(kRequiredLabel), "required"}});
  std::mutex mutex;
  std::condition_variable wake;
  bool end = false;
  http::ServerOptions options;
  options.port = static_cast<std::uint16_t>(std::stoi(registration_.url.substr(registration_.url.rfind(':') + 1)));
  options.threads = 4;
  const auto authority = *http::make_authority({"ca", {}, now() - 1h, now() + 1h});
  options.identity = *http::make_certificate({"slow", {"127.0.0.1"}, now() - 1h, now() + 1h}, authority);
  std::atomic<int> asked{0};
  http::Server slow(options, [&](const http::Request&) {
    ++asked;
    std::unique_lock lock(mutex);
    wake.wait(lock, [&] { return end; });
    return http::text(500, "too late");
  });
  ASSERT_TRUE(slow.start());
  ASSERT_TRUE(enrol(*client_, registration_, authority.certificate));
  const auto took = [&](const std::string& where, const std::string& name, Status& outcome) {
    const auto begin = std::chrono::steady_clock::now();
    const auto made = client_->create(kPods, where, pod(name));
    outcome = made ? Status{} : Status(fail(made.error()));
    return std::chrono::steady_clock::now() - begin;
  };
  Status outcome;
  ASSERT_TRUE(qm::testing::wait_until([&] {
    (void)took(ns, fmt::format("probe-{}", ++made_), outcome);
    return asked > 0;
  }));
  const auto ignored = took(ns, "through", outcome);
  EXPECT_TRUE(outcome);
  EXPECT_GE(ignored, 1900ms);
  EXPECT_LT(ignored, 8s);
  const auto failed = took(strict, "refused", outcome);
  EXPECT_FALSE(outcome);
  EXPECT_GE(failed, 1900ms);
  EXPECT_LT(failed, 8s);
  {
    const std::scoped_lock lock(mutex);
    end = true;
  }
  wake.notify_all();
  slow.stop();
}

// Pod Security Admission of the API server and the webhook work together: what it forbids stays forbidden.
TEST_F(RealWebhook, RestrictedNamespacesRefuseHostAccess) {  // S-364 S-365
  const auto ns = space("restricted", {{"pod-security.kubernetes.io/enforce", "restricted"},
                                       {"pod-security.kubernetes.io/audit", "restricted"},
                                       {"pod-security.kubernetes.io/warn", "restricted"}});
  view_->local_queues[ns] = {"default"};
  serve();
  find_live(ns);
  const auto* safe = R"({"spec":{"securityContext":{"runAsNonRoot":true,"seccompProfile":{"type":"RuntimeDefault"}},
      "containers":[{"name":"main","image":"x","securityContext":{"allowPrivilegeEscalation":false,
          "capabilities":{"drop":["ALL"]}}}]}})";
  auto good = pod("good");
  good.merge_patch(parsed(safe));
  const auto made = client_->create(kPods, ns, good);
  ASSERT_TRUE(made) << made.error().to_string();
  EXPECT_EQ((*made)["spec"]["schedulingGates"].size(), 1U) << "an allowed pod is gated all the same";
  struct Case {
    const char* name;
    const char* shows;
    void (*change)(Json& spec);
  };
  const std::array<Case, 3> cases{
      {{"privileged", "privileged",
        [](Json& spec) { spec.set("containers").items_mut()[0].set("securityContext").set("privileged", true); }},
       {"host-path", "hostPath",
        [](Json& spec) { spec.set("volumes", parsed(R"([{"name":"h","hostPath":{"path":"/dev"}}])")); }},
       {"capability", "unrestricted capabilities", [](Json& spec) {
          spec.set("containers")
              .items_mut()[0]
              .set("securityContext")
              .set("capabilities")
              .set("add", Json::array({"SYS_ADMIN"}));
        }}}};
  for (const auto& c : cases) {
    auto bad = good;
    bad.set("metadata").set("name", c.name);
    c.change(bad.set("spec"));
    if (std::string_view(c.name) == "privileged") {
      bad.set("spec").set("containers").items_mut()[0].set("securityContext").set("allowPrivilegeEscalation", true);
    }
    const auto refused = client_->create(kPods, ns, bad);
    ASSERT_FALSE(refused) << c.name;
    EXPECT_EQ(refused.error().code, Code::kInvalid) << refused.error().to_string();
    EXPECT_NE(refused.error().message.find(c.shows), std::string::npos) << refused.error().message;
  }
}

// The API server computes the priority of a pod before it calls the webhook, and has to compute it again.
TEST_F(RealWebhook, PodGetsPriorityClassOfWorkloadType) {
  const kube::Resource kClasses{"scheduling.k8s.io", "v1", "priorityclasses", false};
  const auto made =
      client_->create(kClasses, "", Json::object({{"metadata", Json::object({{"name", name_}})}, {"value", 7}}));
  ASSERT_TRUE(made) << made.error().to_string();
  const auto ns = space(
      "priority", {{"policy.quartermaster.dev/mode", "warn"}, {"policy.quartermaster.dev/gpu-priority", "mutate"}});
  view_->local_queues[ns] = {"default"};
  settings_.facts.default_priority = {{"training", name_}};
  serve();
  find_live(ns);
  auto one = gpu_pod("trains");
  one.set("metadata").set("labels").set(kWorkloadType, "training");
  const auto given = client_->create(kPods, ns, one);
  ASSERT_TRUE(given) << given.error().to_string();
  EXPECT_EQ((*given)["spec"]["priorityClassName"].string(), name_);
  EXPECT_EQ((*given)["spec"]["priority"].integer(), 7);
  (void)client_->remove(kClasses, "", name_, {});
}

// A quota counts the pods that our implementation of ResourceQuota predicts.
TEST_F(RealWebhook, ResourceQuotaCountsTheSamePods) {  // S-362 S-381
  const kube::Resource kQuotas{"", "v1", "resourcequotas", true};
  constexpr const char* kClass = "system-cluster-critical";
  for (const auto* op : {"In", "NotIn", "Exists", "DoesNotExist", ""}) {
    const std::string word = op;
    std::string lower = word.empty() ? "all" : word;
    std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const auto ns = space(("quota-" + lower).c_str(), {});
    auto object = parsed(R"({"metadata":{"name":"gpus"},"spec":{"hard":{"requests.nvidia.com/gpu":1}}})");
    if (!word.empty()) {
      auto one = Json::object({{"scopeName", "PriorityClass"}, {"operator", word}});
      if (word.ends_with("In")) one.set("values", Json::array({kClass}));
      object.set("spec").set("scopeSelector").set("matchExpressions", Json::array({one}));
    }
    ASSERT_TRUE(client_->create(kQuotas, ns, object)) << word;
    Json known;
    ASSERT_TRUE(qm::testing::wait_until(
        [&] {
          const auto now = client_->get(kQuotas, ns, "gpus");
          if (now) known = *now;
          // Its controller has counted, and pods can be created.
          return now && (*now)["status"]["used"].size() > 0 &&
                 client_->get({"", "v1", "serviceaccounts", true}, ns, "default");
        },
        60s))
        << word;
    const auto quota = ResourceQuota::read(known);
    ASSERT_TRUE(quota);
    for (const auto* name : {"", kClass}) {
      for (const int gpus : {1, 2}) {
        auto one = pod(fmt::format("{}-{}", *name == 0 ? "none" : "critical", gpus));
        one.set("spec")
            .set("containers")
            .items_mut()[0]
            .set("resources", Json::object({{"limits", Json::object({{"nvidia.com/gpu", std::to_string(gpus)}})}}));
        if (*name != 0) one.set("spec").set("priorityClassName", name);
        const bool ours = beyond_quota({*quota}, one["spec"]).empty();
        const auto made = client_->create(kPods, ns, one);
        EXPECT_EQ(made.has_value(), ours) << word << " " << one.dump() << (made ? "" : made.error().to_string());
        if (made) (void)client_->remove(kPods, ns, kube::name_of(*made), {.uid = {}, .grace_seconds = 0});
        // Released quota is counted again before the next pod.
        EXPECT_TRUE(qm::testing::wait_until(
            [&] {
              const auto now = client_->get(kQuotas, ns, "gpus");
              return now && (*now)["status"]["used"]["requests.nvidia.com/gpu"].string() == "0";
            },
            60s));
      }
    }
  }
}

}  // namespace real_k8s_test
}  // namespace qm::admission::webhook
