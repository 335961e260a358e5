// Responses of the API, over gRPC.
#include "api_fixture.hpp"
#include "caller.hpp"

#include <fstream>

namespace qm::admission {
namespace api_test {

using testing::ApiTest;
namespace pb = quartermaster::v1;

TEST_F(ApiTest, FromSubmitToFinish) {
  apply(testing::kQueues);
  pb::SubmitRequest submit;
  submit.set_request_id("req-1");
  submit.set_manifest(testing::make_job("team", "train", "q", 8).dump());
  pb::SubmitResponse submitted;
  ASSERT_EQ(call(&pb::Admission::Stub::Submit, submit, submitted).message, "");
  EXPECT_EQ(submitted.name(), "train");
  ASSERT_TRUE(qm::testing::wait_until([&] { return !jobs_.get("team/train").is_null(); }));
  // A repeated request gets the same response and creates no second job.
  pb::SubmitResponse again;
  ASSERT_EQ(call(&pb::Admission::Stub::Submit, submit, again).message, "");
  EXPECT_EQ(again.name(), "train");

  pb::GetWorkloadRequest by_name;
  by_name.set_namespace_("team");
  by_name.set_name("train");
  pb::Workload creating;
  ASSERT_EQ(call(&pb::Admission::Stub::Get, by_name, creating).message, "");
  EXPECT_EQ(creating.state().phase(), pb::PENDING);

  see(jobs_.get("team/train"));
  ASSERT_TRUE(qm::testing::wait_until([&] { return get("uid-train").state().phase() == pb::QUOTA_RESERVED; }));
  placement("uid-train", 1, pb::RESERVED);
  ASSERT_TRUE(qm::testing::wait_until([&] { return !jobs_.get("team/train")["spec"]["suspend"].boolean(true); }));
  EXPECT_EQ(jobs_.get("team/train").path("spec.template.metadata.annotations")[words::kReservation].string(),
            "r-uid-train");
  EXPECT_EQ(get("uid-train").state().phase(), pb::ADMITTED);
  Json done = jobs_.get("team/train");
  done.set("status").set("conditions", *Json::parse(R"([{"type":"Complete","status":"True"}])"));
  see(done);
  ASSERT_TRUE(qm::testing::wait_until([&] { return get("uid-train").state().phase() == pb::FINISHED; }));
  EXPECT_TRUE(get("uid-train").state().succeeded());
  const std::string page = registry_.text();
  EXPECT_NE(page.find("kueue_admitted_workloads_total{cluster_queue=\"research\"} 1"), std::string::npos) << page;
  EXPECT_NE(page.find("kueue_admission_wait_time_seconds_count{cluster_queue=\"research\"} 1"), std::string::npos);
  EXPECT_NE(page.find("kueue_finished_workloads_total"), std::string::npos);
  EXPECT_NE(page.find("kueue_cluster_queue_nominal_quota{cluster_queue=\"research\",resource="
                      "\"nvidia.com/gpu\"} 8"),
            std::string::npos)
      << page;
  EXPECT_NE(page.find("kueue_pending_workloads{cluster_queue=\"research\",status=\"active\"} 0"), std::string::npos);
}

// S-115: the share of a Volcano queue in its pool. VolcanoSession.OverAContendedHour* checks that it follows the
// weights.
TEST_F(ApiTest, DominantSharesOfPoolAreExported) {
  apply(R"(
kind: ResourceFlavor
apiVersion: kueue.x-k8s.io/v1beta1
metadata: {name: any}
---
kind: Cohort
apiVersion: kueue.x-k8s.io/v1beta1
metadata: {name: cluster, annotations: {quartermaster.dev/queue-rules: proportion}}
spec:
  resourceGroups:
  - coveredResources: [nvidia.com/gpu]
    flavors: [{name: any, resources: [{name: nvidia.com/gpu, nominalQuota: 12}]}]
---
kind: Queue
apiVersion: scheduling.volcano.sh/v1beta1
metadata: {name: one}
spec: {weight: 1}
---
kind: Queue
apiVersion: scheduling.volcano.sh/v1beta1
metadata: {name: two}
spec: {weight: 2}
)");
  for (int i = 0; i < 12; ++i) {
    see(testing::make_job("team", fmt::format("two-{}", i), "two", 1));
    see(testing::make_job("team", fmt::format("one-{}", i), "one", 1));
  }
  EXPECT_TRUE(qm::testing::wait_until([&] {
    const std::string page = registry_.text();
    return page.find("qm_queue_dominant_share{cluster_queue=\"one\"} 0.3333") != std::string::npos &&
           page.find("qm_queue_dominant_share{cluster_queue=\"two\"} 0.6666") != std::string::npos;
  })) << registry_.text();
}

// S-094: the number of pending workloads, under Kueue's name and label, for each of three queues.
TEST_F(ApiTest, PendingWorkloadsAreCountedByClusterQueue) {
  const std::map<std::string, int> waiting{{"alpha", 0}, {"beta", 2}, {"gamma", 5}};
  std::string manifest = "kind: ResourceFlavor\napiVersion: kueue.x-k8s.io/v1beta1\nmetadata: {name: any}\n";
  for (const auto& [name, jobs] : waiting) {
    manifest += fmt::format(
        "---\nkind: ClusterQueue\napiVersion: kueue.x-k8s.io/v1beta1\nmetadata: {{name: {0}}}\nspec:\n"
        "  namespaceSelector: {{}}\n  resourceGroups:\n  - coveredResources: [nvidia.com/gpu]\n    flavors:\n    - name: any\n"
        "      resources: [{{name: nvidia.com/gpu, nominalQuota: 1}}]\n"
        "---\nkind: LocalQueue\napiVersion: kueue.x-k8s.io/v1beta1\nmetadata: {{name: q, namespace: {0}}}\n"
        "spec: {{clusterQueue: {0}}}\n",
        name);
  }
  apply(manifest);
  int jobs = 0;
  for (const auto& [name, more] : waiting) {
    for (int i = 0; i <= more; ++i)  // one has the quota
      see(testing::make_job(name, fmt::format("{}-{}", name, ++jobs), "q", 1));
  }
  ASSERT_TRUE(qm::testing::wait_until([&] { return get(fmt::format("uid-gamma-{}", jobs)).state().attempt() == 1; }));
  const std::string page = registry_.text();
  for (const auto& [name, depth] : waiting) {
    EXPECT_NE(
        page.find(fmt::format("kueue_pending_workloads{{cluster_queue=\"{}\",status=\"active\"}} {}\n", name, depth)),
        std::string::npos)
        << page;
  }
}

// S-095: the 95th percentile that Prometheus computes from the histogram is in the bucket of the exact one.
TEST_F(ApiTest, WaitTimesGiveQuantileWithinBucket) {
  constexpr int kRounds = 100, kEach = 100;
  std::string queues = testing::kQueues;
  const auto quota = queues.find("nominalQuota: 8");
  ASSERT_NE(quota, std::string::npos);
  apply(queues.replace(quota, 15, "nominalQuota: 10000"));
  const auto comes = [&](const std::string& uid, pb::WorkloadPhase phase) {
    return qm::testing::wait_until([&] { return get(uid).state().phase() == phase; });
  };
  // Each round is pending longer than the one before, from half a second to more than an hour.
  std::vector<double> waits;
  for (int round = 0; round < kRounds; ++round) {
    const auto name = [&](int i) { return fmt::format("j{}-{}", round, i); };
    for (int i = 0; i < kEach; ++i) see(testing::make_job("team", name(i), "q", 1));
    ASSERT_TRUE(comes("uid-" + name(kEach - 1), pb::QUOTA_RESERVED));
    const double wait = 0.5 + 45 * round;
    clock_.advance(std::chrono::duration_cast<Duration>(std::chrono::duration<double>(wait)));
    for (int i = 0; i < kEach; ++i) {
      placement("uid-" + name(i), 1, pb::RESERVED);
      waits.push_back(wait);
    }
    ASSERT_TRUE(comes("uid-" + name(kEach - 1), pb::ADMITTED));
  }
  const double exact = waits[static_cast<std::size_t>(0.95 * kRounds * kEach) - 1];

  // histogram_quantile(0.95, ...): the first bucket with enough samples, with linear interpolation.
  const std::string page = registry_.text();
  const std::string bucket = "kueue_admission_wait_time_seconds_bucket{cluster_queue=\"research\",le=\"";
  double below = 0, count_below = 0, quantile = -1, low = 0, high = 0;
  for (auto at = page.find(bucket); at != std::string::npos && quantile < 0; at = page.find(bucket, at + 1)) {
    const auto from = at + bucket.size();
    const auto end = page.find('"', from);
    const std::string le = page.substr(from, end - from);
    const double count = std::stod(page.substr(page.find(' ', end)));
    const double bound = le == "+Inf" ? 1e18 : std::stod(le);
    if (count >= 0.95 * kRounds * kEach) {
      quantile = below + (bound - below) * (0.95 * kRounds * kEach - count_below) / (count - count_below);
      low = below, high = bound;
    }
    below = bound, count_below = count;
  }
  EXPECT_NE(page.find("kueue_admission_wait_time_seconds_count{cluster_queue=\"research\"} 10000\n"),
            std::string::npos);
  EXPECT_GT(quantile, 0) << page;
  EXPECT_GE(exact, low) << quantile;
  EXPECT_LE(exact, high) << quantile;
}

TEST_F(ApiTest, ErrorsNameFieldAndRemedy) {
  pb::ApplyRequest broken;
  broken.set_source("queues.yaml");
  broken.set_manifest(std::string(testing::kQueues) +
                      "---\nkind: ClusterQueue\napiVersion: kueue.x-k8s.io/v1beta1\nmetadata: "
                      "{name: b}\nspec: {queueingStrategy: Best}\n");
  pb::ApplyResponse response;
  const auto error = call(&pb::Admission::Stub::Apply, broken, response);
  EXPECT_EQ(error.code, Code::kInvalid);
  EXPECT_NE(error.message.find("queues.yaml:"), std::string::npos) << error.message;
  EXPECT_FALSE(error.field.empty());
  EXPECT_FALSE(error.remedy.empty());
  pb::ListQueuesResponse queues;
  call(&pb::Admission::Stub::ListQueues, pb::ListQueuesRequest(), queues);
  EXPECT_EQ(queues.queues_size(), 0);  // nothing is applied in part

  pb::ApplyRequest dry;
  dry.set_manifest(testing::kQueues);
  dry.set_dry_run(true);
  EXPECT_EQ(call(&pb::Admission::Stub::Apply, dry, response).message, "");
  EXPECT_EQ(response.applied_size(), 3);
  call(&pb::Admission::Stub::ListQueues, pb::ListQueuesRequest(), queues);
  EXPECT_EQ(queues.queues_size(), 0);

  pb::GetWorkloadRequest ghost;
  pb::Workload workload;
  EXPECT_EQ(call(&pb::Admission::Stub::Get, ghost, workload).code, Code::kInvalid);
  ghost.set_uid("ghost");
  EXPECT_EQ(call(&pb::Admission::Stub::Get, ghost, workload).code, Code::kNotFound);
  pb::CancelResponse cancelled;
  EXPECT_EQ(call(&pb::Admission::Stub::Cancel, pb::CancelRequest(), cancelled).code, Code::kInvalid);
  pb::ListWorkloadsRequest list;
  list.set_page_size(5000);
  pb::ListWorkloadsResponse listed;
  EXPECT_EQ(call(&pb::Admission::Stub::List, list, listed).field, "page_size");
  pb::SnapshotRequest other;
  other.set_topic("qm.cost");
  pb::SnapshotResponse page;
  EXPECT_EQ(call(&pb::Admission::Stub::Snapshot, other, page).code, Code::kInvalid);
}

TEST_F(ApiTest, SubmissionThatServerRefusesIsExplained) {
  apply(testing::kQueues);
  Json foreign = testing::make_job("team", "train", "q", 8);
  jobs_.put(foreign);  // of another owner
  pb::SubmitRequest submit;
  submit.set_manifest(foreign.dump());
  pb::SubmitResponse submitted;
  ASSERT_EQ(call(&pb::Admission::Stub::Submit, submit, submitted).message, "");
  pb::ExplainRequest why;
  why.set_namespace_("team");
  why.set_name("train");
  pb::Explanation explanation;
  ASSERT_TRUE(qm::testing::wait_until([&] {
    call(&pb::Admission::Stub::Explain, why, explanation);
    return explanation.causes_size() == 1 && explanation.causes(0).code() == "CreateFailed";
  }));
  EXPECT_FALSE(explanation.causes(0).remedy().empty());

  // It is listed like any job that failed, by itself and among others, page by page.
  see(testing::make_job("team", "runs", "q", 8));
  ASSERT_TRUE(qm::testing::wait_until([&] { return get("uid-runs").state().attempt() == 1; }));
  pb::ListWorkloadsRequest list;
  list.set_page_size(1);
  std::vector<std::string> listed;
  for (;;) {
    pb::ListWorkloadsResponse page;
    ASSERT_EQ(call(&pb::Admission::Stub::List, list, page).message, "");
    EXPECT_EQ(page.total(), 2);
    for (const auto& w : page.workloads()) listed.push_back(w.state().spec().name());
    if (page.next_page_token().empty()) break;
    list.set_page_token(page.next_page_token());
  }
  EXPECT_EQ(listed, (std::vector<std::string>{"runs", "train"}));
  list.Clear();
  list.set_phase(pb::FINISHED);
  list.set_queue("q");
  list.set_team("team");
  pb::ListWorkloadsResponse failed;
  ASSERT_EQ(call(&pb::Admission::Stub::List, list, failed).message, "");
  ASSERT_EQ(failed.workloads_size(), 1);
  EXPECT_FALSE(failed.workloads(0).state().succeeded());
  EXPECT_EQ(failed.workloads(0).state().reason(), "the job could not be created: " + explanation.causes(0).message());
  list.set_queue("another");
  ASSERT_EQ(call(&pb::Admission::Stub::List, list, failed).message, "");
  EXPECT_EQ(failed.total(), 0);
}

TEST_F(ApiTest, ListsInPagesAndByFilter) {
  apply(testing::kQueues);
  for (int i = 0; i < 5; ++i) see(testing::make_job("team", fmt::format("j{}", i), "q", 4));
  see(testing::make_job("other", "k", "nowhere", 4));
  ASSERT_TRUE(qm::testing::wait_until([&] { return get("uid-k").state().attempt() == 1; }));
  pb::ListWorkloadsRequest request;
  request.set_page_size(2);
  std::vector<std::string> names;
  for (;;) {
    pb::ListWorkloadsResponse page;
    ASSERT_EQ(call(&pb::Admission::Stub::List, request, page).message, "");
    EXPECT_EQ(page.total(), 6);
    EXPECT_GT(page.resume_version(), 0U);
    for (const auto& w : page.workloads()) names.push_back(w.state().spec().name());
    if (page.next_page_token().empty()) break;
    request.set_page_token(page.next_page_token());
  }
  EXPECT_EQ(names, (std::vector<std::string>{"j0", "j1", "j2", "j3", "j4", "k"}));
  pb::ListWorkloadsRequest waiting;
  waiting.set_queue("research");
  waiting.set_phase(pb::PENDING);
  pb::ListWorkloadsResponse page;
  call(&pb::Admission::Stub::List, waiting, page);
  ASSERT_EQ(page.total(), 3);  // two fit
  EXPECT_EQ(page.workloads(0).position(), 1);
  EXPECT_EQ(page.workloads(2).position(), 3);
  pb::ListWorkloadsRequest team;
  team.set_team("other");
  call(&pb::Admission::Stub::List, team, page);
  EXPECT_EQ(page.total(), 1);

  pb::ListQueuesResponse queues;
  call(&pb::Admission::Stub::ListQueues, pb::ListQueuesRequest(), queues);
  ASSERT_EQ(queues.queues_size(), 1);
  EXPECT_EQ(queues.queues(0).pending(), 3);
  EXPECT_EQ(queues.queues(0).used().at("nvidia.com/gpu"), 8000);

  pb::SnapshotRequest snapshot;
  snapshot.set_topic(kTopic);
  snapshot.set_page_size(4);
  pb::SnapshotResponse entries;
  ASSERT_EQ(call(&pb::Admission::Stub::Snapshot, snapshot, entries).message, "");
  ASSERT_EQ(entries.entries_size(), 4);
  snapshot.set_page_token(entries.next_page_token());
  ASSERT_EQ(call(&pb::Admission::Stub::Snapshot, snapshot, entries).message, "");
  EXPECT_EQ(entries.entries_size(), 2);
  EXPECT_TRUE(entries.next_page_token().empty());
}

TEST_F(ApiTest, WatchStartsWithStateAndResumes) {
  apply(testing::kQueues);
  see(testing::make_job("team", "a", "q", 4));
  ASSERT_TRUE(qm::testing::wait_until([&] { return get("uid-a").state().phase() == pb::QUOTA_RESERVED; }));
  std::uint64_t version = 0;
  {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    auto reader = stub_->Watch(&context, pb::WatchWorkloadsRequest());
    pb::WorkloadUpdate update;
    ASSERT_TRUE(reader->Read(&update));
    EXPECT_EQ(update.workload().state().spec().name(), "a");
    EXPECT_EQ(update.workload().state().phase(), pb::QUOTA_RESERVED);
    see(testing::make_job("team", "b", "q", 8));
    ASSERT_TRUE(reader->Read(&update));
    EXPECT_EQ(update.workload().state().spec().name(), "b");
    version = update.resume_version();
    context.TryCancel();
    while (reader->Read(&update)) {
    }
    EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  placement("uid-a", 1, pb::RESERVED);
  see(testing::make_job("elsewhere", "c", "q", 8));
  {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    pb::WatchWorkloadsRequest resume;
    resume.set_resume_version(version);
    resume.set_namespace_("team");
    auto reader = stub_->Watch(&context, resume);
    pb::WorkloadUpdate update;
    ASSERT_TRUE(reader->Read(&update));
    EXPECT_EQ(update.workload().state().phase(), pb::ADMITTED);
    EXPECT_GT(update.resume_version(), version);
    context.TryCancel();
  }
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  pb::WatchWorkloadsRequest future;
  future.set_resume_version(1'000'000);
  auto reader = stub_->Watch(&context, future);
  pb::WorkloadUpdate update;
  EXPECT_FALSE(reader->Read(&update));
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::OUT_OF_RANGE);
}

TEST_F(ApiTest, ExplainAndCancel) {
  apply(testing::kQueues);
  see(testing::make_job("team", "a", "q", 8));
  jobs_.put(testing::make_job("team", "b", "q", 8));
  see(jobs_.get("team/b"));
  ASSERT_TRUE(qm::testing::wait_until([&] { return get("uid-b").state().attempt() == 1; }));
  pb::ExplainRequest why;
  why.set_uid("uid-b");
  pb::Explanation explanation;
  ASSERT_EQ(call(&pb::Admission::Stub::Explain, why, explanation).message, "");
  ASSERT_EQ(explanation.causes_size(), 1);
  EXPECT_EQ(explanation.causes(0).code(), "QuotaExceeded");
  EXPECT_EQ(explanation.causes(0).requested(), 8000);
  EXPECT_EQ(explanation.causes(0).available(), 0);
  const auto json = explain_json(*host_, clock_, "uid-b");
  ASSERT_TRUE(json);
  EXPECT_EQ((*json)["position"].integer(), 1);
  EXPECT_EQ(explain_json(*host_, clock_, "ghost").error().code, Code::kNotFound);
  pb::CancelRequest cancel;
  cancel.set_namespace_("team");
  cancel.set_name("b");
  pb::CancelResponse cancelled;
  ASSERT_EQ(call(&pb::Admission::Stub::Cancel, cancel, cancelled).message, "");
  EXPECT_EQ(cancelled.phase(), pb::CANCELLED);
  EXPECT_TRUE(qm::testing::wait_until([&] { return jobs_.get("team/b").is_null(); }));
}

TEST_F(ApiTest, ManifestsOfCommandLine) {
  qm::testing::TempDir dir;
  std::ofstream(dir.path() + "/queues.yaml") << testing::kQueues;
  EXPECT_TRUE(apply_file(*host_, dir.path()));
  pb::ListQueuesResponse queues;
  call(&pb::Admission::Stub::ListQueues, pb::ListQueuesRequest(), queues);
  EXPECT_EQ(queues.queues_size(), 1);
  EXPECT_EQ(apply_file(*host_, dir.path() + "/none.yaml").error().code, Code::kNotFound);
  std::ofstream(dir.path() + "/bad.yaml") << "kind: [";
  const auto bad = apply_file(*host_, dir.path() + "/bad.yaml");
  ASSERT_FALSE(bad);
  EXPECT_NE(bad.error().message.find("bad.yaml"), std::string::npos);
}

TEST_F(ApiTest, TenantSeesAndChangesOnlyItsOwn) {
  qm::testing::TempDir dir;
  std::ofstream(dir.path() + "/roles.yaml")
      << "apiVersion: access.quartermaster.dev/v1alpha1\nkind: RoleMap\nspec:\n  tenants:\n"
         "  - {name: team, users: [ursula], namespaces: [team], teams: [blue]}\n"
         "  - {name: other, users: [otto], namespaces: [other]}\n";
  rpc::AccessOptions access;
  access.review = [](const std::string& token) -> Result<rpc::Identity> { return rpc::Identity{token, {}}; };
  access.roles = *rpc::RoleMap::open(dir.path() + "/roles.yaml");
  rpc::ServerOptions options;
  options.access = std::make_shared<rpc::Access>(std::move(access));
  const auto api = make_service(*host_, clock_);
  rpc::Server guarded(options, {api.get()});
  ASSERT_TRUE(guarded.start());
  const testing::Caller as(guarded.port());
  constexpr auto kOk = static_cast<Code>(0);
  apply(testing::kQueues);
  see(testing::make_job("team", "a", "q", 8));
  ASSERT_TRUE(qm::testing::wait_until([&] { return get("uid-a").version() > 0; }));

  pb::GetWorkloadRequest get_it;
  get_it.set_uid("uid-a");
  pb::Workload workload;
  EXPECT_EQ(as("ursula", &pb::Admission::Stub::Get, get_it, workload).code, kOk);
  EXPECT_EQ(as("otto", &pb::Admission::Stub::Get, get_it, workload).code, Code::kNotFound);
  pb::ExplainRequest why;
  why.set_uid("uid-a");
  pb::Explanation explanation;
  EXPECT_EQ(as("ursula", &pb::Admission::Stub::Explain, why, explanation).code, kOk);
  EXPECT_EQ(as("otto", &pb::Admission::Stub::Explain, why, explanation).code, Code::kNotFound);
  pb::WhenRequest when;
  when.set_uid("uid-a");
  pb::WhenResponse start;
  EXPECT_EQ(as("ursula", &pb::Admission::Stub::When, when, start).code, kOk);
  EXPECT_EQ(as("otto", &pb::Admission::Stub::When, when, start).code, Code::kNotFound);
  pb::ListWorkloadsResponse mine, theirs;
  EXPECT_EQ(as("ursula", &pb::Admission::Stub::List, pb::ListWorkloadsRequest(), mine).code, kOk);
  EXPECT_EQ(mine.total(), 1);
  EXPECT_EQ(as("otto", &pb::Admission::Stub::List, pb::ListWorkloadsRequest(), theirs).code, kOk);
  EXPECT_EQ(theirs.total() + theirs.workloads_size(), 0);
  pb::ListQueuesResponse queues, none;
  EXPECT_EQ(as("ursula", &pb::Admission::Stub::ListQueues, pb::ListQueuesRequest(), queues).code, kOk);
  EXPECT_EQ(queues.queues_size(), 1);
  EXPECT_EQ(as("otto", &pb::Admission::Stub::ListQueues, pb::ListQueuesRequest(), none).code, kOk);
  EXPECT_EQ(none.queues_size(), 0);

  // A job for the namespace of another tenant, or at the cost of another team, by spec and by manifest.
  pb::SubmitRequest submit;
  pb::SubmitResponse submitted;
  auto& spec = *submit.mutable_spec();
  spec.set_namespace_("team");
  spec.set_name("b");
  spec.set_queue("q");
  spec.add_pod_sets()->set_count(1);
  EXPECT_EQ(as("otto", &pb::Admission::Stub::Submit, submit, submitted).code, Code::kPermissionDenied);
  spec.set_team("green");
  EXPECT_EQ(as("ursula", &pb::Admission::Stub::Submit, submit, submitted).code, Code::kPermissionDenied);
  spec.set_team("blue");
  EXPECT_EQ(as("ursula", &pb::Admission::Stub::Submit, submit, submitted).message, "");
  pb::SubmitRequest manifest;
  manifest.set_manifest(testing::make_job("team", "c", "q", 1).dump());
  EXPECT_EQ(as("otto", &pb::Admission::Stub::Submit, manifest, submitted).code, Code::kPermissionDenied);
  pb::CancelRequest cancel;
  cancel.set_uid("uid-a");
  pb::CancelResponse cancelled;
  EXPECT_EQ(as("otto", &pb::Admission::Stub::Cancel, cancel, cancelled).code, Code::kNotFound);
  EXPECT_NE(get("uid-a").state().phase(), pb::CANCELLED);

  // A watch omits workloads of others: the first update of ursula is her own, and that of otto is of a job that is
  // created later.
  const auto first_of = [&](const std::string& who) {
    grpc::ClientContext context;
    testing::Caller::prepare(context, who);
    auto reader = as.stub().Watch(&context, {});
    pb::WorkloadUpdate update;
    const bool any = reader->Read(&update);
    context.TryCancel();
    (void)reader->Finish();
    return any ? update.workload().state().spec().uid() : std::string("nothing");
  };
  EXPECT_EQ(first_of("ursula"), "uid-a");
  see(testing::make_job("other", "z", "q", 1));
  EXPECT_EQ(first_of("otto"), "uid-z");

  EXPECT_EQ(as("ursula", &pb::Admission::Stub::Cancel, cancel, cancelled).message, "");
  guarded.stop();
}

// The response has the refusal of the API server. A temporary error is not a refusal.
TEST_F(ApiTest, SubmitIsRefusedLikeJobByApiServer) {
  apply(testing::kQueues);
  const struct {
    int status;
    const char *reason, *message;
    Code code;
  } cases[] = {
      {422, "Invalid", "Job.batch \"x\" is invalid: spec.activeDeadlineSeconds: Invalid value: -3", Code::kInvalid},
      {400, "BadRequest", "Job in version \"v1\" cannot be handled as a Job", Code::kInvalid},
      {403, "Forbidden", "admission webhook \"policy\" denied the request: no", Code::kInvalid},
      {404, "NotFound", "namespaces \"team\" not found", Code::kNotFound},
      {403, "Forbidden", "jobs.batch \"x\" is forbidden: exceeded quota: compute", Code::kInternal},
      {503, "ServiceUnavailable", "the server is overloaded", Code::kInternal},
  };
  int n = 0;
  for (const auto& one : cases) {
    jobs_.refuse_writes(one.status, one.reason, one.message);
    pb::SubmitRequest submit;
    submit.set_request_id(fmt::format("r{}", ++n));
    submit.set_manifest(testing::make_job("team", fmt::format("x{}", n), "q", 1).dump());
    pb::SubmitResponse submitted;
    const auto error = call(&pb::Admission::Stub::Submit, submit, submitted);
    EXPECT_EQ(error.code, one.code) << one.message << ": " << error.to_string();
    if (one.code == Code::kInternal) {
      EXPECT_EQ(error.message, "") << one.message;
    } else {
      EXPECT_EQ(error.message,
                fmt::format("test: the API server refuses Job team/x{}: {}: {}", n, one.status, one.message));
      EXPECT_NE(error.remedy, "") << one.message;
    }
  }
}

}  // namespace api_test
}  // namespace qm::admission
