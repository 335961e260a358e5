// Every object that the API server accepts has a result: a workload that is pending, or one that is Rejected
// with a reason.
#include "job_server.hpp"
#include "qm/admission/codec.hpp"
#include "qm/admission/queries/explanation.hpp"
#include "qm/admission/translate/translate.hpp"
#include "qm/admission/watch.hpp"
#include "qm/config/manifest.hpp"
#include "qm/testing/testing.hpp"
#include "src/shell/translate/pods.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace qm::admission {
namespace updates_prop_test {

using rc::gen::elementOf;
using rc::gen::inRange;
using service::Input;
using service::Source;

Input watched(const char* name, const Json& object) {
  Input input;
  input.source = Source::kWatch;
  input.name = name;
  input.bytes = object.dump();
  return input;
}

/// An engine with a queue, which receives the input of the watches.
class Cluster {
 public:
  Cluster() {
    for (const auto& object : testing::queue_objects()) {
      Input input;
      input.source = Source::kWatch;
      input.name = "object";
      input.bytes = object;
      EXPECT_TRUE(send(input));
    }
  }
  /// Returns false where the input becomes a dead letter.
  bool send(const Input& input) {
    const auto commands = codec_.decode(input);
    if (!commands) {
      error_ = commands.error().to_string();
      return false;
    }
    now_ += std::chrono::seconds(1);
    out_ = engine_.step(*commands, now_);
    engine_.commit();
    engine_.check_laws();
    return true;
  }
  [[nodiscard]] const Workload* find(const std::string& uid) const { return engine_.find(WorkloadUid(uid)); }
  [[nodiscard]] std::string why(const std::string& uid) const {
    const auto* w = find(uid);
    return w == nullptr ? "not known" : explain(engine_.state(), *w, now_).summary;
  }
  /// Reason and message of the Events that are written for the object.
  [[nodiscard]] std::string events() const {
    std::string out;
    for (const auto& i : out_.intents) {
      if (i.kind == "event.create") out += i.reason + ": " + i.object + "\n";
    }
    return out;
  }
  [[nodiscard]] const std::string& error() const { return error_; }
  [[nodiscard]] const Engine& engine() const { return engine_; }

 private:
  Engine engine_;
  Codec codec_;
  Output out_;
  Instant now_ = from_micros(1'800'000'000'000'000);
  std::string error_;
};

const Json& quantities() {
  static const Json all = *Json::parse(
      R"(["0","1","2","100m","1.5","8Gi","1e3","1E","9223372036854775807","100000000000000000000","3Ki","7",4])");
  return all;
}

Json random_resources() {
  Json out = Json::object();
  for (const char* name : {"cpu", "memory", "ephemeral-storage", "nvidia.com/gpu", "quartermaster.dev/gpu-milli",
                           "nvidia.com/mig-1g.10gb", "nvidia.com/mig-3g.40gb", "rdma/hca"}) {
    if (*inRange(0, 4) == 0) out.set(name, quantities().at(*inRange<std::size_t>(0, quantities().size())));
  }
  return out;
}

void annotate(Json& metadata) {
  static const std::vector<std::string> kKeys{"kueue.x-k8s.io/podset-required-topology",
                                              "kueue.x-k8s.io/podset-preferred-topology",
                                              "kueue.x-k8s.io/podset-slice-required-topology",
                                              "kueue.x-k8s.io/podset-slice-size",
                                              "kueue.x-k8s.io/podset-group-name",
                                              "kueue.x-k8s.io/job-min-parallelism",
                                              "quartermaster.dev/exclusive-nodes",
                                              "quartermaster.dev/gpu-memory",
                                              "quartermaster.dev/gpu-sms",
                                              "quartermaster.dev/expected-runtime",
                                              "quartermaster.dev/parallelism",
                                              "quartermaster.dev/attempt",
                                              "quartermaster.dev/added-to-pods",
                                              "quartermaster.dev/traceparent",
                                              "karpenter.sh/do-not-disrupt",
                                              "fleet.quartermaster.dev/run-seconds",
                                              "kueue.x-k8s.io/queue-name"};
  static const std::vector<std::string> kValues{"",  "two", "2",    "-1",   "99999999999999999999",   "1h",
                                                "h", "{",   "true", "TRUE", "kubernetes.io/hostname", "größe"};
  for (const auto& key : kKeys) {
    if (*inRange(0, 8) == 0) metadata.set("annotations").set(key, *elementOf(kValues));
  }
}

Json random_template() {
  Json spec = Json::object({{"restartPolicy", "Never"}, {"schedulerName", std::string(words::kScheduler)}});
  for (const char* list : {"containers", "initContainers"}) {
    const int many = *inRange(list == std::string("containers") ? 1 : 0, 3);
    for (int i = 0; i < many; ++i) {
      Json one = Json::object({{"name", fmt::format("c{}", i)}, {"image", "i"}});
      if (*inRange(0, 3) != 0) one.set("resources").set("requests", random_resources());
      if (*inRange(0, 3) != 0) one.set("resources").set("limits", random_resources());
      if (*inRange(0, 4) == 0) one.set("restartPolicy", "Always");
      spec.set(list).push_back(std::move(one));
    }
  }
  if (*inRange(0, 3) == 0) spec.set("priorityClassName", *inRange(0, 2) == 0 ? "" : "none-such");
  if (*inRange(0, 3) == 0) spec.set("nodeSelector").set("node-role.kubernetes.io/gpu", "");
  if (*inRange(0, 3) == 0) {
    spec.set("tolerations")
        .push_back(Json::object({{"key", "k"}, {"operator", "Exists"}, {"value", ""}, {"effect", ""}}));
  }
  if (*inRange(0, 3) == 0) {
    static const std::vector<std::string> kAffinities{
        "{}", R"({"nodeAffinity":{}})",
        R"({"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{}]}}})",
        R"({"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[
            {"matchExpressions":[{"key":"k","operator":"NotIn","values":["a"]}]}]}}})",
        R"({"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"t"}]}})"};
    spec.set("affinity", *Json::parse(*elementOf(kAffinities)));
  }
  Json metadata = Json::object({{"creationTimestamp", Json()}});
  annotate(metadata);
  if (*inRange(0, 3) == 0) metadata.set("labels").set("team", *inRange(0, 2) == 0 ? "" : "a");
  if (*inRange(0, 4) == 0) metadata.set("labels").set(words::kQueueLabel, "");
  return Json::object({{"metadata", std::move(metadata)}, {"spec", std::move(spec)}});
}

Json random_metadata() {
  Json out = Json::object({{"name", "one"}, {"namespace", "team"}, {"uid", "uid-one"}});
  out.set("creationTimestamp", "2026-01-01T00:00:00Z").set("generateName", "");
  out.set("labels").set(words::kQueueLabel, "q");
  for (const char* key : {"team", "kueue.x-k8s.io/priority-class", "kueue.x-k8s.io/max-exec-time-seconds", "other"}) {
    if (*inRange(0, 4) == 0) out.set("labels").set(key, *inRange(0, 2) == 0 ? "" : "x");
  }
  annotate(out);
  return out;
}

Json random_job_spec() {
  Json spec = Json::object({{"suspend", true}, {"template", random_template()}});
  static const std::vector<int> kNumbers{0, 1, 2, 7, 100'000, 200'000, 2'147'483'647};
  if (*inRange(0, 3) != 0) spec.set("parallelism", *elementOf(kNumbers));
  if (*inRange(0, 3) != 0) spec.set("completions", *elementOf(kNumbers));
  if (*inRange(0, 2) == 0) spec.set("completionMode", "Indexed").set("backoffLimitPerIndex", 0);
  return spec;
}

Json replicated(int many) { return Json::object({{"replicas", many}, {"template", random_template()}}); }

/// A Ray cluster, as in RayCluster and RayJob.
Json random_ray() {
  Json out = Json::object();
  out.set("headGroupSpec").set("template", random_template());
  if (*inRange(0, 2) == 0) {
    Json group = replicated(*inRange(0, 3));
    group.set("groupName", "g").set("minReplicas", *inRange(0, 3));
    out.set("workerGroupSpecs").push_back(std::move(group));
  }
  return out;
}

Json random_roles(std::string_view kind) {
  Json out = Json::object();
  out.set("runPolicy").set("suspend", true);
  std::string name(kind.substr(0, kind.size() - 3));
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  auto& roles = out.set((name == "xgboost" ? "xgb" : name) + "ReplicaSpecs");
  roles.set(kind == "MPIJob" ? "Launcher" : "Master", replicated(*inRange(0, 2)));
  if (*inRange(0, 2) == 0) roles.set("Worker", replicated(*inRange(0, 3)));
  return out;
}

/// The spec of a kind that is suspended as a whole; null where none can be generated.
Json random_spec(const config::WorkloadKind& kind) {
  if (kind.kind == "Job") return random_job_spec();
  if (kind.group == "kubeflow.org") return random_roles(kind.kind);
  Json out = Json::object({{"suspend", true}});
  if (kind.kind == "RayCluster") {
    out = random_ray();
    return out.set("suspend", true);
  }
  if (kind.kind == "RayJob") {
    out.set("rayClusterSpec", random_ray());
    if (*inRange(0, 2) == 0) out.set("submitterPodTemplate", random_template());
    return out;
  }
  if (kind.kind != "JobSet") return {};
  for (int i = *inRange(0, 3); i > 0; --i) {
    out.set("replicatedJobs")
        .push_back(Json::object({{"name", fmt::format("r{}", i)},
                                 {"replicas", *inRange(0, 3)},
                                 {"template", Json::object({{"spec", random_job_spec()}})}}));
  }
  return out;
}

/// Jobs as often as all other kinds together that are suspended as a whole.
Json random_object() {
  std::vector<const config::WorkloadKind*> kinds;
  for (const auto& kind : config::workload_kinds()) {
    if (kind.suspends()) kinds.push_back(&kind);
  }
  const auto& kind = *inRange(0, 2) == 0 ? *kinds.front() : **elementOf(kinds);
  Json out = Json::object({{"apiVersion", fmt::format("{}/{}", kind.group, kind.versions.front())},
                           {"kind", kind.kind},
                           {"metadata", random_metadata()}});
  Json spec = random_spec(kind);
  RC_ASSERT(spec.is_object());
  return out.set("spec", std::move(spec));
}

void has_an_answer(const Cluster& cluster) {
  const auto* w = cluster.find("uid-one");
  RC_ASSERT(w != nullptr);
  const auto why = cluster.why("uid-one");
  RC_LOG() << why;
  if (w->phase == Phase::kPending || w->phase == Phase::kQuotaReserved || w->phase == Phase::kAdmitted) return;
  RC_ASSERT(w->phase == Phase::kRejected);
  RC_ASSERT(why.find("is rejected: ") != std::string::npos);
  RC_ASSERT(why.find("; ") != std::string::npos);  // the remedy
  RC_ASSERT(cluster.events().starts_with("Rejected: "));
}

RC_GTEST_PROP(Answers, EveryValidObjectGetsAnAnswer, ()) {
  Cluster cluster;
  const Json object = random_object();
  RC_LOG() << object.dump();
  RC_PRE(is_managed(object));
  RC_ASSERT(cluster.send(watched("job", object)));
  has_an_answer(cluster);
  // An update of it is parsed again, in every earlier state.
  Json corrected = testing::make_job("team", "one", "q", 1);
  corrected.set("metadata").set("uid", "uid-one");
  if (object["kind"].string() != "Job") return;
  RC_ASSERT(job_print(object) != job_print(corrected));
  RC_ASSERT(cluster.send(watched("job", corrected)));
  RC_ASSERT(cluster.find("uid-one")->phase == Phase::kQuotaReserved);
  RC_ASSERT(cluster.find("uid-one")->spec.total_gpu_milli() == 1000);
}

RC_GTEST_PROP(Answers, EveryValidVolcanoPodGroupGetsAnAnswer, ()) {
  Cluster cluster;
  Json metadata = Json::object({{"namespace", "team"}, {"name", "one"}, {"uid", "uid-one"}});
  Json group = Json::object({{"metadata", metadata}});
  auto& spec = group.set("spec");
  spec.set("queue", *elementOf(std::vector<std::string>{"q", "typo"}));
  spec.set("minMember", *inRange(0, 4)).set("minResources").set("nvidia.com/gpu", *inRange(1, 3));
  if (*inRange(0, 3) == 0) {
    spec.set("networkTopology").set("mode", *elementOf(std::vector<std::string>{"hard", "soft"}));
  }
  if (*inRange(0, 3) == 0) spec.set("subGroupPolicy").push_back(Json::object({{"name", "a"}}));
  if (*inRange(0, 3) == 0) spec.set("minTaskMember").set("a", *inRange(-1, 2));
  for (const char* name : {"sla-waiting-time", "volcano.sh/preemptable"}) {
    const auto text = *elementOf(std::vector<std::string>{"", "1h", "soon", "true", "false"});
    if (!text.empty()) group.set("metadata").set("annotations").set(name, text);
  }
  const Json seen = Json::object({{"kind", "PodGroup"},
                                  {"metadata", std::move(metadata)},
                                  {"pods", Json::array()},
                                  {kPodGroup, std::move(group)}});
  RC_LOG() << seen.dump();
  RC_ASSERT(cluster.send(watched("pods", seen)));
  has_an_answer(cluster);
}

RC_GTEST_PROP(Answers, EveryValidWorkloadGetsAnAnswer, ()) {
  Cluster cluster;
  Json object = Json::object({{"apiVersion", "kueue.x-k8s.io/v1beta2"}, {"kind", "Workload"}});
  object.set("metadata", Json::object({{"namespace", "team"}, {"name", "one"}, {"uid", "uid-one"}}));
  object.set("spec").set("queueName", *elementOf(std::vector<std::string>{"q", "typo", ""}));
  for (int i = *inRange(1, 3); i > 0; --i) {
    object.set("spec").set("podSets").push_back(
        Json::object({{"name", fmt::format("s{}", i)}, {"count", *inRange(0, 3)}, {"template", random_template()}}));
  }
  RC_LOG() << object.dump();
  RC_ASSERT(cluster.send(watched("workload", object)));
  has_an_answer(cluster);
}

RC_GTEST_PROP(Answers, EveryValidPodGetsAnAnswer, ()) {
  Cluster cluster;
  Json pods = Json::array();
  const int many = *inRange(1, 3);
  for (int i = 0; i < many; ++i) {
    Json pod = random_template();
    for (auto& [key, value] : std::map<std::string, std::string>{{"name", fmt::format("p{}", i)},
                                                                 {"namespace", "team"},
                                                                 {"uid", fmt::format("uid-p{}", i)},
                                                                 {"creationTimestamp", "2026-01-01T00:00:00Z"}}) {
      pod.set("metadata").set(key, value);
    }
    pod.set("metadata").set("labels").set(words::kQueueLabel, "q");
    if (many > 1) pod.set("metadata").set("labels").set(kGroupLabel, "g");
    if (many > 1) pod.set("metadata").set("annotations").set(kGroupCount, std::to_string(many));
    pod.set("spec").set("schedulingGates").push_back(Json::object({{"name", std::string(kGate)}}));
    pods.push_back(std::move(pod));
  }
  const Json group =
      Json::object({{"kind", many > 1 ? "PodGroup" : "Pod"},
                    {"metadata", Json::object({{"namespace", "team"}, {"name", "one"}, {"uid", "uid-one"}})},
                    {"pods", std::move(pods)}});
  RC_LOG() << group.dump();
  RC_ASSERT(cluster.send(watched("pods", group)));
  has_an_answer(cluster);
}

// ---- inputs that users wrote ----

Json from_file(const std::string& path) {
  // A kind of an unknown group is kept as it is: the parser of Jobs would refuse some.
  auto text = qm::testing::read_file(path);
  const auto kind = text.find("kind: Job\n");
  if (kind != std::string::npos) {
    const std::string version = "apiVersion: batch/";
    text.insert(kind + 6, "Other");
    text.replace(text.find(version), version.size(), "apiVersion: example.com/");
  }
  const auto loaded = config::load_text(text, path);
  EXPECT_FALSE(loaded.objects.empty()) << path;
  Json object = loaded.objects.empty() ? Json::object() : loaded.objects[0].document.content;
  if (kind != std::string::npos) object.set("apiVersion", "batch/v1").set("kind", "Job");
  object.set("metadata").set("uid", "uid-one").set("creationTimestamp", "2026-01-01T00:00:00Z");
  return object;
}

class FieldCases : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto shared = qm::testing::shared_dir();
    if (!shared) GTEST_SKIP() << qm::testing::no_shared();
    dir_ = *shared + "/field/";
  }
  std::string dir_;
};

TEST_F(FieldCases, ZeroReplicasRequestNothing) {
  Cluster cluster;
  Json job = from_file(dir_ + "f07-zero-replicas/job-p0.yaml");
  ASSERT_TRUE(cluster.send(watched("job", job))) << cluster.error();
  EXPECT_EQ(cluster.find("uid-one")->phase, Phase::kPending);
  EXPECT_EQ(cluster.find("uid-one")->reason, "QueueUnknown") << "its queue does not exist";
  EXPECT_NE(cluster.why("uid-one").find("does not exist"), std::string::npos);
  const auto before = job_print(job);
  job.set("spec").set("parallelism", 2);
  EXPECT_NE(job_print(job), before);
  ASSERT_TRUE(cluster.send(watched("job", job)));
  EXPECT_EQ(cluster.find("uid-one")->spec.total_pods(), 2);
  Json torch = from_file(dir_ + "f07-zero-replicas/pytorchjob-w0.yaml");
  torch.set("metadata").set("uid", "uid-two");
  ASSERT_TRUE(cluster.send(watched("job", torch))) << cluster.error();
  EXPECT_EQ(cluster.find("uid-two")->spec.total_pods(), 1);
}

TEST_F(FieldCases, ParallelismAndQueueOfPendingJobAreUpdated) {
  for (const auto& [was, is] :
       {std::pair("f08-parallelism-changed/job-wait.yaml", "f08-parallelism-changed/job.yaml"),
        std::pair("f10-queue-label-changed/job.yaml", "f10-queue-label-changed/job-fixed.yaml")}) {
    Cluster cluster;
    const Json first = from_file(dir_ + was), second = from_file(dir_ + is);
    ASSERT_TRUE(cluster.send(watched("job", first)));
    EXPECT_NE(job_print(first), job_print(second)) << is;
    ASSERT_TRUE(cluster.send(watched("job", second)));
    const auto read = config::workload_from_job(second);
    ASSERT_TRUE(read);
    EXPECT_EQ(cluster.find("uid-one")->spec.queue, read->queue) << is;
    EXPECT_EQ(cluster.find("uid-one")->spec.total_pods(), read->total_pods()) << is;
  }
}

TEST_F(FieldCases, TwoMigProfilesAreRejectedByName) {
  Cluster cluster;
  ASSERT_TRUE(cluster.send(watched("job", from_file(dir_ + "f24-mig/job-two.yaml"))));
  EXPECT_EQ(cluster.find("uid-one")->phase, Phase::kRejected);
  for (const char* part : {"spec.template.spec.containers", "1g.10gb", "3g.40gb", "use one profile in a pod"}) {
    EXPECT_NE(cluster.why("uid-one").find(part), std::string::npos) << cluster.why("uid-one");
    EXPECT_NE(cluster.events().find(part), std::string::npos);
  }
  ASSERT_TRUE(cluster.send(watched("job", from_file(dir_ + "f24-mig/job-one.yaml"))));
  EXPECT_EQ(cluster.find("uid-one")->phase, Phase::kPending);
}

TEST_F(FieldCases, FailedIndexesHoldNoQuota) {
  Json job = from_file(dir_ + "f22-failed-indexes/job.yaml");
  job.set("spec").set("suspend", false);
  job.set("status").set("failedIndexes", "0,2-3").set("active", 1).set("failed", 3);
  const auto seen = parse_job(job);
  ASSERT_TRUE(seen) << seen.error().to_string();
  EXPECT_EQ(seen->ended, 3);
}

TEST_F(FieldCases, QuantitiesAreReadLikeKubernetes) {
  for (const char* name : {"job-affin", "job-annot", "job-comp-less", "job-empties", "job-emptyprio", "repro-min"}) {
    Cluster cluster;
    ASSERT_TRUE(cluster.send(watched("job", from_file(dir_ + "n-second-look/" + name + ".yaml")))) << name;
    ASSERT_NE(cluster.find("uid-one"), nullptr) << name;
    EXPECT_EQ(cluster.find("uid-one")->phase, Phase::kPending) << name << ": " << cluster.why("uid-one");
    EXPECT_EQ(cluster.find("uid-one")->spec.priority_class, "") << name;
  }
  Cluster cluster;
  ASSERT_TRUE(cluster.send(watched("job", from_file(dir_ + "n-second-look/job-slice.yaml"))));
  EXPECT_EQ(cluster.find("uid-one")->phase, Phase::kRejected);
  EXPECT_NE(cluster.why("uid-one").find("podset-slice-size \"two\""), std::string::npos) << cluster.why("uid-one");
}

}  // namespace updates_prop_test
}  // namespace qm::admission
