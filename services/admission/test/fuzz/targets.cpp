#include "targets.hpp"

#include "qm/admission/codec.hpp"
#include "qm/admission/translate/translate.hpp"
#include "qm/admission/webhook/review.hpp"
#include "qm/admission/webhook/server.hpp"
#include "qm/admission_policy/policy_file.hpp"
#include "qm/base/assert.hpp"
#include "quartermaster/v1/admission_service.pb.h"
#include "quartermaster/v1/events.pb.h"
#include "state/admission_state.pb.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace qm::admission::fuzz {
namespace {

namespace pb = quartermaster::v1;
namespace state = quartermaster::admission;

std::string file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
std::vector<std::string> examples() {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(QM_SOURCE_DIR "/examples")) {
    if (entry.path().extension() == ".yaml") out.push_back(file(entry.path()));
  }
  return out;
}

// ---- manifests ----

/// An accepted manifest can be parsed again from its stored form, and a whole engine accepts it.
bool feed_manifest(std::string_view bytes) {
  const auto objects = objects_from_manifest(std::string(bytes), "input.yaml", WorkloadObjects::kLeftOut);
  if (!objects) {
    QM_ASSERT(!objects.error().message.empty(), "a refusal without a message");
    return false;
  }
  for (const auto& queue : objects->cluster_queues) {
    const auto again = objects_from_manifest(queue.source, "again");
    QM_ASSERT(again && again->cluster_queues.size() == 1, "the stored form of {} cannot be parsed", queue.name);
  }
  Engine engine;
  const std::vector<Command> batch{*objects};
  (void)engine.step(batch, from_micros(1));
  engine.check_laws();
  return true;
}

// ---- reviews ----

bool feed_review(std::string_view bytes) {
  static const auto settings = [] {
    admission_policy::Settings out;
    const auto read = admission_policy::read_policy(R"(apiVersion: policy.quartermaster.dev/v1alpha1
kind: WebhookPolicy
spec:
  mode: mutate
  requiredLabels: [{key: team}]
  pools:
  - {name: a, nodeSelector: {pool: a}, node: {gpus: 8, cpu: "96", memory: 1Ti}, sharing: mps, serves: [inference]}
  gangs: {topologyMap: m, topology: rack}
)",
                                                    "policy.yaml", out);
    QM_ASSERT(read, "the policy cannot be read");
    return out;
  }();
  static const auto view = [] {
    admission_policy::View out;
    out.namespaces["team"].labels = {{"compliance", "pci"}, {"pod-security.kubernetes.io/enforce", "restricted"}};
    out.local_queues["team"] = {"default"};
    return out;
  }();
  bool taken = true;
  for (const char* path : {"/mutate", "/validate"}) {
    http::Request request;
    request.method = "POST";
    request.target = path;
    request.body = bytes;
    const auto answer = webhook::respond(request, settings, view);
    QM_ASSERT(answer.status == 200 || answer.status == 400, "status {}", answer.status);
    QM_ASSERT(answer.status != 200 || Json::parse(answer.body).has_value(), "the answer is not JSON");
    taken = taken && answer.status == 200;
  }
  return taken;
}
std::vector<std::string> reviews() {
  std::vector<std::string> out;
  for (const auto& object : config::load_path(QM_SOURCE_DIR "/examples/jobs").objects) {
    const auto& doc = object.document;
    auto request = Json::object({{"uid", "705ab4f5-6393-11e8-b7cc-42010a800002"},
                                 {"kind", Json::object({{"group", ""}, {"version", "v1"}, {"kind", doc.kind}})},
                                 {"namespace", "team"},
                                 {"operation", "CREATE"},
                                 {"userInfo", Json::object({{"username", "alice"}})},
                                 {"object", doc.content},
                                 {"oldObject", {}}});
    out.push_back(
        Json::object(
            {{"apiVersion", "admission.k8s.io/v1"}, {"kind", "AdmissionReview"}, {"request", std::move(request)}})
            .dump());
  }
  return out;
}

// ---- inputs ----

struct InputTarget {
  service::Source source;
  const char* name;
};
constexpr std::array kInputTargets{
    InputTarget{service::Source::kBus, "qm.placement"},    InputTarget{service::Source::kBus, "qm.capacity"},
    InputTarget{service::Source::kWatch, "job"},           InputTarget{service::Source::kWatch, "job.synced"},
    InputTarget{service::Source::kWatch, "pods"},          InputTarget{service::Source::kWatch, "pods.synced"},
    InputTarget{service::Source::kWatch, "workload"},      InputTarget{service::Source::kWatch, "object"},
    InputTarget{service::Source::kWatch, "object.synced"}, InputTarget{service::Source::kRequest, "Submit"},
    InputTarget{service::Source::kRequest, "Cancel"},      InputTarget{service::Source::kRequest, "Apply"},
    InputTarget{service::Source::kRequest, "AnswerCheck"}, InputTarget{service::Source::kRequest, "SetActive"},
    InputTarget{service::Source::kOutcome, "job.create"},  InputTarget{service::Source::kOutcome, "job.unsuspend"},
    InputTarget{service::Source::kOutcome, "job.suspend"}, InputTarget{service::Source::kOutcome, "event.create"},
    InputTarget{service::Source::kBus, "qm.cost"}};

/// The target number is the first byte, so corruption leads to other targets too.
std::string through(std::string_view name, const std::string& bytes) {
  const auto target = std::ranges::find(kInputTargets, name, &InputTarget::name);
  QM_ASSERT(target != kInputTargets.end(), "no target {}", name);
  return static_cast<char>(target - kInputTargets.begin()) + bytes;
}

/// Queues, one workload with quota and one pending: objects that an event can refer to.
std::vector<Command> world() {
  auto objects = *objects_from_manifest(R"(
kind: ResourceFlavor
apiVersion: kueue.x-k8s.io/v1beta2
metadata: {name: any}
---
kind: ClusterQueue
apiVersion: kueue.x-k8s.io/v1beta2
metadata: {name: q}
spec:
  namespaceSelector: {}
  preemption: {withinClusterQueue: LowerPriority}
  resourceGroups:
  - coveredResources: [nvidia.com/gpu]
    flavors: [{name: any, resources: [{name: nvidia.com/gpu, nominalQuota: 1}]}]
)",
                                        "world");
  std::vector<Command> out{std::move(objects)};
  for (const char* uid : {"u1", "u2"}) {
    JobUpdated seen;
    seen.spec.uid = WorkloadUid(uid);
    seen.spec.ns = Namespace("team");
    seen.spec.name = uid;
    seen.spec.queue = "q";
    PodSet pods;
    pods.shape.gpu.whole = 1;
    seen.spec.pod_sets.push_back(pods);
    out.emplace_back(std::move(seen));
  }
  return out;
}

bool feed_input(std::string_view bytes) {
  if (bytes.empty()) return false;
  const auto& target = kInputTargets[static_cast<unsigned char>(bytes.front()) % kInputTargets.size()];
  service::Input input;
  input.source = target.source;
  input.name = target.name;
  input.id = "input";
  input.bytes = bytes.substr(1);
  const Codec codec;
  const auto commands = codec.decode(input);
  if (!commands) {
    QM_ASSERT(!commands.error().message.empty(), "a refusal without a message");
    return false;
  }
  Engine engine;
  std::map<std::pair<std::string, std::string>, std::optional<std::string>> rows;
  const auto decide = [&](const std::vector<Command>& batch, Instant now) {
    const auto out = engine.step(batch, now);
    engine.check_laws();
    service::Effects effects;
    codec.encode(engine, out, std::vector<std::size_t>(batch.size()), effects);
    engine.commit();
    for (auto& row : effects.state) rows[{row.kind, row.key}] = std::move(row.value);
  };
  decide(world(), from_micros(1'000'000));
  decide(*commands, from_micros(2'000'000));
  // What is written can be loaded again and is equal.
  std::vector<store::StateRow> written;
  for (const auto& [at, value] : rows) written.push_back({at.first, at.second, value});
  Engine again;
  const auto loaded = codec.load(again, written);
  QM_ASSERT(loaded, "{}", loaded.error().to_string());
  again.check_laws();
  QM_ASSERT(again.digest() == engine.digest(), "the rows are not complete");
  return !commands->empty();
}
/// The object as a watch reports it, with the fields that the API server sets.
Json watched(Json object, const char* uid) {
  auto metadata = object["metadata"];
  metadata.set("uid", uid);
  metadata.set("namespace", "team");
  metadata.set("creationTimestamp", "2026-01-02T03:04:05Z");
  object.set("metadata", std::move(metadata));
  return object;
}

/// A few inputs of each target, so that each one is used often.
std::vector<std::string> inputs() {
  std::vector<std::string> out;
  pb::PlacementEvent placed;
  placed.mutable_assignment()->set_uid("u1");
  placed.mutable_assignment()->set_attempt(1);
  placed.mutable_assignment()->set_state(pb::RESERVED);
  placed.mutable_assignment()->set_reservation_id("r");
  out.push_back(through("qm.placement", placed.SerializeAsString()));
  pb::PlacementEvent evicted;
  evicted.mutable_eviction()->set_uid("u1");
  evicted.mutable_eviction()->set_attempt(1);
  evicted.mutable_eviction()->set_reason("Defragmentation");
  out.push_back(through("qm.placement", evicted.SerializeAsString()));
  pb::CapacityEvent promise;
  promise.mutable_promise()->set_uid("u2");
  promise.mutable_promise()->set_attempt(1);
  promise.mutable_promise()->set_ready_by_us(9'000'000);
  out.push_back(through("qm.capacity", promise.SerializeAsString()));
  pb::CapacityEvent checkpoint;
  checkpoint.mutable_checkpoint()->set_uid("u1");
  checkpoint.mutable_checkpoint()->set_attempt(1);
  checkpoint.mutable_checkpoint()->set_outcome("Acked");
  checkpoint.mutable_checkpoint()->set_uri("s3://a/b");
  out.push_back(through("qm.capacity", checkpoint.SerializeAsString()));
  pb::CostEvent grant;
  grant.mutable_grant()->set_budget("b");
  grant.mutable_grant()->set_sequence(1);
  grant.mutable_grant()->set_cluster_queue("q");
  grant.mutable_grant()->set_default_run_us(9'000'000);
  auto& allotment = *grant.mutable_grant()->add_allotments();
  allotment.set_to_us(9'000'000'000);
  allotment.set_amount(9'000);
  allotment.set_carry_over_permille(500);
  out.push_back(through("qm.cost", grant.SerializeAsString()));
  pb::CostEvent spent;
  spent.mutable_spent()->set_uid("u1");
  spent.mutable_spent()->set_attempt(1);
  spent.mutable_spent()->set_gpu_micros(9'000'000);
  out.push_back(through("qm.cost", spent.SerializeAsString()));
  for (const auto& object : config::load_path(QM_SOURCE_DIR "/examples/jobs").objects) {
    out.push_back(through("job", watched(object.document.content, "u3").dump()));
  }
  out.push_back(
      through("job", R"({"deleted":true,"kind":"Job","metadata":{"uid":"u1","name":"u1","namespace":"team"}})"));
  out.push_back(through("job.synced", R"({"kind":"Job","uids":["u1"]})"));
  out.push_back(through("pods", R"({"kind":"PodGroup","metadata":{"name":"g","namespace":"team","uid":"g1"},"pods":[
{"metadata":{"name":"a","namespace":"team","uid":"p1","creationTimestamp":"2026-01-02T03:04:05Z","labels":{
"kueue.x-k8s.io/queue-name":"q","kueue.x-k8s.io/pod-group-name":"g"},"annotations":{"kueue.x-k8s.io/pod-group-total-count":"2"}},
"spec":{"schedulingGates":[{"name":"quartermaster.dev/admission"}],"containers":[{"name":"c","resources":{"requests":{"cpu":"1",
"nvidia.com/gpu":"1"},"limits":{"nvidia.com/gpu":"1"}}}]},"status":{"phase":"Pending"}},
{"metadata":{"name":"b","namespace":"team","uid":"p2","labels":{"kueue.x-k8s.io/pod-group-name":"g"}},
"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"1"}}}]},"status":{"phase":"Running"}}]})"));
  out.push_back(through("pods.synced", R"({"uids":["u1","u2"]})"));
  out.push_back(through("workload", R"({"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"Workload","metadata":{"name":"w",
"namespace":"team","uid":"w1","creationTimestamp":"2026-01-02T03:04:05Z"},"spec":{"queueName":"q","active":true,"podSets":[
{"name":"main","count":2,"template":{"spec":{"containers":[{"name":"c","resources":{"requests":{"nvidia.com/gpu":"1"}}}]}}}]}})"));
  std::string queue;
  for (const auto& object : config::load_path(QM_SOURCE_DIR "/examples/queues").objects) {
    queue = object.document.content.dump();
    out.push_back(through("object", queue));
  }
  out.push_back(through("object", R"({"deleted":true,"kind":"ClusterQueue","metadata":{"name":"q"}})"));
  out.push_back(through("object.synced", R"({"kind":"ClusterQueue","objects":[{"namespace":"","name":"q"}]})"));
  pb::SubmitRequest submit;
  submit.set_manifest(file(QM_SOURCE_DIR "/examples/jobs/finetune.yaml"));
  out.push_back(through("Submit", submit.SerializeAsString()));
  pb::CancelRequest cancel;
  cancel.set_uid("u1");
  out.push_back(through("Cancel", cancel.SerializeAsString()));
  pb::ApplyRequest apply;
  apply.set_manifest(queue);
  out.push_back(through("Apply", apply.SerializeAsString()));
  pb::AnswerCheckRequest answer;
  answer.set_uid("u1");
  answer.set_check("provision");
  answer.set_state(pb::CHECK_RETRY);
  answer.set_retry_after_us(1'000'000);
  out.push_back(through("AnswerCheck", answer.SerializeAsString()));
  pb::SetActiveRequest stop;
  stop.set_uid("u1");
  out.push_back(through("SetActive", stop.SerializeAsString()));
  state::JobOutcome done;
  done.set_subject("u1");
  done.set_attempt(1);
  done.set_ok(true);
  done.set_quiet(true);
  for (const char* kind : {"job.create", "job.unsuspend", "job.suspend"}) {
    out.push_back(through(kind, done.SerializeAsString()));
  }
  return out;
}

constexpr std::array kTargets{Target{"manifest", feed_manifest, examples}, Target{"review", feed_review, reviews},
                              Target{"input", feed_input, inputs}};

}  // namespace

std::span<const Target> targets() { return kTargets; }

}  // namespace qm::admission::fuzz
