#include "qm/admission/codec.hpp"

#include "job_server.hpp"
#include "qm/admission/translate/translate.hpp"
#include "qm/admission/watch.hpp"
#include "qm/model/owned_metadata.hpp"
#include "qm/testing/state.hpp"
#include "quartermaster/v1/admission_service.pb.h"
#include "quartermaster/v1/events.pb.h"
#include "src/shell/rows/rows.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

namespace qm::admission {
namespace codec_test {

namespace pb = quartermaster::v1;
using service::Input;
using service::Source;

template <class Message>
Input input_of(Source source, const std::string& name, const Message& message) {
  Input input;
  input.source = source;
  input.name = name;
  input.bytes = message.SerializeAsString();
  return input;
}
Input job_input(const Json& job) {
  Input input;
  input.source = Source::kWatch;
  input.name = "job";
  input.bytes = job.dump();
  return input;
}

template <class C>
C only(const Input& input) {
  const auto commands = Codec{}.decode(input);
  EXPECT_TRUE(commands) << (commands ? "" : commands.error().to_string());
  if (!commands || commands->size() != 1 || !std::holds_alternative<C>(commands->front())) {
    ADD_FAILURE() << "not exactly one command";
    return {};
  }
  return std::get<C>(commands->front());
}

TEST(AdmissionCodec, ParsesJob) {
  Json job = testing::make_job("team", "train", "q", 4, 2);
  job.set("spec").set("template").set("metadata").set("annotations").set(words::kAttempt, "3");
  const auto seen = only<JobUpdated>(job_input(job));
  EXPECT_EQ(seen.spec.uid.value(), "uid-train");
  EXPECT_EQ(seen.spec.queue, "q");
  EXPECT_EQ(seen.spec.team.value(), "team");
  EXPECT_EQ(seen.spec.total_pods(), 2);
  EXPECT_EQ(seen.spec.total_gpu_milli(), 8000);
  EXPECT_TRUE(seen.suspended);
  EXPECT_EQ(seen.attempt, 3);
  EXPECT_FALSE(seen.complete);
  job.set("status").set("conditions",
                        *Json::parse(R"([{"type":"Failed","status":"True"},{"type":"Complete","status":"False"}])"));
  EXPECT_TRUE(only<JobUpdated>(job_input(job)).failed);
  EXPECT_FALSE(only<JobUpdated>(job_input(job)).complete);
}

// Topology and pod affinity are for placement: they are published to it with the workload.
TEST(AdmissionCodec, KeepsPlacementConstraints) {
  Json job = testing::make_job("team", "train", "q", 4, 2);
  Json& pods = job.set("spec").set("template");
  pods.set("metadata").set("annotations").set("kueue.x-k8s.io/podset-required-topology", "rack");
  pods.set("spec").set("affinity",
                       *Json::parse(R"({"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[
    {"topologyKey":"kubernetes.io/hostname","labelSelector":{"matchLabels":{"app":"train"}}}]}})"));
  Workload w;
  w.spec = only<JobUpdated>(job_input(job)).spec;
  ASSERT_EQ(w.spec.pod_sets->size(), 1U);
  EXPECT_EQ((*w.spec.pod_sets)[0].topology.required, "rack");
  EXPECT_NE((*w.spec.pod_sets)[0].rules.find("podAntiAffinity"), std::string::npos);
  EXPECT_TRUE(from_row(to_row(w)) == w);
}

// S-270: in a label or an annotation, of the job or of its pods.
TEST(AdmissionCodec, ReadsQueueNameFromFourPlaces) {
  for (const char* where : {"labels", "annotations"}) {
    for (const bool of_the_pods : {false, true}) {
      Json job = testing::make_job("team", "train", "", 4);
      job.set("metadata").erase("labels");
      Json& carrier = of_the_pods ? job.set("spec").set("template") : job;
      carrier.set("metadata").set(where).set(words::kQueueLabel, "research-queue");
      EXPECT_EQ(only<JobUpdated>(job_input(job)).spec.queue, "research-queue") << where << of_the_pods;
    }
  }
}

TEST(AdmissionCodec, ParsesFinishedJobAndList) {
  EXPECT_EQ(only<JobDeleted>(job_input(*Json::parse(R"({"deleted":true,"metadata":{"uid":"u"}})"))).uid.value(), "u");
  Input synced = job_input(Json());
  synced.name = "job.synced";
  synced.bytes = R"({"kind":"PyTorchJob","uids":["a","b"]})";
  EXPECT_EQ(only<JobsSynced>(synced).uids.size(), 2U);
  EXPECT_EQ(only<JobsSynced>(synced).kind, "PyTorchJob");
}

TEST(AdmissionCodec, IgnoresUnmanagedJobs) {
  Json job = testing::make_job("team", "train", "q", 4);
  job.set("metadata").erase("labels");
  job.set("spec").set("template").set("spec").erase("schedulerName");
  EXPECT_TRUE(Codec{}.decode(job_input(job))->empty());
}

TEST(AdmissionCodec, ParsesPlacement) {
  pb::PlacementEvent e;
  auto& a = *e.mutable_assignment();
  a.set_uid("u");
  a.set_attempt(2);
  a.set_state(pb::SHORT);
  a.set_short_reason("fragmented");
  const auto updated = only<PlacementUpdated>(input_of(Source::kBus, "qm.placement", e));
  EXPECT_EQ(updated.state, Answer::kShort);
  EXPECT_EQ(updated.reason, "fragmented");
  pb::PlacementEvent asked;
  asked.mutable_eviction()->set_uid("u");
  asked.mutable_eviction()->set_reason("NodeFailure");
  EXPECT_EQ(only<EvictionRequested>(input_of(Source::kBus, "qm.placement", asked)).from, "placement");
  asked.mutable_eviction()->set_save_until_us(77);
  EXPECT_TRUE(Codec{}.decode(input_of(Source::kBus, "qm.placement", asked))->empty()) << "it saves a checkpoint first";
  asked.mutable_eviction()->clear_save_until_us();
  Input over = input_of(Source::kBus, "qm.placement", asked);
  over.tombstone = true;
  EXPECT_TRUE(Codec{}.decode(over)->empty());
  pb::PlacementEvent proposed;
  auto& p = *proposed.mutable_proposal();
  p.set_number(3);
  p.set_uid("u");
  p.set_attempt(2);
  p.set_reason("Preemption");
  p.set_micro_usd(410'000);
  p.add_victims()->set_uid("v");
  p.mutable_victims(0)->set_attempt(4);
  const auto proposal = only<ProposalUpdated>(input_of(Source::kBus, "qm.placement", proposed));
  EXPECT_EQ(proposal.number, 3);
  EXPECT_EQ(proposal.attempt, 2);
  EXPECT_FALSE(proposal.move || proposal.withdrawn);
  ASSERT_EQ(proposal.victims.size(), 1U);
  EXPECT_EQ(proposal.victims[0].attempt, 4);
  Input taken_back = input_of(Source::kBus, "qm.placement", proposed);
  taken_back.tombstone = true;
  EXPECT_TRUE(std::get<ProposalUpdated>(Codec{}.decode(taken_back)->at(0)).withdrawn);
  p.set_reason("Consolidation");
  EXPECT_TRUE(only<ProposalUpdated>(input_of(Source::kBus, "qm.placement", proposed)).move);
  pb::PlacementEvent demand;
  demand.mutable_demand();
  EXPECT_TRUE(Codec{}.decode(input_of(Source::kBus, "qm.placement", demand))->empty());
}

TEST(AdmissionCodec, ParsesCapacity) {
  pb::CapacityEvent e;
  e.mutable_promise()->set_uid("u");
  e.mutable_promise()->set_ready_by_us(77);
  auto input = input_of(Source::kBus, "qm.capacity", e);
  EXPECT_EQ(micros(only<PromiseUpdated>(input).ready_by), 77);
  EXPECT_FALSE(only<PromiseUpdated>(input).withdrawn);
  input.tombstone = true;
  EXPECT_TRUE(only<PromiseUpdated>(input).withdrawn);
  pb::CapacityEvent evict;
  evict.mutable_eviction()->set_resume_uri("uri");
  EXPECT_EQ(only<EvictionRequested>(input_of(Source::kBus, "qm.capacity", evict)).resume_uri, "uri");
  pb::CapacityEvent saved;
  saved.mutable_checkpoint()->set_outcome("Acked");
  saved.mutable_checkpoint()->set_uri("uri");
  EXPECT_EQ(only<CheckpointUpdated>(input_of(Source::kBus, "qm.capacity", saved)).uri, "uri");
  pb::PlacementEvent requeue;
  auto* item = requeue.mutable_requeue()->add_items();
  item->set_uid("u");
  item->set_attempt(2);
  const auto updated = only<RequeueListUpdated>(input_of(Source::kBus, "qm.placement", requeue));
  ASSERT_EQ(updated.items.size(), 1U);
  EXPECT_EQ(updated.items[0], std::pair(WorkloadUid("u"), 2));
}

TEST(AdmissionCodec, BudgetAndSpendingForgottenByCostEnd) {
  pb::CostEvent event;
  event.mutable_grant()->set_budget("b");
  event.mutable_grant()->set_withdrawn(true);
  auto input = input_of(Source::kBus, "qm.cost", event);
  input.tombstone = true;
  const auto withdrawn = only<BudgetGranted>(input);
  EXPECT_EQ(withdrawn.budget, "b");
  EXPECT_TRUE(withdrawn.withdrawn);

  pb::CostEvent spent;
  spent.mutable_spent()->set_uid("w");
  spent.mutable_spent()->set_attempt(2);
  spent.mutable_spent()->set_final(true);
  input = input_of(Source::kBus, "qm.cost", spent);
  EXPECT_FALSE(only<SpendingUpdated>(input).forgotten) << "it cost nothing";
  input.tombstone = true;
  EXPECT_TRUE(only<SpendingUpdated>(input).forgotten) << "its cost is unknown, and is unchanged";
}

TEST(AdmissionCodec, ParsesBudgetsAndSpending) {
  pb::CostEvent event;
  auto& grant = *event.mutable_grant();
  grant.set_budget("b");
  grant.set_sequence(7);
  grant.set_team("red");
  grant.set_unit(pb::BUDGET_NANO_USD);
  grant.set_soft(true);
  grant.set_default_run_us(9);
  auto& one = *grant.add_allotments();
  one.set_from_us(1);
  one.set_to_us(2);
  one.set_amount(3);
  one.set_carry_over_permille(4);
  auto& price = *grant.add_prices();
  price.set_instance_type("p5");
  price.set_gpu_product("H100");
  price.set_nano_usd_gpu_hour(5);
  auto input = input_of(Source::kBus, "qm.cost", event);
  input.version = 11;
  const auto updated = only<BudgetGranted>(input);
  EXPECT_EQ(updated.budget, "b");
  EXPECT_EQ(updated.sequence, 11U) << "of the key: cost's own number starts again where its database lost grants";
  EXPECT_EQ(updated.terms, (BudgetTerms{{}, {}, Team("red"), true, true, Duration(9), {{"p5", "H100", 5}}}));
  ASSERT_EQ(updated.allotments.size(), 1U);
  EXPECT_EQ(updated.allotments[0].amount, 3);
  EXPECT_EQ(updated.allotments[0].carry_over_permille, 4);
  EXPECT_EQ(updated.allotments[0].period.to, from_micros(2));
  const auto refused = [&] { return !Codec{}.decode(input_of(Source::kBus, "qm.cost", event)); };
  grant.set_namespace_("a");
  EXPECT_TRUE(refused()) << "two scopes";
  grant.clear_namespace_();
  one.set_amount(-1);
  EXPECT_TRUE(refused());

  pb::CostEvent spent;
  spent.mutable_spent()->set_uid("w");
  spent.mutable_spent()->set_attempt(2);
  spent.mutable_spent()->set_nano_usd(3);
  spent.mutable_spent()->set_gpu_micros(4);
  spent.mutable_spent()->set_final(true);
  const auto settled = only<SpendingUpdated>(input_of(Source::kBus, "qm.cost", spent));
  EXPECT_EQ(settled.uid, WorkloadUid("w"));
  EXPECT_EQ(settled.attempt, 2);
  EXPECT_EQ(settled.nano_usd, 3);
  EXPECT_EQ(settled.gpu_micros, 4);
  EXPECT_TRUE(settled.final);
  EXPECT_FALSE(settled.forgotten);
  spent.mutable_spent()->set_nano_usd(std::numeric_limits<std::int64_t>::max());
  EXPECT_FALSE(Codec{}.decode(input_of(Source::kBus, "qm.cost", spent)));
  pb::CostEvent totals;
  totals.mutable_totals()->set_team("t");
  EXPECT_TRUE(Codec{}.decode(input_of(Source::kBus, "qm.cost", totals))->empty());
}

TEST(AdmissionCodec, RefusesUnreadableInput) {
  Input bad;
  bad.source = Source::kBus;
  bad.name = "qm.placement";
  bad.bytes = "\xff\xff\xff";
  EXPECT_EQ(Codec{}.decode(bad).error().code, Code::kInvalid);
  bad.source = Source::kWatch;
  bad.name = "job";
  bad.bytes = "{";
  EXPECT_FALSE(Codec{}.decode(bad));
  bad.bytes = "{}";
  bad.name = "cat";
  EXPECT_FALSE(Codec{}.decode(bad));
  bad.source = Source::kRequest;
  EXPECT_EQ(Codec{}.decode(bad).error().code, Code::kUnimplemented);
}

TEST(AdmissionCodec, TraceOfSubmitIsInJobAnnotation) {
  const std::string trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  pb::SubmitRequest r;
  r.set_manifest(testing::make_job("team", "train", "q", 1).dump());
  const auto traced = submit_from(r, trace);
  ASSERT_TRUE(traced) << traced.error().to_string();
  EXPECT_EQ(trace_of(*Json::parse(traced->job)), trace);
  const auto plain = submit_from(r);
  ASSERT_TRUE(plain) << plain.error().to_string();
  EXPECT_EQ(trace_of(*Json::parse(plain->job)), "");
  const auto endless = submit_from(r, std::string(129, 'a'));
  ASSERT_TRUE(endless) << endless.error().to_string();
  EXPECT_EQ(trace_of(*Json::parse(endless->job)), "") << "the size of the annotation is bounded";
}

TEST(AdmissionCodec, SubmitAcceptsManifestOrSpec) {
  pb::SubmitRequest r;
  EXPECT_EQ(submit_from(r).error().field, "manifest");
  r.set_manifest("kind: ConfigMap\napiVersion: v1\nmetadata: {name: x}\n");
  EXPECT_EQ(submit_from(r).error().code, Code::kInvalid);
  Json job = testing::make_job("team", "train", "q", 4);
  job.set("spec").set("suspend", false);
  job.set("spec").set("template").set("spec").erase("schedulerName");
  r.set_manifest(job.dump());
  (*r.mutable_pod_annotations())["fleet.quartermaster.dev/run-seconds"] = "5";
  const auto submit = submit_from(r);
  ASSERT_TRUE(submit) << submit.error().to_string();
  const Json made = *Json::parse(submit->job);
  EXPECT_TRUE(made["spec"]["suspend"].boolean());
  EXPECT_EQ(made.path("spec.template.spec.schedulerName").string(), "quartermaster");
  EXPECT_EQ(made.path("spec.template.metadata.annotations")["fleet.quartermaster.dev/run-seconds"].string(), "5");
  EXPECT_EQ(submit->queue, "q");

  pb::SubmitRequest by_spec;
  by_spec.mutable_spec()->set_name("made");
  by_spec.mutable_spec()->set_queue("q");
  auto& set = *by_spec.mutable_spec()->add_pod_sets();
  set.set_count(0);
  EXPECT_EQ(submit_from(by_spec).error().field, "spec.pod_sets[0].count");
  set.set_count(2);
  set.mutable_shape()->mutable_gpu()->set_whole(8);
  const auto made_from_spec = submit_from(by_spec);
  ASSERT_TRUE(made_from_spec) << made_from_spec.error().to_string();
  EXPECT_EQ(made_from_spec->ns.value(), "default");
  by_spec.mutable_spec()->add_pod_sets();
  EXPECT_EQ(submit_from(by_spec).error().field, "spec.pod_sets");
}

// Our account creates the job, so it would write metadata for the caller that the caller may not write.
TEST(AdmissionCodec, SubmitRefusesOwnMetadata) {
  const auto field_of = [](const std::function<void(Json&)>& change) {
    Json job = testing::make_job("team", "train", "q", 4);
    change(job);
    pb::SubmitRequest r;
    r.set_manifest(job.dump());
    const auto submit = submit_from(r);
    return submit ? std::string("taken") : submit.error().field;
  };
  const auto pods = [](Json& job) -> Json& { return job.set("spec").set("template").set("metadata"); };
  EXPECT_EQ(field_of([](Json&) {}), "taken");
  for (const auto key : words::kOwnedPodAnnotations) {
    EXPECT_EQ(field_of([&](Json& job) { pods(job).set("annotations").set(key, "1"); }),
              fmt::format("spec.template.metadata.annotations[{}]", key));
  }
  for (const auto key : words::kOwnedObjectAnnotations) {
    EXPECT_EQ(field_of([&](Json& job) { job.set("metadata").set("annotations").set(key, "1"); }),
              fmt::format("metadata.annotations[{}]", key));
  }
  EXPECT_EQ(field_of([&](Json& job) { pods(job).set("labels").set(words::kOwnedLabel, "true"); }),
            "spec.template.metadata.labels[quartermaster.dev/unadmitted]");
  EXPECT_EQ(field_of([&](Json& job) { job.set("metadata").set("labels").set(words::kOwnedLabel, "true"); }),
            "metadata.labels[quartermaster.dev/unadmitted]");

  pb::SubmitRequest added;
  added.set_manifest(testing::make_job("team", "train", "q", 4).dump());
  (*added.mutable_pod_annotations())["quartermaster.dev/devices"] = "0";
  EXPECT_EQ(submit_from(added).error().field, "spec.template.metadata.annotations[quartermaster.dev/devices]");
  pb::SubmitRequest by_spec;
  by_spec.mutable_spec()->set_name("made");
  by_spec.mutable_spec()->add_pod_sets()->set_count(1);
  (*by_spec.mutable_spec()->mutable_labels())["quartermaster.dev/unadmitted"] = "true";
  EXPECT_NE(submit_from(by_spec).error().message.find("is written by Quartermaster alone"), std::string::npos);
}

TEST(AdmissionCodec, ApplyIsAtomicAndNamesPlaces) {
  const auto good = objects_from_manifest(testing::kQueues, "queues.yaml");
  ASSERT_TRUE(good) << good.error().to_string();
  EXPECT_EQ(good->applied,
            (std::vector<std::string>{"ResourceFlavor/h100", "ClusterQueue/research", "LocalQueue/team/q"}));
  EXPECT_EQ(good->cluster_queues[0].groups[0].flavors[0].resources.at("nvidia.com/gpu").nominal, 8000);
  EXPECT_EQ(good->flavors[0].node_labels.at("model"), "h100");
  std::string text = testing::kQueues;
  text +=
      "---\napiVersion: kueue.x-k8s.io/v1beta1\nkind: ClusterQueue\nmetadata: {name: "
      "broken}\nspec:\n  resourceGroups:\n"
      "  - coveredResources: [cpu]\n    flavors:\n    - name: h100\n      resources: [{name: cpu, "
      "nominalQuota: much}]\n";
  const auto bad = objects_from_manifest(text, "queues.yaml");
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().code, Code::kInvalid);
  EXPECT_NE(bad.error().message.find("queues.yaml:"), std::string::npos) << bad.error().message;
  EXPECT_FALSE(objects_from_manifest("", "empty.yaml"));
  const auto foreign = objects_from_manifest("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n", "x.yaml");
  ASSERT_TRUE(foreign);
  EXPECT_EQ(
      foreign->warnings,
      (std::vector<std::string>{
          "x.yaml:1: ConfigMap/x is not applied: admission reads ClusterQueues, LocalQueues, Cohorts, ResourceFlavors, "
          "Topologies, priority classes, AdmissionChecks and Namespaces; create it with kubectl apply -f x.yaml"}));
  const auto job = objects_from_manifest(
      "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j, namespace: team}\nspec: {template: {spec: {containers: "
      "[{name: t, image: i}]}}}\n",
      "job.yaml");
  ASSERT_FALSE(job);
  EXPECT_EQ(job.error().message, "job.yaml:1: Job/team/j is a workload, and apply takes configuration only");
  EXPECT_EQ(job.error().remedy, "submit the Job: qmctl submit -f job.yaml");
}

TEST(AdmissionCodec, RowRoundTrips) {
  Workload w;
  w.spec.uid = WorkloadUid("u");
  w.spec.ns = Namespace("team");
  w.spec.name = "train";
  w.spec.queue = "q";
  w.spec.priority = 7;
  w.spec.priority_class = "high";
  w.spec.team = Team("t");
  w.spec.submitted = from_micros(5);
  w.spec.expected_runtime = Duration{6};
  w.spec.labels = Labels{{"a", "b"}};
  w.spec.checkpoints = true;
  PodSet set;
  set.count = 2;
  set.shape.cpu_milli = 1500;
  set.shape.memory_bytes = 1 << 30;
  set.shape.gpu.whole = 8;
  set.shape.gpu.models = {"H100"};
  set.shape.node_selector = {{"k", "v"}};
  set.shape.tolerations = {{"k", "Exists", "", "NoSchedule"}};
  set.shape.extended = {{"x/y", 3}};
  set.topology = {"zone", "", "rack", 2, "all"};
  set.rules = "{}";
  w.spec.pod_sets = std::vector{set};
  w.attempt = 3;
  w.version = 9;
  w.phase = Phase::kEvicting;
  w.cluster_queue = QueueName("research");
  w.flavors.edit()["main"]["nvidia.com/gpu"] = FlavorName("h100");
  w.usage.edit()[{FlavorName("h100"), "nvidia.com/gpu"}] = 16000;
  w.queued = from_micros(1);
  w.quota_reserved = from_micros(2);
  w.admitted = from_micros(3);
  w.eviction = Eviction{"SpotInterruption", "node n", from_micros(10), from_micros(4), true};
  w.reason = "SpotInterruption";
  w.answer = Answer::kBound;
  w.reservation = "r";
  w.short_reason = "s";
  w.short_streak = 2;
  w.promised_attempt = 1;
  w.promised_until = from_micros(11);
  w.resume_uri = "uri";
  w.resume_attempt = 2;
  w.not_before = from_micros(12);
  w.retry_at = from_micros(13);
  w.wait_deadline = from_micros(14);
  w.cancelled = true;
  w.except([&](Exceptions& e) {
    e.cancel_reason = "mistake";
    e.rejected = "spec.parallelism 200000 is out of range";
    e.next = w.spec;
    e.scale_up_to = 6;
    e.scaled_from = 4;
  });
  w.job_deleted = true;
  w.queue_is_direct = true;
  w.priority_unknown = true;
  w.intents = 4;
  w.open_intents = 1;
  w.spec.pod_sets.edit()[0].min_count = 1;
  w.counts = Counts{1};
  w.ended_pods = 1;
  w.quota_position = 2;
  w.claim = Claim{w.flavors, w.usage, Counts{1}, {}, {WorkloadUid("v")}};
  w.budget = "b";
  EXPECT_TRUE(from_row(to_row(w)) == w);
  const Submission s{Namespace("team"), "x", "q", Team("t"), "id", from_micros(3), true, "no"};
  EXPECT_TRUE(from_row(to_row(s)) == s);
}

TEST(AdmissionCodec, ReloadedShellIsEqual) {
  AdmissionShell shell(std::make_unique<Engine>(), Codec{});
  std::map<std::pair<std::string, std::string>, std::string> disk;
  Instant now = from_micros(1'800'000'000'000'000);
  const auto step = [&](const Input& input) {
    service::Effects effects;
    std::vector<std::pair<std::size_t, Error>> poison;
    shell.step(std::vector<Input>{input}, now += std::chrono::seconds(1), effects, poison);
    shell.commit();
    for (const auto& row : effects.state) {
      if (row.value) {
        disk[{row.kind, row.key}] = *row.value;
      } else {
        disk.erase({row.kind, row.key});
      }
    }
    return effects;
  };
  pb::ApplyRequest apply;
  apply.set_manifest(testing::kQueues);
  auto effects = step(input_of(Source::kRequest, "Apply", apply));
  ASSERT_EQ(effects.answers.size(), 1U);
  ASSERT_TRUE(effects.answers[0].reply) << effects.answers[0].reply.error().to_string();
  // A budget that pays for one of two workloads, in dollars.
  pb::CostEvent reported;
  auto& grant = *reported.mutable_grant();
  grant.set_budget("lab");
  grant.set_sequence(1);
  grant.set_namespace_("team");
  grant.set_unit(pb::BUDGET_NANO_USD);
  grant.set_default_run_us(3'600'000'000);
  auto& allotment = *grant.add_allotments();
  allotment.set_from_us(micros(now));
  allotment.set_to_us(micros(now + std::chrono::hours(1)));
  allotment.set_amount(85'000'000'000);
  grant.add_prices()->set_nano_usd_gpu_hour(10'000'000'000);
  EXPECT_FALSE(step(input_of(Source::kBus, "qm.cost", reported)).state.empty());
  effects = step(job_input(testing::make_job("team", "a", "q", 8)));
  ASSERT_EQ(effects.events.size(), 2U);
  pb::WorkloadEvent event;
  ASSERT_TRUE(event.ParseFromString(effects.events[1].payload));
  EXPECT_EQ(event.phase(), pb::QUOTA_RESERVED);
  EXPECT_EQ(event.flavors().at("main"), "h100");
  // The request to placement includes the effects of the flavor on the pods.
  EXPECT_EQ(event.spec().pod_sets(0).shape().node_selector().at("model"), "h100");
  EXPECT_EQ(event.spec().pod_sets(0).shape().tolerations_size(), 1);
  ASSERT_TRUE(effects.wake_at);
  step(job_input(testing::make_job("team", "b", "q", 8)));
  pb::PlacementEvent reserved;
  reserved.mutable_assignment()->set_uid("uid-a");
  reserved.mutable_assignment()->set_attempt(1);
  reserved.mutable_assignment()->set_state(pb::RESERVED);
  effects = step(input_of(Source::kBus, "qm.placement", reserved));
  ASSERT_EQ(effects.intents.size(), 1U);
  EXPECT_EQ(effects.intents[0].kind, "job.unsuspend");
  // Placement proposes to migrate it, and admission accepts.
  pb::PlacementEvent moves;
  auto& move = *moves.mutable_proposal();
  move.set_number(9);
  move.set_uid("uid-a");
  move.set_attempt(1);
  move.set_reason("Consolidation");
  move.add_victims()->set_uid("uid-a");
  move.mutable_victims(0)->set_attempt(1);
  effects = step(input_of(Source::kBus, "qm.placement", moves));
  ASSERT_EQ(effects.events.size(), 1U);
  ASSERT_TRUE(event.ParseFromString(effects.events[0].payload));
  EXPECT_EQ(event.eviction().reason(), "Consolidated");
  EXPECT_TRUE(event.proposal().accepted());
  EXPECT_EQ(event.proposal().number(), 9);
  EXPECT_EQ(event.quota_tree(), "queue/research");
  EXPECT_TRUE(disk.contains({"proposal", "uid-a"}));
  EXPECT_TRUE(disk.contains({"preemption_budget", "preemption_budget"}));
  pb::SubmitRequest submit;
  submit.set_manifest(testing::make_job("team", "c", "q", 1).dump());
  step(input_of(Source::kRequest, "Submit", submit));
  pb::CostEvent spent;
  spent.mutable_spent()->set_uid("uid-a");
  spent.mutable_spent()->set_attempt(1);
  spent.mutable_spent()->set_nano_usd(4'000'000'000);
  step(input_of(Source::kBus, "qm.cost", spent));
  const auto& tables = shell.engine().tables();
  EXPECT_EQ(tables.holds.size(), 1U);
  EXPECT_EQ(tables.budgets.find("lab")->account.allotments().begin()->second.spent, 4'000'000'000);
  EXPECT_EQ(tables.workloads.find(WorkloadUid("uid-b"))->budget, "lab");

  std::vector<store::StateRow> rows;
  for (const auto& [key, value] : disk) rows.push_back({key.first, key.second, value});
  AdmissionShell other(std::make_unique<Engine>(), Codec{});
  const auto loaded = other.load(rows);
  ASSERT_TRUE(loaded) << loaded.error().to_string();
  EXPECT_EQ(other.digest(), shell.digest());
  other.engine().check_laws();
  EXPECT_EQ(qm::testing::whole_state<service::StateDump>(other)["phases"]["Evicting"].integer(), 1);
  rows.push_back({"workload", "bad", "\xff\xff"});
  EXPECT_FALSE(other.load(rows));
}

TEST(AdmissionWatch, SendsOnlyRelevantChanges) {
  Json job = testing::make_job("team", "a", "q", 8);
  const auto before = job_print(job);
  job.set("status").set("failed", 3);
  EXPECT_EQ(job_print(job), before);
  job.set("status").set("active", 3);
  EXPECT_NE(job_print(job), before) << "a suspended job whose pods are still there gives nothing back yet";
  job.set("spec").set("suspend", false);
  const auto running = job_print(job);
  EXPECT_NE(running, before);
  job.set("status").set("active", 2);
  EXPECT_EQ(job_print(job), running);
}

}  // namespace codec_test
}  // namespace qm::admission
