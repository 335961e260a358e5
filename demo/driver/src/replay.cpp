#include "replay.hpp"

#include "qm/base/log.hpp"
#include "qm/model/resources.hpp"
#include "qm/rpc/channel.hpp"
#include "quartermaster/v1/admission_service.grpc.pb.h"

#include <grpcpp/grpcpp.h>

#include <fstream>
#include <map>
#include <sstream>

namespace qm::demo {
namespace pb = quartermaster::v1;

namespace {

constexpr std::int32_t kGpusPerNode = 8;

/// Virtual clusters have hashed names such as "6214e9": a Kubernetes name may start with a digit, but not be a number.
std::string team_name(const std::string& vc) {
  std::string name = "team-";
  for (const char c : vc)
    name += std::isalnum(static_cast<unsigned char>(c)) ? static_cast<char>(std::tolower(c)) : '-';
  return name;
}

}  // namespace

Result<trace::Window> choose_window(const Options& o) {
  trace::Window window;
  if (o.trace.empty()) {
    trace::ModelOptions model;
    model.seed = o.seed;
    model.hours = o.hours;
    if (o.nodes > 0) model.running_gpus = std::int64_t{o.nodes} * kGpusPerNode * 9 / 10;
    window = trace::draw(model);
    if (o.from_s >= 0) {
      std::erase_if(window.arriving,
                    [&](const trace::Job& j) { return j.submit_s < o.from_s || j.submit_s >= o.until_s; });
      window.from_s = o.from_s;
      window.until_s = o.until_s;
    }
  } else {
    std::ifstream in(o.trace, std::ios::binary);
    std::stringstream text;
    text << in.rdbuf();
    QM_ASSIGN(const auto jobs, trace::read_csv(text.str(), o.trace));
    window = o.from_s >= 0 ? trace::window_of(jobs, o.from_s, o.until_s) : trace::busiest(jobs, o.hours, kGpusPerNode);
  }
  const std::size_t jobs = o.jobs >= 0 ? static_cast<std::size_t>(o.jobs) : window.arriving.size();
  const std::int64_t running = o.nodes > 0 ? std::int64_t{o.nodes} * kGpusPerNode * 9 / 10 : window.running_gpus();
  return trace::thinned(window, jobs, running);
}

std::string queue_manifests(const trace::Window& window, std::int64_t quota_gpus) {
  std::map<std::string, double> weight;
  double total = 0;
  for (const auto* list : {&window.running, &window.arriving}) {
    for (const auto& job : *list) {
      const double part =
          static_cast<double>(job.gpus) * static_cast<double>(std::min<std::int64_t>(job.duration_s, 14400));
      weight[job.team] += part;
      total += part;
    }
  }
  std::string yaml = "apiVersion: kueue.x-k8s.io/v1beta1\nkind: ResourceFlavor\nmetadata:\n  name: gpu\nspec: {}\n";
  for (const auto& [vc, part] : weight) {
    const std::string team = team_name(vc);
    const auto quota = static_cast<std::int64_t>(static_cast<double>(quota_gpus) * part / total);
    yaml += fmt::format(
        "---\napiVersion: kueue.x-k8s.io/v1beta1\nkind: ClusterQueue\nmetadata:\n  name: {0}\nspec:\n  cohort: gpus\n"
        "  namespaceSelector: {{}}\n  queueingStrategy: BestEffortFIFO\n  resourceGroups:\n"
        "  - coveredResources: [\"nvidia.com/gpu\", cpu, memory]\n    flavors:\n    - name: gpu\n      resources:\n"
        "      - name: nvidia.com/gpu\n        nominalQuota: \"{1}\"\n"
        "      - name: cpu\n        nominalQuota: \"100000\"\n      - name: memory\n        nominalQuota: 1000Ti\n"
        "---\napiVersion: kueue.x-k8s.io/v1beta1\nkind: LocalQueue\nmetadata:\n  name: jobs\n  namespace: {0}\nspec:\n"
        "  clusterQueue: {0}\n",
        team, quota);
  }
  return yaml;
}

std::string pool_manifest(std::int64_t limit_gpus) {
  const std::string node_class =
      "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata:\n  name: gpu\nspec:\n"
      "  amiSelectorTerms:\n  - alias: al2023@latest\n  role: gpu-nodes\n"
      "  subnetSelectorTerms:\n  - tags: {karpenter.sh/discovery: quartermaster}\n"
      "  securityGroupSelectorTerms:\n  - tags: {karpenter.sh/discovery: quartermaster}\n---\n";
  return node_class +
         fmt::format(
             "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata:\n  name: gpu-burst\nspec:\n  weight: 10\n  template:\n    spec:\n"
             "      nodeClassRef:\n        group: karpenter.k8s.aws\n        kind: EC2NodeClass\n        name: gpu\n      requirements:\n"
             "      - key: node.kubernetes.io/instance-type\n        operator: In\n        values: [\"p5.48xlarge\"]\n"
             "      - key: karpenter.sh/capacity-type\n        operator: In\n        values: [\"spot\", \"on-demand\"]\n"
             "      - key: topology.kubernetes.io/zone\n        operator: In\n        values: [\"us-east-1a\"]\n"
             "  disruption:\n    consolidationPolicy: WhenEmpty\n    consolidateAfter: 5m\n"
             "  limits:\n    nvidia.com/gpu: \"{}\"\n",
             limit_gpus);
}

Submitter::Submitter(Stack& stack, const trace::Window& window, std::string run_id)
    : stack_(stack), window_(window), run_id_(std::move(run_id)) {}

Status Submitter::apply_queues(const std::string& manifests) {
  std::set<std::string> teams;
  for (const auto* list : {&window_.running, &window_.arriving}) {
    for (const auto& job : *list) teams.insert(team_name(job.team));
  }
  for (const auto& team : teams) QM_TRY(stack_.make_namespace(team));
  auto stub = pb::Admission::NewStub(rpc::channel_to(stack_.grpc("admission")));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  pb::ApplyRequest request;
  request.set_request_id(run_id_ + "/queues");
  request.set_manifest(manifests);
  request.set_source("queues.yaml");
  pb::ApplyResponse response;
  const auto status = stub->Apply(&context, request, &response);
  if (!status.ok()) return fail(Code::kInternal, "queues are refused: {}", status.error_message());
  return {};
}

Status Submitter::submit(const trace::Job& job, const std::string& name) {
  const std::string team = team_name(job.team);
  const std::int32_t per_pod = job.gpus % kGpusPerNode == 0 ? kGpusPerNode : job.gpus < kGpusPerNode ? job.gpus : 4;
  const std::int32_t pods = std::max(1, (job.gpus + per_pod - 1) / per_pod);
  pb::SubmitRequest request;
  request.set_request_id(run_id_ + "/" + name);
  auto* spec = request.mutable_spec();
  spec->set_namespace_(team);
  spec->set_name(name);
  spec->set_kind("Job");
  spec->set_queue("jobs");
  spec->set_team(team);
  // kwok's pods have no state to save.
  const bool saves = (all_save_ || job.gpus >= 2) && stack_.real() == nullptr;
  spec->set_checkpoints(saves);
  auto* set = spec->add_pod_sets();
  set->set_name("main");
  set->set_count(pods);
  set->mutable_shape()->set_cpu_milli(per_pod * 4000);
  set->mutable_shape()->set_memory_bytes(std::int64_t{per_pod} << 34);
  set->mutable_shape()->mutable_gpu()->set_whole(per_pod);
  auto& notes = *request.mutable_pod_annotations();
  notes["fleet.quartermaster.dev/run-seconds"] = std::to_string(job.duration_s);

  auto stub = pb::Admission::NewStub(rpc::channel_to(stack_.grpc("admission")));
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  for (;;) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(5));
    context.set_wait_for_ready(true);
    pb::SubmitResponse response;
    const auto status = stub->Submit(&context, request, &response);
    if (status.ok()) break;
    const bool again = status.error_code() == grpc::StatusCode::UNAVAILABLE ||
                       status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED ||
                       status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED ||
                       status.error_code() == grpc::StatusCode::UNKNOWN;
    if (!again || std::chrono::steady_clock::now() > give_up) {
      return fail(Code::kInternal, "{} is refused: {}", name, status.error_message());
    }
  }
  const std::lock_guard lock(mutex_);
  acked_.insert(team + "/" + name);
  return {};
}

Status Submitter::submit_running() {
  for (const auto& job : window_.running) {
    QM_TRY(submit(job, fmt::format("before-{}", running_.load())));
    ++running_;
  }
  return {};
}

void Submitter::start(Instant start) {
  thread_ = std::jthread([this, start](const std::stop_token& stop) {
    while (!stop.stop_requested() && !done()) {
      const auto& job = window_.arriving[next_];
      const Instant at = start + std::chrono::seconds(job.submit_s - window_.from_s);
      if (const auto wait = stack_.clock().until(at); wait > SteadyDuration::zero()) {
        std::this_thread::sleep_for(std::min<SteadyDuration>(wait, DomainClock::kSlice));
        continue;
      }
      if (auto ok = submit(job, fmt::format("job-{}", next_.load())); !ok) {
        log::error("submission fails", {{"error", ok.error().to_string()}});
      }
      ++next_;
    }
  });
}

void Submitter::stop() { thread_ = {}; }

std::set<std::string> Submitter::acked() const {
  const std::lock_guard lock(mutex_);
  return acked_;
}

}  // namespace qm::demo
