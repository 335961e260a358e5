// Kueue's podSetUpdates: additions of admission checks to pods, from the check state to the template
// and their removal.
#include "job_server.hpp"
#include "qm/admission/codec.hpp"
#include "qm/admission/executor.hpp"
#include "qm/admission/queries/explanation.hpp"
#include "qm/admission/translate/translate.hpp"
#include "qm/admission/translate/workload_objects.hpp"
#include "quartermaster/v1/admission_service.pb.h"
#include "src/shell/rows/rows.hpp"
#include "src/shell/translate/pods.hpp"
#include "state/admission_state.pb.h"

#include <gtest/gtest.h>

namespace qm::admission {
namespace pod_updates_test {

namespace pb = quartermaster::v1;
namespace state = quartermaster::admission;

const std::string kQueuesWithCheck = qm::testing::yaml_of({.flavor = "h100",
                                                           .flavor_spec = "  nodeLabels: {model: h100}\n",
                                                           .queue_spec = "  admissionChecks: [machines]\n",
                                                           .quota = {{"nvidia.com/gpu", 8}},
                                                           .more = R"(apiVersion: kueue.x-k8s.io/v1beta1
kind: AdmissionCheck
metadata: {name: machines}
spec: {controllerName: quartermaster.dev/answers}
---
)"});

service::Input input(service::Source source, const std::string& name, std::string bytes) {
  service::Input out;
  out.source = source;
  out.name = name;
  out.bytes = std::move(bytes);
  return out;
}

pb::AnswerCheckRequest answer() {
  pb::AnswerCheckRequest out;
  out.set_uid("uid-train");
  out.set_check("machines");
  out.set_state(pb::CHECK_READY);
  auto& update = *out.add_pod_set_updates();
  update.set_name("main");
  (*update.mutable_labels())["request"] = "17";
  (*update.mutable_annotations())["example.com/machines"] = "reserved";
  (*update.mutable_node_selector())["capacity"] = "booked";
  auto& toleration = *update.add_tolerations();
  toleration.set_key("booked");
  toleration.set_operator_("Exists");
  return out;
}

/// A job that holds quota and is gated by its check.
class PodSetUpdates : public ::testing::Test {
 protected:
  PodSetUpdates() : client_(server_.client()), executor_(client_) {
    step(input(service::Source::kRequest, "Apply", [] {
      pb::ApplyRequest request;
      request.set_manifest(kQueuesWithCheck);
      return request.SerializeAsString();
    }()));
    job_ = testing::make_job("team", "train", "q", 8);
    step(input(service::Source::kWatch, "job", job_.dump()));
    server_.put(job_);
  }
  Output step(const service::Input& from) {
    const auto commands = codec_.decode(from);
    EXPECT_TRUE(commands) << commands.error().to_string();
    auto out = engine_.step(*commands, now_ += std::chrono::seconds(1));
    const std::vector<std::size_t> origin(commands->size(), 0);
    effects_ = {};
    codec_.encode(engine_, out, origin, effects_);
    engine_.commit();
    return out;
  }
  Output say(const pb::AnswerCheckRequest& request) {
    return step(input(service::Source::kRequest, "AnswerCheck", request.SerializeAsString()));
  }
  const Workload& workload() { return *engine_.find(WorkloadUid("uid-train")); }
  /// Placement reserves nodes, and the resulting intent is executed.
  Result<service::Outcome> start() {
    pb::PlacementEvent event;
    auto& assignment = *event.mutable_assignment();
    assignment.set_uid("uid-train");
    assignment.set_attempt(workload().attempt);
    assignment.set_state(pb::RESERVED);
    assignment.set_reservation_id("r");
    step(input(service::Source::kBus, "qm.placement", event.SerializeAsString()));
    for (const auto& intent : effects_.intents) {
      if (intent.kind == "job.unsuspend") return executor_.execute(intent);
    }
    return fail(Code::kNotFound, "nothing is ungated");
  }
  Json now() { return server_.get("team/train"); }

  testing::JobServer server_;
  kube::Client client_;
  JobExecutor executor_;
  Engine engine_;
  Codec codec_;
  service::Effects effects_;
  Instant now_ = from_micros(1'800'000'000'000'000);
  Json job_;
};

TEST_F(PodSetUpdates, AreAppliedToTemplateAndRemovedBeforeNextAttempt) {
  ASSERT_TRUE(workload().gated);
  say(answer());
  ASSERT_FALSE(workload().gated);
  // Placement must find nodes with the labels of both the flavor and the check.
  pb::WorkloadEvent event;
  ASSERT_TRUE(event.ParseFromString(effects_.events.back().payload));
  const auto& shape = event.spec().pod_sets(0).shape();
  EXPECT_EQ(shape.node_selector().at("capacity"), "booked");
  EXPECT_EQ(shape.node_selector().at("model"), "h100");
  ASSERT_EQ(shape.tolerations_size(), 1);
  EXPECT_EQ(shape.tolerations(0).key(), "booked");
  ASSERT_TRUE(start());
  const Json pods = now().path("spec.template");
  EXPECT_EQ(kube::label(pods, "request"), "17");
  EXPECT_EQ(kube::annotation(pods, "example.com/machines"), "reserved");
  EXPECT_EQ(pods["spec"]["nodeSelector"].dump(), R"({"capacity":"booked","model":"h100"})");
  EXPECT_EQ(pods["spec"]["tolerations"].dump(), R"([{"key":"booked","operator":"Exists"}])");

  // The next attempt requires the check again; this time it only adds another label.
  pb::SetActiveRequest stop;
  stop.set_uid("uid-train");
  step(input(service::Source::kRequest, "SetActive", stop.SerializeAsString()));
  ASSERT_EQ(workload().phase, Phase::kEvicting);
  for (const auto& intent : effects_.intents) ASSERT_TRUE(executor_.execute(intent));
  pb::PlacementEvent gone;
  gone.mutable_assignment()->set_uid("uid-train");
  gone.mutable_assignment()->set_attempt(1);
  gone.mutable_assignment()->set_state(pb::RELEASED);
  step(input(service::Source::kBus, "qm.placement", gone.SerializeAsString()));
  ASSERT_EQ(workload().phase, Phase::kPending);
  EXPECT_TRUE(workload().checks.empty());
  stop.set_active(true);
  step(input(service::Source::kRequest, "SetActive", stop.SerializeAsString()));
  auto again = answer();
  again.clear_pod_set_updates();
  again.add_pod_set_updates()->set_name("main");
  (*again.mutable_pod_set_updates(0)->mutable_labels())["request"] = "18";
  say(again);
  ASSERT_TRUE(start());
  const Json later = now().path("spec.template");
  EXPECT_EQ(kube::label(later, "request"), "18");
  EXPECT_EQ(kube::annotation(later, "example.com/machines"), "");
  EXPECT_EQ(later["spec"]["nodeSelector"].dump(), R"({"model":"h100"})");
  EXPECT_EQ(later["spec"]["tolerations"].size(), 0U);
  EXPECT_EQ(kube::annotation(later, words::kAttempt), "2");
}

TEST_F(PodSetUpdates, ConflictsAreRefusedByName) {
  const auto refusal = [&](const std::function<void(pb::PodSetUpdate&)>& change) {
    auto request = answer();
    change(*request.mutable_pod_set_updates(0));
    const auto out = say(request);
    return out.replies.at(0).result ? std::string() : out.replies.at(0).result.error().message;
  };
  EXPECT_EQ(refusal([](auto& update) { update.set_name("worker"); }),
            "podSetUpdates[worker]: unknown pod set; the pod sets are main");
  EXPECT_EQ(refusal([](auto& update) { (*update.mutable_node_selector())["model"] = "a100"; }),
            "podSetUpdates[main].nodeSelector: model is h100 from flavor h100, and a100 in the update");
  EXPECT_EQ(refusal([](auto& update) { (*update.mutable_annotations())["quartermaster.dev/attempt"] = "9"; }),
            "podSetUpdates[main].annotations: an admission check must not set quartermaster.dev/attempt");
  EXPECT_TRUE(workload().gated) << "it still requires an answer";
  EXPECT_EQ(workload().checks.at("machines").verdict, Verdict::kPending);
  auto twice = answer();
  *twice.add_pod_set_updates() = twice.pod_set_updates(0);
  EXPECT_FALSE(codec_.decode(input(service::Source::kRequest, "AnswerCheck", twice.SerializeAsString())));
  auto early = answer();
  early.set_state(pb::CHECK_PENDING);
  EXPECT_FALSE(codec_.decode(input(service::Source::kRequest, "AnswerCheck", early.SerializeAsString())));
  EXPECT_EQ(refusal([](auto&) {}), "");
  EXPECT_FALSE(workload().gated);
}

TEST_F(PodSetUpdates, TemplateFieldsAreNotOverwritten) {
  Json own = job_;
  own.set("spec").set("template").set("metadata").set("labels").set("request", "mine");
  server_.put(own);
  say(answer());
  const auto started = start();
  ASSERT_FALSE(started);
  EXPECT_FALSE(started.error().retryable());
  EXPECT_NE(started.error().message.find("labels request is mine in the template, and 17 by an admission check"),
            std::string::npos)
      << started.error().message;
  EXPECT_TRUE(now().path("spec.suspend").boolean());
}

TEST_F(PodSetUpdates, WorkloadObjectUpdatesAreReadWithTheirCheck) {
  Json object = *Json::parse(R"({"metadata":{"namespace":"team","name":"job-train","uid":"m",
      "labels":{"quartermaster.dev/mirrors":"x"},"annotations":{"quartermaster.dev/attempt":"1"}},
    "status":{"admissionChecks":[{"name":"machines","state":"Ready","podSetUpdates":[{"name":"main",
      "labels":{"a":"1"},"annotations":{"b":"2"},"nodeSelector":{"model":"a100"},
      "tolerations":[{"key":"k","operator":"Equal","value":"v","effect":"NoSchedule"}]}]}]}})");
  object.set("metadata").set("labels").set(kMirrors, "uid-train");
  step(input(service::Source::kWatch, "workload", object.dump()));
  // A check state in an object has no caller that could get an error: the workload stays gated and reports why.
  EXPECT_TRUE(workload().gated);
  const auto why = explain(engine_.state(), workload(), now_);
  EXPECT_NE(why.summary.find("model is h100 from flavor h100, and a100 in the update"), std::string::npos)
      << why.summary;
  object.set("status")
      .set("admissionChecks")
      .items_mut()[0]
      .set("podSetUpdates")
      .items_mut()[0]
      .set("nodeSelector")
      .set("model", "h100");
  step(input(service::Source::kWatch, "workload", object.dump()));
  EXPECT_FALSE(workload().gated);
  const auto& update = workload().checks.at("machines").updates.at("main");
  EXPECT_EQ(update.labels, (Labels{{"a", "1"}}));
  EXPECT_EQ(update.annotations, (Labels{{"b", "2"}}));
  EXPECT_EQ(update.node_selector, (Labels{{"model", "h100"}}));
  ASSERT_EQ(update.tolerations.size(), 1U);
  EXPECT_EQ(update.tolerations[0], (Toleration{"k", "Equal", "v", "NoSchedule"}));
  EXPECT_EQ(from_row(to_row(workload())).checks, workload().checks) << "they are kept in the row";
}

TEST_F(PodSetUpdates, PodUpdatesAreAppliedWhenUngated) {
  state::JobIntent intent;
  intent.set_namespace_("team");
  intent.set_name("alone");
  intent.set_uid("uid-alone");
  intent.set_kind("Pod");
  intent.set_attempt(1);
  auto& set = *intent.add_sets();
  set.set_name("main");
  set.set_count(1);
  (*set.mutable_labels())["request"] = "17";
  (*set.mutable_annotations())["example.com/machines"] = "reserved";
  auto& domain = *set.add_domains();  // the topology assignment of the first pod
  domain.set_count(1);
  (*domain.mutable_node_selector())["kubernetes.io/hostname"] = "a";
  Json pod = *Json::parse(R"({"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"team","name":"alone",
      "uid":"uid-alone","labels":{"request":"mine"}},
      "spec":{"schedulingGates":[{"name":"quartermaster.dev/admission"}],"containers":[{"name":"main"}]}})");
  server_.put(pod);
  const auto run = [&] {
    return executor_.execute({"job.unsuspend/1", "job.unsuspend", "uid-alone", 1, intent.SerializeAsString()});
  };
  const auto refused = run();
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("labels request is mine in pod alone"), std::string::npos);
  pod.set("metadata").erase("labels");
  server_.put(pod);
  ASSERT_TRUE(run());
  const Json now = server_.get("team/alone");
  EXPECT_EQ(kube::label(now, "request"), "17");
  EXPECT_EQ(kube::annotation(now, "example.com/machines"), "reserved");
  EXPECT_EQ(now.path("spec.nodeSelector")["kubernetes.io/hostname"].string(), "a");
  EXPECT_FALSE(gated(now));
}

}  // namespace pod_updates_test
}  // namespace qm::admission
